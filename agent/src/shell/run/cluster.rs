//! The driver of an agent in a cluster: what the API server has goes into the core, what the core asks for is done.
//!
//! Tasks read and write; this one alone decides and touches the maps. Requests never make it wait.

mod links;
mod messages;
mod statuses;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr},
};

use nix::unistd::gethostname;
use tokio::{
    sync::mpsc,
    task::{self, JoinHandle},
};
use tracing::{error, info, warn};
use vipward_common::{EventKind, Fence, FenceState, MacAddr, Role, VipKey};

use self::{messages::Messages, statuses::Statuses};
use super::{
    Driver, RunError,
    apply::chain,
    check_host, clock_tick,
    health::{Health, Question},
    inputs::Heard,
    now,
    source::Source,
    system,
};
use crate::{
    cli::{KubernetesArgs, OwnershipArgs},
    core::{
        announce,
        cluster::{ServiceName, Version},
        config::{Config, InterfacePattern, Shutdown},
        heartbeat,
        net::NetView,
        ownership::{self, ClaimWrite, Engine, Entry, Found, FoundEntry, Settings, StopReason, Wire},
        placement::{Stance, Wanted},
        reporting::{self, Reporting},
        services::{self, Problem, Services},
        time::Monotonic,
        trouble::Line,
    },
    shell::{
        bpf::{self, Loader, Maps},
        kube::{
            Access, ConnectError, Kube, Limits, Reader, Reading, Reply, Requests, Resource, Seen, Server,
            Termination,
        },
    },
};

/// What is taken in before entries are changed.
const BATCH: usize = 256;

/// What this node is to a VIP, as the engine says.
struct Assigned {
    stance: Stance,
    home: Option<InterfacePattern>,
}

/// What the engine has asked for and is not done yet.
#[derive(Default)]
struct Waiting {
    /// VIPs whose entries have changed.
    entries: BTreeSet<Ipv4Addr>,
    /// In the order in which it was asked for.
    claims: Vec<Claiming>,
}

/// A request about a claim.
enum Claiming {
    Write(ClaimWrite),
    Delete { vip: Ipv4Addr, expected: Version },
    Read(Ipv4Addr),
}

/// What a cluster's agent has open.
struct Cluster {
    engine: Engine,
    services: Services,
    assigned: BTreeMap<Ipv4Addr, Assigned>,
    /// Whether everything that the engine said when it began is in there. It has begun before that: what it says is
    /// carried out step by step, and a step that looks at all entries must not take one away that comes later.
    known: bool,
    /// What has been listed at least once.
    listed: BTreeSet<Resource>,
    /// How much must be.
    to_list: usize,
    synced: bool,
    settings: Settings,
    pin_dir: std::path::PathBuf,
    /// When the engine last moved the fence.
    beaten: Monotonic,
    messages: Messages,
    reporting: Reporting,
    statuses: Statuses,
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
    seen: mpsc::Receiver<Seen>,
    _reader: Reader,
    questions: mpsc::Receiver<Question>,
    _health: Health,
    kube: Kube,
    /// Where this agent reaches the API server, whatever the cluster says about that.
    api_address: Option<IpAddr>,
    pod: Option<String>,
    /// Finding out why the agent is to end.
    why: Option<JoinHandle<Result<StopReason, ConnectError>>>,
    stopping: Option<StopReason>,
    /// The engine has said that nothing is left to do.
    stopped: bool,
}

impl Source for Cluster {
    fn wanted<'a>(&'a self, _config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> {
        self.assigned.iter().map(|(address, assigned)| Wanted {
            address: *address,
            interface: assigned.home.as_ref(),
            bind: None,
            stance: assigned.stance,
        })
    }

    fn is_known(&self) -> bool {
        self.known
    }

    /// The claim of a VIP that this node holds shows who else claims it.
    fn note_trouble(&mut self, line: &Line) {
        let (key, conflict) = match line {
            Line::Started(claim) | Line::NewOffender(claim) if claim.kind == EventKind::Conflict => {
                (claim.key, Some(format!("{} claims it", claim.offender)))
            }
            Line::Ended { kind: EventKind::Conflict, key, .. } => (*key, None),
            Line::Started(_)
            | Line::NewOffender(_)
            | Line::GoesOn { .. }
            | Line::Ended { .. }
            | Line::TooMany { .. } => return,
        };
        let vip = key.addr.into();
        if self.engine.holds(vip) {
            self.requests.report_conflict(vip, conflict);
        }
    }

    fn beat_if_due(&mut self, _: &mut Maps, _: u64, _: Monotonic) -> Result<(), RunError> {
        // Only a renewal moves this fence, and renewing does not wait for the maps for long.
        Ok(())
    }
}

/// Runs the agent of a cluster's node until it is told to stop.
pub async fn agent(args: KubernetesArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    let node = args.node_name.clone().unwrap_or_else(|| host.to_string_lossy().into_owned());
    let settings = ownership_settings(&args.ownership, &node, !args.services.ignore_exclude_label)?;
    let _lock = check_host(&args.plane.pins)?;
    let mut driver = Box::pin(start(&args, loader, settings)).await?;
    while !driver.source.stopped {
        driver.turn().await?;
    }
    driver.end().await
}

fn ownership_settings(
    args: &OwnershipArgs,
    node: &str,
    honour_exclude_label: bool,
) -> Result<Settings, RunError> {
    let now_ns = now()?.as_nanos();
    let settings = Settings {
        node: node.into(),
        lease: args.lease_duration,
        renewal: args.lease_renewal,
        margin: args.margin,
        policy: args.policy.into(),
        hold_for: args.hold_for,
        restart_lease: args.restart_lease,
        stable_for: args.stable_for,
        handover_pace: args.handover_pace,
        honour_exclude_label,
        clock_late: clock_tick()? * heartbeat::TICKS_LATE,
        seed: fastrand::u64(..) ^ now_ns,
    };
    settings.check()?;
    Ok(settings)
}

/// The part of a configuration that does not come from the cluster.
fn host_config(args: &KubernetesArgs, settings: &Settings) -> Config {
    Config {
        node: settings.node.to_string(),
        interfaces: args.interfaces.clone(),
        vips: Vec::new(),
        peers: Vec::new(),
        xdp: args.xdp.into(),
        fence: heartbeat::Settings {
            duration: settings.lease,
            heartbeat: settings.renewal,
            policy: settings.policy,
            hold_for: settings.hold_for,
        },
        announce: announce::Settings { refresh: args.announce_refresh, rate: args.announce_rate },
        shutdown: Shutdown::Keep,
    }
}

fn service_settings(args: &KubernetesArgs) -> services::Settings {
    let args = &args.services;
    services::Settings {
        class: args.load_balancer_class.as_str().into(),
        class_only: args.class_only,
        namespaces: args.namespaces.iter().map(|name| name.as_str().into()).collect(),
        namespace_selector: args.namespace_selector.clone(),
        service_selector: args.service_selector.clone(),
        external_ips: args.external_ips,
        allow: args.allow_addresses.clone(),
        withdraw_without_endpoints: args.withdraw_without_endpoints,
    }
}

async fn start(
    args: &KubernetesArgs,
    loader: Loader,
    settings: Settings,
) -> Result<Driver<Cluster>, RunError> {
    let (health, questions) = Health::serve(args.health_address).await?;
    let access = Access { kubeconfig: args.api.kubeconfig.clone(), context: None };
    let limits = Limits { lease: settings.lease, margin: settings.margin };
    let server = Server::find(&access, limits).await?;
    let (api, api_address) = (server.url(), server.address());
    let kube = Kube::new(server, settings.node.clone(), &args.api.lease_namespace);
    let with_namespaces = args.services.namespace_selector.is_some();
    let reading =
        Reading { namespaces: with_namespaces, service_labels: args.services.service_selector.is_some() };
    let (reader, seen) = Reader::start(&kube, reading)?;
    let (requests, replies) = Requests::start(&kube)?;
    let messages = Messages::start(&kube, settings.node.clone())?;

    let config = host_config(args, &settings);
    let never = Fence {
        deadline_ns: 0,
        hold_until_ns: 0,
        yields_settled: 0,
        session: 0,
        policy: settings.policy,
        _pad: 0,
    };
    let now = now()?;
    let mut served = Services::start(service_settings(args));
    let told = served.on_event(services::Event::ApiEndpoints(api_address.into_iter().collect()));
    debug_assert!(told.is_empty(), "nothing follows before the Services have been listed");
    let source = Cluster {
        engine: Engine::start(settings.clone(), Found::default(), now),
        services: served,
        assigned: BTreeMap::new(),
        known: false,
        listed: BTreeSet::new(),
        to_list: Resource::ALL.len() - usize::from(!with_namespaces),
        synced: false,
        settings,
        pin_dir: args.plane.pins.pin_dir.clone(),
        beaten: now,
        messages,
        reporting: Reporting::default(),
        statuses: Statuses::default(),
        requests,
        replies,
        seen,
        _reader: reader,
        questions,
        _health: health,
        kube,
        api_address,
        pod: args.pod_name.clone(),
        why: None,
        stopping: None,
        stopped: false,
    };
    let mut driver = Driver::open(&args.plane, loader, config, never, source).await?;
    driver.source.engine = Engine::start(driver.source.settings.clone(), driver.found()?, super::now()?);
    // Attaches; the entries stay as they are until it is known whose they are.
    driver.reconcile(false).await;
    driver.tell_links().await?;
    info!(node = %driver.config.node, %api, "agent is running; VIPs stay as they are until the cluster has been read");
    Ok(driver)
}

impl Driver<Cluster> {
    /// What is pinned, as far as it answers.
    fn found(&self) -> Result<Found, RunError> {
        let maps = self.plane.maps();
        let fence = maps.fence()?;
        let mut entries = BTreeMap::new();
        let mut foreign = BTreeMap::new();
        for (key, entry) in maps.entries()? {
            if maps.state(entry.slot)?.yielded.yielded_to(entry.generation).is_some() {
                continue;
            }
            let found = match entry.role {
                Role::Held => FoundEntry::Held,
                Role::Handover => FoundEntry::Handover {
                    mac: MacAddr(entry.mac),
                    until: Monotonic::from_nanos(entry.until_ns),
                },
                Role::Foreign => {
                    // On the other interfaces a VIP is nowhere.
                    let mac = MacAddr(entry.mac);
                    if !mac.is_zero() {
                        foreign.insert(key.addr.into(), mac);
                    }
                    continue;
                }
            };
            entries.insert(key.addr.into(), found);
        }
        let session = crate::core::cluster::Session::from_number(fence.session);
        Ok(Found { session, deadline: Monotonic::from_nanos(fence.deadline_ns), entries, foreign })
    }

    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<(), RunError> {
        let deadline = self.next_deadline();
        let others = [
            self.source.engine.next_deadline(),
            self.source.statuses.next_deadline(),
            self.source.reporting.next_deadline(),
        ];
        let deadline = others.into_iter().flatten().fold(deadline, Ord::min);
        let source = &mut self.source;
        tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => self.on_heard(heard?).await,
            Some(reply) = source.replies.recv() => self.on_replies(reply).await,
            Some(question) = source.questions.recv() => {
                self.on_question(question);
                Ok(())
            }
            why = found_out(&mut source.why) => self.on_why(why).await,
            Some(seen) = source.seen.recv() => self.on_seen(seen).await,
        }
    }

    async fn on_heard(&mut self, heard: Heard) -> Result<(), RunError> {
        match heard {
            Heard::Deadline => {
                self.decide(ownership::Event::Tick).await?;
                self.write_statuses_again()?;
                self.tell_problems()?;
                // Only then is the network observed; other deadlines may come a thousand times a second.
                let verifies = self.verify <= now()?;
                self.on_deadline().await?;
                if verifies {
                    self.tell_links().await?;
                }
            }
            Heard::Stop(signal) => self.on_signal(signal),
            Heard::Hangup => info!("SIGHUP: there is no file to read again; the cluster is watched"),
            Heard::Network { overrun } => {
                self.on_network(overrun).await?;
                self.tell_links().await?;
            }
            Heard::Events(events) => {
                self.note_trouble(&events)?;
                for event in &events {
                    let mac = MacAddr(event.sha);
                    let heard = match event.kind {
                        EventKind::Contested => Wire::Contested { mac },
                        EventKind::Moved => Wire::Moved { mac },
                        // Told when the yield has been read back.
                        EventKind::Yielded | EventKind::Conflict | EventKind::Sighted => continue,
                    };
                    self.decide(ownership::Event::Wire { vip: event.vip.into(), heard }).await?;
                }
                self.tell_yields().await?;
            }
            Heard::Nothing => {}
        }
        Ok(())
    }

    /// Writes what the program yielded into the entries, and tells the engine.
    async fn tell_yields(&mut self) -> Result<(), RunError> {
        let before = self.yields_settled;
        self.settle_yields().await?;
        if self.yields_settled == before {
            return Ok(());
        }
        for (vip, mac) in self.yielded.clone() {
            self.decide(ownership::Event::Wire { vip, heard: Wire::Yielded { mac } }).await?;
        }
        Ok(())
    }

    /// Takes in what was read, as much as there is, and then decides once.
    async fn on_seen(&mut self, first: Seen) -> Result<(), RunError> {
        let mut commands = self.take_in(first)?;
        for _ in 1..BATCH {
            let Ok(seen) = self.source.seen.try_recv() else { break };
            commands.extend(self.take_in(seen)?);
        }
        self.execute(commands).await
    }

    async fn on_replies(&mut self, first: Reply) -> Result<(), RunError> {
        let now = now()?;
        let mut commands = Vec::new();
        let mut next = Some(first);
        for _ in 0..BATCH {
            match next {
                Some(Reply::Ownership(event)) => commands.extend(self.source.engine.on_event(event, now)),
                Some(Reply::Ingress { service, result }) => {
                    let source = &mut self.source;
                    source.statuses.on_result(&service, result.is_ok(), fastrand::f64(), now);
                    source.messages.ingress(&service, &result);
                }
                None => break,
            }
            next = self.source.replies.try_recv().ok();
        }
        self.execute(commands).await
    }

    /// What failed is tried again when it is due.
    fn write_statuses_again(&mut self) -> Result<(), RunError> {
        for (service, addresses) in self.source.statuses.due(now()?) {
            match addresses {
                Some(addresses) => self.source.requests.write_ingress(service, addresses),
                None => self.source.requests.clear_ingress(service),
            }
        }
        Ok(())
    }

    /// Problems that are on this node to tell become Events.
    fn tell_problems(&mut self) -> Result<(), RunError> {
        let now = now()?;
        let Cluster { engine, services, settings, reporting, messages, .. } = &mut self.source;
        if reporting.next_deadline().is_none_or(|next| now < next) {
            return Ok(());
        }
        let alive = engine.alive(now);
        let is_ours = |service: &ServiceName, problem: &Problem| {
            let claimed_by = services.vips(service).filter_map(|vip| engine.claimed_by(vip));
            reporting::is_teller(&settings.node, problem, claimed_by, &alive)
        };
        for (service, problem) in reporting.due(is_ours, now) {
            messages.problem_settled(services, &service, &problem);
        }
        Ok(())
    }

    /// Gives what was read to the core.
    fn take_in(&mut self, seen: Seen) -> Result<Vec<ownership::Command>, RunError> {
        use ownership::Event as Owned;
        use services::Event as Served;

        let now = now()?;
        let source = &mut self.source;
        let (owned, served) = match seen {
            Seen::Lease(record) => {
                let nets = record.links.iter().flat_map(|link| link.subnets.clone()).collect();
                let node = record.node.clone();
                (Some(Owned::Lease(record)), Some(Served::NodeLinks { node, nets }))
            }
            Seen::LeaseGone(node) => (Some(Owned::LeaseGone(node)), None),
            Seen::Claim(record) => (Some(Owned::Claim(record)), None),
            Seen::ClaimGone(vip) => (Some(Owned::ClaimGone(vip)), None),
            Seen::Node { record, addresses } => {
                let node = record.name.clone();
                (Some(Owned::Node(record)), Some(Served::NodeAddresses { node, addresses }))
            }
            Seen::NodeGone(node) => (Some(Owned::NodeGone(node.clone())), Some(Served::NodeGone(node))),
            Seen::Namespace { name, labels } => (None, Some(Served::Namespace { name, labels })),
            Seen::NamespaceGone(name) => (None, Some(Served::NamespaceGone(name))),
            Seen::Service(record) => (None, Some(Served::Service(record))),
            Seen::ServiceGone(name) => (None, Some(Served::ServiceGone(name))),
            Seen::Slice(record) => (None, Some(Served::Slice(record))),
            Seen::SliceGone { namespace, slice } => (None, Some(Served::SliceGone { namespace, slice })),
            Seen::ApiEndpoints(mut addresses) => {
                addresses.extend(source.api_address);
                (None, Some(Served::ApiEndpoints(addresses)))
            }
            Seen::Synced(resource) => return Ok(self.on_listed(resource, now)),
            Seen::Trouble { resource, problem } => {
                warn!(%resource, problem = chain(problem), "not read from the API server; trying again");
                return Ok(Vec::new());
            }
            Seen::TroubleOver { resource } => {
                info!(%resource, "read from the API server again");
                return Ok(Vec::new());
            }
        };
        let mut commands = owned.map(|event| source.engine.on_event(event, now)).unwrap_or_default();
        if let Some(event) = served {
            let told = source.services.on_event(event);
            commands.extend(self.serve(told, now));
        }
        Ok(commands)
    }

    /// When everything has been listed once, the core may begin.
    fn on_listed(&mut self, resource: Resource, now: Monotonic) -> Vec<ownership::Command> {
        let source = &mut self.source;
        source.listed.insert(resource);
        if source.listed.len() < source.to_list {
            return Vec::new();
        }
        let told = source.services.on_event(services::Event::Synced);
        let mut commands = self.serve(told, now);
        if !std::mem::replace(&mut self.source.synced, true) {
            info!("the cluster has been read");
            commands.extend(self.source.engine.on_event(ownership::Event::Synced, now));
        }
        commands
    }

    /// Carries out what follows from Services.
    fn serve(&mut self, commands: Vec<services::Command>, now: Monotonic) -> Vec<ownership::Command> {
        let source = &mut self.source;
        let mut owned = Vec::new();
        for command in commands {
            match command {
                services::Command::Demand(vip, demand) => {
                    owned.extend(source.engine.on_event(ownership::Event::Demand(vip, demand), now));
                }
                services::Command::WriteIngress { service, addresses } => {
                    source.statuses.begin(service.clone(), Some(addresses.clone()));
                    source.requests.write_ingress(service, addresses);
                }
                services::Command::ClearIngress { service } => {
                    source.statuses.begin(service.clone(), None);
                    source.requests.clear_ingress(service);
                }
                services::Command::LeaveIngress { service } => {
                    source.statuses.leave(&service);
                    source.messages.ingress_left(&service);
                }
                services::Command::Report { service, problem } => {
                    source.messages.problem(&service, &problem);
                    source.reporting.begin(service, problem, now);
                }
                services::Command::ProblemOver { service, problem } => {
                    source.messages.problem_over(&service, &problem);
                    source.reporting.end(&service, &problem);
                }
            }
        }
        owned
    }

    async fn decide(&mut self, event: ownership::Event) -> Result<(), RunError> {
        let commands = self.source.engine.on_event(event, now()?);
        self.execute(commands).await
    }

    /// Carries out what the engine asks for, in its order, with one exception: entries are changed together, and what
    /// is to be written about claims waits for that. Many VIPs at once cost little more than one.
    async fn execute(&mut self, commands: Vec<ownership::Command>) -> Result<(), RunError> {
        use ownership::Command;

        let mut waiting = Waiting::default();
        for command in commands {
            match command {
                Command::SetEntry { vip, entry, home } => {
                    self.assign(vip, entry, home.as_deref());
                    waiting.entries.insert(vip);
                }
                Command::WriteClaim(write) => waiting.claims.push(Claiming::Write(write)),
                Command::DeleteClaim { vip, expected } => {
                    waiting.claims.push(Claiming::Delete { vip, expected });
                }
                Command::ReadClaim(vip) => waiting.claims.push(Claiming::Read(vip)),
                Command::ReadLease(node) => self.source.requests.read_lease(node),
                Command::SetFence(fence) => {
                    self.catch_up(&mut waiting).await;
                    self.set_fence(fence)?;
                }
                Command::SetPeers(peers) => {
                    self.catch_up(&mut waiting).await;
                    self.config.peers = peers.into_iter().collect();
                    self.reconcile(false).await;
                }
                Command::Announce { vip } => {
                    self.catch_up(&mut waiting).await;
                    self.announce_again(vip)?;
                }
                Command::WriteLease(write) => {
                    self.catch_up(&mut waiting).await;
                    self.source.requests.write_lease(write);
                }
                Command::Notify(ownership::Notice::NotAlone { session }) => {
                    self.catch_up(&mut waiting).await;
                    self.reconcile(false).await;
                    let node = self.source.settings.node.clone();
                    return Err(RunError::NotAlone { node, session });
                }
                Command::Notify(notice) => self.source.messages.notice(&self.source.services, &notice),
                Command::Stopped => self.source.stopped = true,
            }
        }
        self.catch_up(&mut waiting).await;
        self.begin_if_known().await
    }

    /// Changes entries, and then asks for what rests on them.
    async fn catch_up(&mut self, waiting: &mut Waiting) {
        self.change_entries(&mut waiting.entries).await;
        for claiming in waiting.claims.drain(..) {
            match claiming {
                Claiming::Write(write) => self.source.requests.write_claim(write),
                Claiming::Delete { vip, expected } => self.source.requests.delete_claim(vip, expected),
                Claiming::Read(vip) => self.source.requests.read_claim(vip),
            }
        }
    }

    fn assign(&mut self, vip: Ipv4Addr, entry: Option<Entry>, home: Option<&str>) {
        let Some(entry) = entry else {
            self.source.assigned.remove(&vip);
            return;
        };
        let is_own = |mac: &MacAddr| self.view.interfaces.values().any(|interface| interface.mac == *mac);
        let stance = match entry {
            Entry::Held => Stance::Held,
            Entry::Foreign { mac } if mac.is_zero() => Stance::Elsewhere,
            Entry::Foreign { mac } if is_own(&mac) => Stance::Coming,
            Entry::Foreign { mac } => Stance::At(mac),
            Entry::Handover { mac, until } => Stance::Handover { mac, until },
        };
        let home = home.map(InterfacePattern::exactly);
        self.source.assigned.insert(vip, Assigned { stance, home });
    }

    /// Changes the entries of VIPs to what they are assigned to be.
    async fn change_entries(&mut self, changed: &mut BTreeSet<Ipv4Addr>) {
        if changed.is_empty() {
            return;
        }
        let changed = std::mem::take(changed);
        self.reconcile_some(&changed).await;
        for vip in changed {
            let here = self.source.engine.holds(vip);
            let told = self.source.services.on_event(services::Event::Held { vip, here });
            let owned = now().map(|now| self.serve(told, now));
            debug_assert!(owned.is_ok_and(|owned| owned.is_empty()), "who holds a VIP changes no demand");
        }
    }

    /// The engine has said what entries are to be: those that it has not named go, and announcing begins.
    async fn begin_if_known(&mut self) -> Result<(), RunError> {
        if self.started || !self.source.engine.has_begun() {
            return Ok(());
        }
        self.started = true;
        self.source.known = true;
        self.reconcile(false).await;
        self.note_carrier(&NetView::default())?;
        self.adopt()
    }

    fn set_fence(&mut self, fence: ownership::Fenced) -> Result<(), RunError> {
        self.source.beaten = now()?;
        let fence = Fence {
            deadline_ns: fence.deadline.as_nanos(),
            hold_until_ns: fence.hold_until.as_nanos(),
            yields_settled: self.yields_settled,
            session: fence.session.map_or(0, crate::core::cluster::Session::number),
            policy: self.source.settings.policy,
            _pad: 0,
        };
        Ok(self.plane.maps_mut().set_fence(&fence)?)
    }

    /// Announces a VIP once more, where it is held.
    fn announce_again(&mut self, vip: Ipv4Addr) -> Result<(), RunError> {
        let attached: Vec<u32> = self.plane.attached().map(|(ifindex, _)| ifindex).collect();
        for ifindex in attached {
            let key = VipKey::untagged(ifindex, vip.octets());
            if self.plane.maps().entry(&key)?.is_some_and(|entry| entry.role == Role::Held) {
                self.tell_announcer(announce::Event::Contested { key })?;
            }
        }
        Ok(())
    }

    fn on_signal(&mut self, signal: &'static str) {
        if self.source.stopping.is_some() || self.source.why.is_some() {
            return;
        }
        info!(signal, "the agent is told to end; finding out why");
        let (kube, pod) = (self.source.kube.clone(), self.source.pod.clone());
        self.source.why = Some(task::spawn(async move {
            let found = Termination::find(&kube, pod.as_deref()).await?;
            info!(?found, "what the cluster says about the end");
            Ok(found.reason())
        }));
    }

    async fn on_why(&mut self, reason: StopReason) -> Result<(), RunError> {
        self.source.why = None;
        self.source.stopping = Some(reason);
        info!(reason = messages::reason_name(reason), "the agent ends");
        self.decide(ownership::Event::Stop(reason)).await
    }

    /// Everything that can be done before the end is done.
    async fn end(mut self) -> Result<(), RunError> {
        match self.source.stopping {
            Some(StopReason::Uninstall) => {
                self.withdraw().await?;
                let pin_dir = self.source.pin_dir.clone();
                drop(self);
                for removed in bpf::unload(&pin_dir)? {
                    info!(removed, "removed");
                }
                info!("Vipward is being removed: every VIP is withdrawn, and nothing is pinned any more");
            }
            Some(StopReason::Leave) => info!("the node goes away; its VIPs are others' now"),
            Some(StopReason::Restart) | None => {
                info!("agent ends; the pinned program answers on, under the fence's policy");
            }
        }
        Ok(())
    }

    fn on_question(&mut self, question: Question) {
        // Whoever asked may have gone.
        match question {
            Question::Live(answer) => {
                let _ = answer.send(self.not_alive());
            }
            Question::Ready(answer) => {
                let _ = answer.send(self.not_ready().unwrap_or_else(|error| vec![chain(error)]));
            }
        }
    }

    /// The driver turns, since it answers; the heartbeat must move too.
    fn not_alive(&self) -> Vec<String> {
        let limit = self.source.settings.renewal * 10;
        let since = now().map_or(limit, |now| now.saturating_since(self.source.beaten));
        if since < limit || !self.source.synced {
            return Vec::new();
        }
        vec![format!("the heartbeat has not moved for {} s", since.as_secs())]
    }

    /// What is not as it is believed to be, read back from the kernel.
    fn not_ready(&self) -> Result<Vec<String>, RunError> {
        let mut wrong = Vec::new();
        if self.plane.attached().next().is_none() {
            wrong.push("the program is attached to no interface".to_owned());
        }
        for (ifindex, _) in self.plane.attached() {
            let interface = self.view.interfaces.get(&ifindex);
            if !interface.is_some_and(|interface| interface.xdp_programs.contains(&self.program_id)) {
                wrong.push(format!("{} runs another program, or none", self.name(ifindex)));
            }
        }
        if !self.plane.is_pinned()? {
            wrong.push("pins are missing".to_owned());
        }
        if self.started {
            let held: BTreeSet<Ipv4Addr> = (self.plane.maps().entries()?.iter())
                .filter(|(_, entry)| entry.role == Role::Held)
                .map(|(key, _)| key.addr.into())
                .collect();
            let believed: BTreeSet<Ipv4Addr> = (self.source.assigned.iter())
                .filter(|(_, assigned)| assigned.stance == Stance::Held)
                .map(|(vip, _)| *vip)
                .collect();
            wrong.extend(believed.difference(&held).map(|vip| format!("{vip} is believed held and is not")));
            wrong.extend(
                held.difference(&believed).map(|vip| format!("{vip} is held and believed not to be")),
            );
        } else {
            wrong.push("the cluster has not been read yet".to_owned());
        }
        let fence = self.plane.maps().fence()?;
        if fence.state(now()?.as_nanos()) != FenceState::Valid {
            wrong.push("the fence is not valid: the Lease has not been renewed".to_owned());
        }
        Ok(wrong)
    }
}

/// Why the agent is to end; never resolves while nobody has asked it to.
async fn found_out(why: &mut Option<JoinHandle<Result<StopReason, ConnectError>>>) -> StopReason {
    let Some(task) = why else { return pending().await };
    match task.await {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) => unclear(error),
        Err(error) => unclear(error),
    }
}

fn unclear(error: impl std::error::Error + Send + Sync + 'static) -> StopReason {
    error!(error = chain(error), "failed to find out why the agent is to end; taken for a restart");
    StopReason::Restart
}
