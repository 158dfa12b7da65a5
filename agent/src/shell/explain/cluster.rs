//! Reads the cluster once, and watches the Leases for as long as one renewal is good for.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use vipward_common::Policy;

use super::{ExplainError, Options, host};
use crate::{
    core::{
        cluster::{ClaimRecord, LeaseRecord, NodeName},
        explain::{Cluster, LeaseSeen, Look},
        net::NetView,
        ownership::{self, Engine, Found},
        services::{self, HostNetwork, Services},
        time::Monotonic,
    },
    shell::{
        bind,
        causes::chain,
        clock,
        kube::{ConnectError, Kube, Limits, Reader, Reading, Resource, Seen, Server},
    },
};

/// Until when everything must have been listed.
const LISTING: Duration = Duration::from_secs(20);
/// A Lease is watched no longer, whatever it says of itself: one that is good for longer is of an agent that is restarted.
const WATCHING: Duration = Duration::from_secs(10);
/// A renewal may be on its way when its time is over.
const MARGIN: Duration = Duration::from_millis(500);
/// Bounds every request.
const LIMITS: Limits = Limits { lease: Duration::from_secs(10), margin: Duration::ZERO };

/// What the API server has of the address.
pub(super) async fn look(
    options: &Options,
    view: &NetView,
    progress: &mut impl FnMut(&str),
) -> Result<Look<Cluster>, ExplainError> {
    let server = match Server::find(&options.access, LIMITS).await {
        Ok(server) => server,
        // Nobody has said that there is a cluster.
        Err(ConnectError::NotInCluster(_)) => {
            let why = "no kubeconfig (--kubeconfig), and not in a Pod: what a cluster has was not looked at";
            return Ok(Look::Not(why.to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    // Nobody's name: every node is another one.
    let kube = Kube::new(server.clone(), NodeName::from(""), &options.lease_namespace);
    let namespaces = options.services.namespace_selector.is_some();
    let reading = Reading { namespaces, service_labels: options.services.service_selector.is_some() };
    let (_reader, mut seen) = Reader::start(&kube, reading)?;
    let mut world = World::new(options, &server, view).await?;
    let to_list = Resource::ALL.len() - usize::from(!namespaces);
    let deadline = Instant::now() + LISTING;
    while world.listed.len() < to_list {
        match next(&mut seen, deadline).await {
            Some(Seen::Trouble { resource, problem }) => {
                return Ok(Look::Failed(format!("{resource}: {}", chain(&*problem))));
            }
            Some(seen) => world.take_in(seen)?,
            None => return Ok(Look::Failed(format!("{} has not listed everything in 20 s", server.url()))),
        }
    }
    world.services.on_event(services::Event::Synced);
    progress("watching the nodes' Leases: whether they are renewed is seen, not believed");
    while let Some(until) = world.watched_until()? {
        let deadline = Instant::now() + until.saturating_since(now()?);
        match next(&mut seen, deadline).await {
            Some(Seen::Trouble { .. }) | None => {}
            Some(seen) => world.take_in(seen)?,
        }
    }
    Ok(Look::Seen(world.facts(options)?))
}

async fn next(seen: &mut mpsc::Receiver<Seen>, deadline: Instant) -> Option<Seen> {
    timeout_at(deadline, seen.recv()).await.ok().flatten()
}

fn now() -> nix::Result<Monotonic> {
    clock::monotonic_ns().map(Monotonic::from_nanos)
}

/// A Lease, since when it has been watched, and whether it has changed since.
struct Watched {
    record: LeaseRecord,
    since: Monotonic,
    renewed: bool,
}

impl Watched {
    /// Until when it is worth watching.
    fn until(&self) -> Monotonic {
        self.since + (self.record.duration + MARGIN).min(WATCHING)
    }
}

/// What has been read, in the hands of the core.
struct World {
    engine: Engine,
    services: Services,
    leases: BTreeMap<NodeName, Watched>,
    claims: BTreeMap<Ipv4Addr, ClaimRecord>,
    listed: BTreeSet<Resource>,
    address: Ipv4Addr,
}

impl World {
    async fn new(options: &Options, server: &Server, view: &NetView) -> Result<Self, ExplainError> {
        let mut services = Services::start(options.services.clone());
        let api = server.address().into_iter().collect();
        services.on_event(services::Event::ApiEndpoints(api));
        // What this host refuses only counts where an agent is at home.
        let attached = host::attached(options)?;
        if !attached.is_empty() {
            let ours = bind::observe_binds(view).await?;
            let network = HostNetwork::of(view, &attached, &ours);
            services.on_event(services::Event::HostNetwork(network));
        }
        let settings = observer(options);
        Ok(Self {
            engine: Engine::start(settings, Found::default(), now()?),
            services,
            leases: BTreeMap::new(),
            claims: BTreeMap::new(),
            listed: BTreeSet::new(),
            address: options.address,
        })
    }

    /// Gives what was read to the core. What the core would do about it is nobody's business here.
    fn take_in(&mut self, seen: Seen) -> nix::Result<()> {
        let now = now()?;
        match &seen {
            Seen::Synced(resource) => {
                self.listed.insert(*resource);
            }
            Seen::Lease(record) => self.watch(record, now),
            Seen::LeaseGone(node) => {
                self.leases.remove(node);
            }
            // Claims are not for the engine: it is on no node, and holds nothing.
            Seen::Claim(record) => {
                if record.vip == self.address {
                    self.claims.insert(record.vip, record.clone());
                }
                return Ok(());
            }
            Seen::ClaimGone(vip) => {
                self.claims.remove(vip);
                return Ok(());
            }
            Seen::Node { .. }
            | Seen::NodeGone(_)
            | Seen::Namespace { .. }
            | Seen::NamespaceGone(_)
            | Seen::Service(_)
            | Seen::ServiceGone(_)
            | Seen::Slice(_)
            | Seen::SliceGone { .. }
            | Seen::ApiEndpoints(_)
            | Seen::Trouble { .. }
            | Seen::TroubleOver { .. } => {}
        }
        let (owned, served) = seen.into_events();
        if let Some(event) = owned {
            self.engine.on_event(event, now);
        }
        if let Some(event) = served {
            self.services.on_event(event);
        }
        Ok(())
    }

    fn watch(&mut self, record: &LeaseRecord, now: Monotonic) {
        let known = self.leases.get(&record.node);
        let changed = known.is_some_and(|known| known.record.version != record.version);
        let since = known.map_or(now, |known| known.since);
        let renewed = changed || known.is_some_and(|known| known.renewed);
        self.leases.insert(record.node.clone(), Watched { record: record.clone(), since, renewed });
    }

    /// Until when some Lease must still be watched; none when enough was seen.
    fn watched_until(&self) -> nix::Result<Option<Monotonic>> {
        let now = now()?;
        let open = self.leases.values().filter(|lease| lease.record.session.is_some() && !lease.renewed);
        Ok(open.map(Watched::until).filter(|until| *until > now).max())
    }

    fn facts(mut self, options: &Options) -> nix::Result<Cluster> {
        let (address, now) = (options.address, now()?);
        let account = self.services.account(address);
        let demand = account.demand.clone().unwrap_or_default();
        let seen = |lease: Watched| LeaseSeen {
            watched: now.saturating_since(lease.since),
            renewed: lease.renewed,
            record: lease.record,
        };
        Ok(Cluster {
            nodes: self.engine.survey(address, &demand, now),
            claim: self.claims.remove(&address),
            leases: self.leases.into_iter().map(|(node, lease)| (node, seen(lease))).collect(),
            account,
            namespace: options.lease_namespace.clone(),
        })
    }
}

/// An engine that only looks on: it has no name, no session, and nothing that it begins is carried out.
fn observer(options: &Options) -> ownership::Settings {
    ownership::Settings {
        node: NodeName::from(""),
        lease: Duration::from_secs(4),
        renewal: Duration::from_secs(1),
        margin: MARGIN,
        policy: Policy::Stop,
        hold_for: Duration::ZERO,
        restart_lease: Duration::from_mins(1),
        stable_for: Duration::from_mins(1),
        handover_pace: MARGIN,
        honour_exclude_label: options.honour_exclude_label,
        clock_late: Duration::ZERO,
        most_new: 1,
        probing: None,
        seed: 0,
    }
}
