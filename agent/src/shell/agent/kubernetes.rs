//! The agent of a cluster's node: the command line's settings, and the pinned state.

use std::{collections::BTreeSet, io};

use nix::unistd::gethostname;
use tracing::info;
use vipward_common::{LeaseDeadline, Policy};
use vipward_core::{
    agent::{Input, Source, cluster},
    config::Config,
    host::heartbeat,
    ownership::{Event, Found, Settings, StopReason},
    segment::announce,
    services,
};

use super::{
    cluster::{Cluster, FailureDetector, ProxyProber},
    error::{RunError, system},
    event_loop::{EventLoop, Opened, Outer},
    starting::{OpenEndpoints, check_host},
    timing,
};
use crate::{
    cli::KubernetesArgs,
    shell::{
        endpoints::metrics::Mode,
        kernel::{
            bpf::{self, Loader, Maps, Pins},
            preflight::PinDirLock,
        },
        kube::{
            Access, Kube, L2Statuses, Limits, Reader, Reading, Reporter, Requests, Resource, Server, Statuses,
        },
    },
};

/// Number of VIPs without a claim that the engine takes at a time until the API server's load is
/// known.
const MOST_NEW: usize = 8;

/// Runs the agent of a cluster's node until a signal ends it.
pub async fn agent(args: KubernetesArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    let node = args.node_name.clone().unwrap_or_else(|| host.to_string_lossy().into_owned());
    if args.services.metallb && args.without_controller {
        return Err(RunError::NoPools);
    }
    let settings = ownership_settings(&args, &node)?;
    let lock = check_host(&args.plane.pins)?;
    let pod = args.pod_address.and_then(|pod| pod.0);
    let endpoints = OpenEndpoints::open(Mode::Kubernetes, &args.pages, pod).await?;
    let mut event_loop = Box::pin(start(&args, loader, lock, settings, endpoints)).await?;
    Box::pin(event_loop.run()).await?;
    let reason = event_loop.reason;
    let _lock = event_loop.end();
    match reason {
        Some(StopReason::Uninstall) => {
            for removed in bpf::unload(&args.plane.pins.pin_dir)? {
                info!(removed, "a pinned object is removed");
            }
            info!("Vipward is being removed: every VIP is withdrawn, and nothing is pinned any more");
        }
        Some(StopReason::Leave) => info!("the node goes away; other nodes have its VIPs"),
        _ => info!("agent ends; the pinned program answers on, under its policy"),
    }
    Ok(())
}

fn ownership_settings(args: &KubernetesArgs, node: &str) -> Result<Settings, RunError> {
    let now_ns = timing::now()?.as_nanos();
    let honour_exclude_label = !args.services.ignore_exclude_label;
    let probing = args.probing.settings().longest();
    let args = &args.ownership;
    let policy = args.policy.into();
    // With the policy `stop`, a node's VIPs cannot be taken before its lease deadline.
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

async fn start(
    args: &KubernetesArgs,
    loader: Loader,
    lock: PinDirLock,
    settings: Settings,
    endpoints: OpenEndpoints,
) -> Result<EventLoop, RunError> {
    let access = Access { kubeconfig: args.api.kubeconfig.clone(), ..Access::default() };
    let limits = Limits { lease: settings.lease, margin: settings.margin };
    let metrics = &endpoints.metrics;
    let server = Server::find(&access, limits).await?.metered(&metrics.api, &metrics.leases);
    let (api, target) = (server.url(), server.address());
    let kube = Kube::new(server, settings.node.clone(), &args.api.lease_namespace);
    let metallb = args.services.metallb;
    let kube = if metallb { kube.with_metallb(&args.services.metallb_namespace) } else { kube };
    let reading = Reading {
        service_labels: args.services.service_selector.is_some() || metallb,
        is_controllers: false,
        metallb,
    };
    let of_metallb = if metallb { Resource::OF_METALLB } else { &[] };
    let resources = [Resource::OF_AGENT, of_metallb].concat();
    // The agent does not wait for it.
    let of_wire = if settings.wire.is_some() { &[Resource::WireSecret][..] } else { &[] };
    let (reader, seen) = Reader::start(&kube, &[&resources, of_wire].concat(), reading)?;
    let (requests, replies) = Requests::start(&kube, Statuses::AfterClaims)?;
    let l2_statuses = if metallb { Some(L2Statuses::start(&kube)?) } else { None };
    let announce = announce::Settings { refresh: args.announce_refresh, rate: args.announce_rate };
    let config = Config {
        interfaces: args.interfaces.clone(),
        attach: args.attach.into(),
        probe: args.probing.settings(),
        conflicts: args.conflicts.settings(),
        ..cluster::config(&settings, announce)
    };
    let never = LeaseDeadline {
        deadline_ns: 0,
        grace_until_ns: 0,
        yields_settled: 0,
        session: 0,
        notices_settled: 0,
        policy: settings.policy,
        defence: args.conflicts.settings().defend.in_program(),
    };
    let move_metrics = metrics.moves.clone();
    let opened = Box::pin(Opened::open(&args.plane, loader, lock, never, &endpoints)).await?;
    let now = timing::now()?;
    let mut services = args.start_services();
    let addresses = target.into_iter().collect();
    let notified = services.on_event(services::Event::ApiServers { slice: None, addresses });
    debug_assert!(notified.is_empty(), "nothing follows before the Services have been listed");
    let found = found(opened.plane.maps())?;
    let scale = settings.wire;
    let (health, proxy_timeout) = (args.proxy.health(), args.proxy.timeout());
    let reporter = Reporter::start(&kube, now)?;
    let source = cluster::Cluster::start(settings, found, services, proxy_timeout, metallb, now);
    let outer = Cluster {
        kube,
        requests,
        replies,
        seen,
        reader,
        resources,
        listed: BTreeSet::new(),
        unreadable: BTreeSet::new(),
        reporter,
        l2_statuses,
        detector: scale.and_then(|scale| FailureDetector::start(scale, &Pins::new(&args.plane.pins.pin_dir))),
        proxy: ProxyProber::new(health),
        move_metrics,
        pod: args.pod_name.clone(),
        why: None,
        is_ending: false,
        is_overloaded: false,
    };
    // Without a thread, the program keeps the keys of an earlier agent until the Lease has no offer.
    let wid = outer.detector.as_ref().and_then(FailureDetector::wid);
    let (source, outer) = (Source::Cluster(Box::new(source)), Outer::Cluster(Box::new(outer)));
    let mut event_loop = EventLoop::start(opened, config, source, outer, endpoints)?;
    if wid.is_some() {
        let part = cluster::Input::Owned(vec![Event::WireSelf(wid)]);
        event_loop.step(Input::Cluster(part)).await?;
    }
    // This attaches. The entries stay as they are until their holders are known.
    event_loop.step(Input::Begin).await?;
    info!(
        node = %event_loop.agent.config().node,
        %api,
        "agent is running; VIPs stay as they are until the cluster has been read"
    );
    Ok(event_loop)
}

/// Returns the pinned state: the session, the deadline, and the entries.
fn found(maps: &Maps) -> Result<Found, RunError> {
    let any_yielded = maps.yields()?.total > 0;
    let mut entries = Vec::new();
    for (key, entry) in maps.entries()? {
        let is_yielded =
            any_yielded && maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_some();
        entries.push((key, entry, is_yielded));
    }
    Ok(Found::of(&maps.lease_deadline()?, entries))
}
