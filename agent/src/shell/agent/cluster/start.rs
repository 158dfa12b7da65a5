//! The start: the command line's settings, and the pinned state.

use std::collections::{BTreeMap, BTreeSet};

use tracing::info;
use vipward_common::{Fence, MacAddr, Policy, Role};
use vipward_core::{
    base::{retrying::Writes, time::Monotonic},
    config::{Config, OnYield, Shutdown},
    host::heartbeat,
    ownership::{Engine, Found, FoundEntry, Interlock, Settings},
    records::Session,
    reports::moves::Moves,
    segment::announce,
    services,
};

use super::{messages::Messages, source::Cluster};
use crate::{
    cli::KubernetesArgs,
    shell::{
        agent::timing,
        agent::{error::RunError, event_loop::EventLoop, starting::Desk},
        kernel::bpf::{Loader, Pins},
        kube::{Access, Kube, L2Statuses, Limits, Reader, Reading, Requests, Resource, Server, Statuses},
    },
};

/// Number of VIPs without a claim that the engine takes at a time until the API server's load is
/// known.
const MOST_NEW: usize = 8;

pub(super) fn ownership_settings(args: &KubernetesArgs, node: &str) -> Result<Settings, RunError> {
    let now_ns = timing::now()?.as_nanos();
    let honour_exclude_label = !args.services.ignore_exclude_label;
    let probing = args.probing.settings().longest();
    let args = &args.ownership;
    let policy = args.policy.into();
    // A node that stops by its fence alone cannot be taken over sooner.
    let wire = args.wire.scale().filter(|_| policy == Policy::Hold);
    let settings = Settings {
        node: node.into(),
        lease: args.lease_duration,
        renewal: args.lease_renewal,
        margin: args.margin,
        policy,
        hold_for: args.hold_for,
        restart_lease: args.restart_lease,
        stable_for: args.stable_for,
        handover_pace: args.handover_pace,
        honour_exclude_label,
        clock_late: timing::clock_tick()? * heartbeat::TICKS_LATE,
        most_new: MOST_NEW,
        probing,
        seed: fastrand::u64(..) ^ now_ns,
        wire,
    };
    settings.check()?;
    Ok(settings)
}

/// Returns the part of a configuration that does not come from the cluster.
fn host_config(args: &KubernetesArgs, settings: &Settings) -> Config {
    Config {
        node: settings.node.to_string(),
        interfaces: args.interfaces.clone(),
        vips: Vec::new(),
        peers: Vec::new(),
        attach: args.attach.into(),
        fence: heartbeat::Settings {
            duration: settings.lease,
            heartbeat: settings.renewal,
            policy: settings.policy,
            hold_for: settings.hold_for,
        },
        announce: announce::Settings { refresh: args.announce_refresh, rate: args.announce_rate },
        probe: args.probing.settings(),
        conflicts: args.conflicts.settings(),
        yields: OnYield::Ask,
        shutdown: Shutdown::Keep,
    }
}

pub(super) async fn start(
    args: &KubernetesArgs,
    loader: Loader,
    settings: Settings,
    desk: Desk,
) -> Result<EventLoop<Cluster>, RunError> {
    let access = Access { kubeconfig: args.api.kubeconfig.clone(), context: None };
    let limits = Limits { lease: settings.lease, margin: settings.margin };
    let metrics = &desk.metrics;
    let server = Server::find(&access, limits).await?.metered(&metrics.api, &metrics.leases);
    let (api, target) = (server.url(), server.address());
    let kube = Kube::new(server, settings.node.clone(), &args.api.lease_namespace);
    let metallb = args.services.metallb;
    let kube = if metallb { kube.with_metallb(&args.services.metallb_namespace) } else { kube };
    let reading = Reading {
        service_labels: args.services.service_selector.is_some() || metallb,
        needs_pools: false,
        metallb,
    };
    let of_metallb = if metallb { Resource::OF_METALLB } else { &[] };
    let resources = [Resource::OF_AGENT, of_metallb].concat();
    // The agent does not wait for it.
    let of_wire = if settings.wire.is_some() { &[Resource::WireSecret][..] } else { &[] };
    let (reader, seen) = Reader::start(&kube, &[&resources, of_wire].concat(), reading)?;
    let (requests, replies) = Requests::start(&kube, Statuses::AfterClaims)?;

    let l2_statuses = if metallb { Some(L2Statuses::start(&kube)?) } else { None };

    let config = host_config(args, &settings);
    let never = Fence {
        deadline_ns: 0,
        hold_until_ns: 0,
        yields_settled: 0,
        session: 0,
        words_settled: 0,
        policy: settings.policy,
        defence: args.conflicts.settings().defend.in_program(),
    };
    let now = timing::now()?;
    let messages = Messages::start(&kube, settings.node.clone(), now)?;
    let mut served = args.start_services();
    let addresses = target.into_iter().collect();
    let told = served.on_event(services::Event::ApiServers { slice: None, addresses });
    debug_assert!(told.is_empty(), "nothing follows before the Services have been listed");
    served.on_event(services::Event::Behind(true));
    let source = Cluster {
        engine: Engine::start(settings.clone(), Found::default(), now),
        interlock: Interlock::new(settings.node.clone(), None),
        services: served,
        assigned: BTreeMap::new(),
        known: false,
        resources,
        unreadable: BTreeSet::new(),
        listed: BTreeSet::new(),
        synced: false,
        settings,
        probed: Vec::new(),
        conflicted: BTreeMap::new(),
        pin_dir: args.plane.pins.pin_dir.clone(),
        beaten: now,
        messages,
        shown: Writes::default(),
        l2_statuses,
        wire: None,
        statuses: Writes::default(),
        requests,
        replies,
        seen,
        reader,
        moves: Moves::default(),
        move_metrics: metrics.moves.clone(),
        kube,
        pod: args.pod_name.clone(),
        why: None,
        stopping: None,
        stopped: false,
    };
    let opening = EventLoop::open(&args.plane, loader, config, never, source, desk);
    let mut event_loop = Box::pin(opening).await?;
    let (settings, found) = (event_loop.source.settings.clone(), event_loop.found()?);
    let told = event_loop.source.services.on_event(services::Event::Found(found.vips()));
    debug_assert!(told.is_empty(), "nothing follows before the Services have been listed");
    event_loop.source.interlock = Interlock::new(settings.node.clone(), found.session);
    let scale = settings.wire;
    event_loop.source.engine = Engine::start(settings, found, timing::now()?);
    event_loop.begin_wire(scale, &Pins::new(&args.plane.pins.pin_dir)).await?;
    // This attaches. The entries stay as they are until their holders are known.
    event_loop.reconcile(false).await;
    event_loop.report_interfaces().await?;
    info!(
        node = %event_loop.config.node,
        %api,
        "agent is running; VIPs stay as they are until the cluster has been read"
    );
    Ok(event_loop)
}

impl EventLoop<Cluster> {
    /// Returns the pinned state: the session, the deadline, and the entries that have not yielded.
    fn found(&self) -> Result<Found, RunError> {
        let maps = self.plane.maps();
        let fence = maps.fence()?;
        let any_yielded = maps.yields()?.total > 0;
        let mut entries = BTreeMap::new();
        let mut foreign = BTreeMap::new();
        let mut yielded = BTreeSet::new();
        for (key, entry) in maps.entries()? {
            if any_yielded && maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_some() {
                yielded.insert(key.addr);
                continue;
            }
            let found = match entry.role {
                Role::Held => FoundEntry::Held,
                Role::Handover => FoundEntry::Handover {
                    mac: MacAddr(entry.mac),
                    until: Monotonic::from_nanos(entry.until_ns),
                },
                Role::Foreign => {
                    // A VIP's entries on its other interfaces have no MAC.
                    let mac = MacAddr(entry.mac);
                    if !mac.is_zero() {
                        foreign.insert(key.addr, mac);
                    }
                    continue;
                }
            };
            entries.insert(key.addr, found);
        }
        let session = Session::from_number(fence.session);
        Ok(Found {
            session,
            deadline: Monotonic::from_nanos(fence.deadline_ns),
            answers_until: Monotonic::from_nanos(fence.answers_until_ns()),
            entries,
            foreign,
            yielded,
            words_settled: fence.words_settled,
        })
    }
}
