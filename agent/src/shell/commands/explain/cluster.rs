//! Reads the cluster once, and watches the Leases for as long as one renewal is good for.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use nix::unistd::gethostname;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use vipward_core::{
    agent::cluster::Seen as Read,
    base::time::Monotonic,
    diagnosis::{
        explain::{Cluster, LeaseSeen, ServiceFacts},
        fact::{Fact, Unread},
    },
    host::net::NetView,
    pools::Allocator,
    records::{ClaimRecord, LeaseRecord, NodeName, NodeRecord, ServiceName},
    services::{self, Agent, Controller, HostNetwork, Index},
};

use super::{
    host,
    options::{ExplainError, Options},
};
use crate::shell::{
    kernel::{clock, host_network::name_servers},
    kube::{ConnectError, Kube, Limits, Reader, Reading, Resource, Seen, Server, leader},
    logging::errors::{fact, unread},
};

const LISTING: Duration = Duration::from_secs(20);
/// The longest time to watch a Lease. The agent of a Lease with
/// a longer duration is being restarted.
const WATCHING: Duration = Duration::from_secs(10);
/// Time that a renewal may take to arrive after its Lease has run out.
const MARGIN: Duration = Duration::from_millis(500);
const LIMITS: Limits = Limits { lease: Duration::from_secs(10), margin: Duration::ZERO };

/// Reads what the API server stores.
pub(super) async fn look(
    options: &Options,
    view: &NetView,
    progress: &mut impl FnMut(&str),
) -> Result<Fact<World>, ExplainError> {
    let server = match Server::find(&options.access, LIMITS).await {
        Ok(server) => server,
        Err(ConnectError::NotInCluster) => {
            let why = "no kubeconfig (--kubeconfig), and not in a Pod: no cluster was read";
            return Ok(Fact::skipped(why));
        }
        Err(error) => return Err(error.into()),
    };
    // No node has an empty name, so every Lease belongs to another node.
    let kube = Kube::new(server.clone(), NodeName::from(""), &options.lease_namespace);
    let metallb = options.services.metallb;
    let of_metallb = if metallb { Resource::OF_METALLB } else { &[] };
    // All that an agent may read, whether a Service needs it or not.
    let resources = [Resource::OF_CONTROLLER, &[Resource::EndpointSlices], of_metallb].concat();
    let reading = Reading { service_labels: true, is_controllers: false, metallb };
    let (_reader, mut seen) = Reader::start(&kube, &resources, reading)?;
    let mut world = World::new(options, &server, fact(leader(&kube).await), view);
    let deadline = Instant::now() + LISTING;
    while world.listed.len() < resources.len() {
        match next(&mut seen, deadline).await {
            Some(Seen::Unreadable { resource, error }) => {
                let why = unread(&*error).of(resource);
                if !resource.is_optional() {
                    return Ok(Fact::Unread(why));
                }
                world.unread.insert(resource, why);
            }
            Some(seen) => world.apply(seen)?,
            None => return Ok(Fact::failed(format!("{} has not listed everything in 20 s", server.url()))),
        }
    }
    // An agent that keeps a VIP against another need of its address has seen the VIP held first.
    let held = world.claims.values().filter(|claim| claim.state.holder().is_some());
    let held = held.map(|claim| (claim.vip, false));
    world.services.on_event(services::Event::Found(held.collect()));
    world.services.on_event(services::Event::SlicesListed);
    world.services.on_event(services::Event::Synced);
    progress("watching the nodes' Leases: whether they are renewed is seen, not believed");
    while let Some(until) = world.watched_until()? {
        let deadline = Instant::now() + until.saturating_since(now()?);
        match next(&mut seen, deadline).await {
            Some(Seen::Unreadable { .. }) | None => {}
            Some(seen) => world.apply(seen)?,
        }
    }
    Ok(Fact::Read(world))
}

async fn next(seen: &mut mpsc::Receiver<Seen>, deadline: Instant) -> Option<Seen> {
    timeout_at(deadline, seen.recv()).await.ok().flatten()
}

fn now() -> nix::Result<Monotonic> {
    clock::monotonic_ns().map(Monotonic::from_nanos)
}

/// A Lease, the start of the watch, and true if the Lease has changed since.
struct Watched {
    record: LeaseRecord,
    since: Monotonic,
    renewed: bool,
}

impl Watched {
    /// Returns the end of the watch.
    fn until(&self) -> Monotonic {
        self.since + (self.record.duration + MARGIN).min(WATCHING)
    }
}

/// Evaluates the Services as the controller does, or as an agent where none runs.
enum Judge {
    Agent(Box<Agent>),
    Controller(Box<Controller>),
}

impl Judge {
    fn on_event(&mut self, event: services::Event) {
        match self {
            Self::Agent(agent) => _ = agent.on_event(event),
            Self::Controller(controller) => _ = controller.on_event(event),
        }
    }

    fn parts(&self) -> (&Index, Option<&Allocator>) {
        match self {
            Self::Agent(agent) => (agent.index(), None),
            Self::Controller(controller) => (controller.index(), Some(controller.allocator())),
        }
    }
}

/// The objects that have been read so far.
pub(super) struct World {
    services: Judge,
    nodes: BTreeMap<NodeName, NodeRecord>,
    leases: BTreeMap<NodeName, Watched>,
    claims: BTreeMap<IpAddr, ClaimRecord>,
    listed: BTreeSet<Resource>,
    /// The namespace of a Service that is named without one.
    pub(super) namespace: Arc<str>,
    leader: Fact<Option<String>>,
    segments: Fact<Vec<u32>>,
    /// Why types that may be missing could not be read.
    unread: BTreeMap<Resource, Unread>,
}

impl World {
    fn new(options: &Options, server: &Server, leader: Fact<Option<String>>, view: &NetView) -> Self {
        // If there is a controller, it alone assigns addresses to Services.
        let settings = options.services.clone();
        let mut services = match &leader {
            Fact::Read(None) => Judge::Agent(Box::new(Agent::alone(settings))),
            Fact::Read(Some(_)) | Fact::Unread(_) => Judge::Controller(Box::new(Controller::start(settings))),
        };
        let addresses = server.address().into_iter().collect();
        services.on_event(services::Event::ApiServers { slice: None, addresses });
        // The addresses that this host refuses matter only if an agent runs here.
        let segments = host::segments(options);
        if let Fact::Read(attached) = &segments
            && !attached.is_empty()
        {
            let host = gethostname().unwrap_or_default();
            let host = host.to_string_lossy();
            let network = HostNetwork::of(host.as_ref().into(), view, attached, name_servers());
            services.on_event(services::Event::HostNetwork(network));
        }
        Self {
            services,
            nodes: BTreeMap::new(),
            leases: BTreeMap::new(),
            claims: BTreeMap::new(),
            listed: BTreeSet::new(),
            namespace: server.default_namespace().into(),
            leader,
            segments,
            unread: BTreeMap::new(),
        }
    }

    fn apply(&mut self, seen: Seen) -> nix::Result<()> {
        match &seen {
            Seen::Synced(resource) => {
                self.listed.insert(*resource);
            }
            Seen::Lease(record) => self.watch(record, now()?),
            Seen::LeaseGone(node) => {
                self.leases.remove(node);
            }
            Seen::Claim(record) => {
                self.claims.insert(record.vip, record.clone());
            }
            Seen::ClaimGone(vip) => {
                self.claims.remove(vip);
            }
            Seen::Node { record, .. } => {
                self.nodes.insert(record.name.clone(), record.clone());
            }
            Seen::NodeGone(node) => {
                self.nodes.remove(node);
            }
            Seen::Pool(_)
            | Seen::Leader(_)
            | Seen::PoolGone(_)
            | Seen::L2Advertisement(..)
            | Seen::L2AdvertisementGone(_)
            | Seen::Advertised(_)
            | Seen::Unserved(_)
            | Seen::Fault(..)
            | Seen::UnservedGone { .. }
            | Seen::WireKeys { .. }
            | Seen::Namespace { .. }
            | Seen::NamespaceGone(_)
            | Seen::ServiceCidr { .. }
            | Seen::Service(_)
            | Seen::ServiceGone(_)
            | Seen::Slice(_)
            | Seen::SliceGone { .. }
            | Seen::ApiServers { .. }
            | Seen::Unreadable { .. }
            | Seen::Readable { .. } => {}
        }
        if let Some(event) = seen.into_read().and_then(Read::into_served) {
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

    /// Returns the time until which a Lease must still be watched. Returns `None` if the readings are
    /// enough.
    fn watched_until(&self) -> nix::Result<Option<Monotonic>> {
        let now = now()?;
        let open = self.leases.values().filter(|lease| lease.record.session.is_some() && !lease.renewed);
        Ok(open.map(Watched::until).filter(|until| *until > now).max())
    }

    pub(super) fn cluster(&self, address: IpAddr, options: &Options) -> nix::Result<Cluster> {
        let now = now()?;
        let seen = |(node, lease): (&NodeName, &Watched)| {
            let watched = now.saturating_since(lease.since);
            (node.clone(), LeaseSeen { watched, renewed: lease.renewed, record: lease.record.clone() })
        };
        let claim = self.claims.get(&address).cloned();
        let shows = claim.as_ref().and_then(|claim| claim.shows.as_deref());
        Ok(Cluster {
            nodes: self.nodes.clone(),
            honour_exclude_label: options.honour_exclude_label,
            unanswered: shows.and_then(|shows| Some(shows.unanswered.as_ref()?.message.clone())),
            claim,
            leases: self.leases.iter().map(seen).collect(),
            account: self.services.parts().0.account(address),
            segments: self.segments.clone(),
            namespace: options.lease_namespace.clone(),
        })
    }

    pub(super) fn service(&self, service: ServiceName, options: &Options) -> ServiceFacts {
        let (index, allocator) = self.services.parts();
        let account = Fact::Read(index.account_of(&service, allocator));
        let namespace = options.lease_namespace.clone();
        let is_of_pools = |(resource, _): &(&Resource, &Unread)| **resource != Resource::ServiceCidrs;
        let unread = self.unread.iter().find(is_of_pools);
        let pools = unread.map_or(Fact::Read(()), |(_, why)| Fact::Unread(why.clone()));
        ServiceFacts { service, account, leader: self.leader.clone(), pools, namespace }
    }
}
