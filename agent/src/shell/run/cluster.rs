//! The event loop in a cluster: passes the API server's objects to
//! the core, and carries out its commands.
//!
//! Other tasks read and write objects. This task alone decides and
//! changes the maps. It never waits for a request.

mod conflicts;
mod execute;
mod intake;
mod interfaces;
mod messages;
mod probing;
mod showing;
mod start;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    io,
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use nix::unistd::gethostname;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{self, JoinHandle},
};
use tracing::{error, info};
use vipward_common::{EventKind, MacAddr, VipKey};
use vipward_core::{
    base::{pattern::InterfacePattern, retrying::Writes, time::Monotonic},
    config::Config,
    diagnosis::doctor::{WirePeer, WireReport},
    host::{
        net::{NetView, Vital},
        placement::{Entry, Wanted},
    },
    ownership::{self, Engine, Interlock, Said, Settings, StopReason, Wire},
    records::ServiceName,
    reports::moves::Moves,
    segment::{
        conflict::{Line, Right},
        probing::Probed,
    },
    services::{self, Services},
};

use self::{
    messages::Messages,
    showing::{Aspect, Show},
    start::{ownership_settings, start},
    wire::{Failover, found},
};
use super::{
    BEATS_MISSED, Desk, EventLoop, RunError, check_host, inputs::Heard, now, source::Source, system,
};
use crate::{
    cli::KubernetesArgs,
    shell::{
        bpf::{self, Loader, Maps},
        causes::chain,
        kube::{
            ConnectError, HeldVip, Kube, L2Statuses, Reader, Reply, Requests, Resource, Seen, find_reason,
        },
        metrics::{ClaimSnapshot, MetalLbSnapshot, Mode, MoveMetrics, WireSnapshot},
    },
};

/// Longest time for which claims are expected to be late while very many are written.
const LONGEST_CROWD: Duration = Duration::from_mins(5);

/// The engine's assignment of a VIP to this node.
struct Assigned {
    entry: Entry,
    home: Option<InterfacePattern>,
}

impl Assigned {
    fn wanted(&self, address: IpAddr) -> Wanted<'_> {
        Wanted {
            address,
            interface: self.home.as_ref(),
            vlan: None,
            bind: None,
            entry: self.entry,
            is_guarded: false,
        }
    }
}

/// The open objects of a cluster's agent.
struct Cluster {
    engine: Engine,
    interlock: Interlock,
    services: Services,
    assigned: BTreeMap<IpAddr, Assigned>,
    /// True if `assigned` has everything that the engine said when it began. Its
    /// first commands are carried out step by step. A step that looks at all entries
    /// must not remove one that a later command wants.
    known: bool,
    /// The types that are read.
    resources: Vec<Resource>,
    /// Types that cannot be read now.
    unreadable: BTreeSet<Resource>,
    /// Types that have been listed at least once.
    listed: BTreeSet<Resource>,
    synced: bool,
    settings: Settings,
    /// Results of probes that the engine does not have yet.
    probed: Vec<(IpAddr, Probed)>,
    /// Conflicts that this node has reported, with the reported text.
    conflicted: BTreeMap<IpAddr, String>,
    /// Writes that show findings on claims.
    shown: Writes<(IpAddr, Aspect), Show>,
    pin_dir: PathBuf,
    /// Time of the engine's last move of the fence.
    beaten: Monotonic,
    messages: Messages,
    /// Instead of `MetalLB`.
    l2_statuses: Option<L2Statuses>,
    statuses: Writes<ServiceName, Option<Vec<IpAddr>>>,
    /// None if it is off, or could not begin.
    wire: Option<Failover>,
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
    seen: mpsc::Receiver<Seen>,
    reader: Reader,
    moves: Moves,
    move_metrics: MoveMetrics,
    kube: Kube,
    pod: Option<String>,
    /// Task that finds out why the agent is to end.
    why: Option<JoinHandle<Result<StopReason, ConnectError>>>,
    stopping: Option<StopReason>,
    /// True if the engine has said that nothing is left to do.
    stopped: bool,
}

impl Source for Cluster {
    fn wanted<'a>(&'a self, _config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> + Clone {
        self.assigned.iter().map(|(address, assigned)| assigned.wanted(*address))
    }

    // This does not search all of them: there are thousands, and every change calls it.
    fn wanted_of<'a>(&'a self, _config: &'a Config, vips: &BTreeSet<IpAddr>) -> Vec<Wanted<'a>> {
        vips.iter().filter_map(|vip| Some(self.assigned.get(vip)?.wanted(*vip))).collect()
    }

    fn is_known(&self) -> bool {
        self.known
    }

    fn may_begin_answering(&self, now: Monotonic) -> bool {
        self.engine.may_begin_answering(now)
    }

    fn may_take_back(&self, _config: &Config, vip: IpAddr) -> bool {
        self.engine.may_take_back(vip)
    }

    fn note_taken_back(&mut self, vip: IpAddr, mac: MacAddr, now: Monotonic) {
        self.report_taken_back(vip, mac, now);
    }

    fn must_be_free(&self, _vip: IpAddr) -> bool {
        // The engine requests the probes itself.
        false
    }

    fn is_vacant(&self, vip: IpAddr) -> bool {
        !self.engine.is_held_by_any(vip)
    }

    fn must_hear(&self) -> Option<Vital> {
        self.services.is_behind().then(|| self.services.vital())
    }

    fn note_probed(&mut self, vip: IpAddr, probed: Probed, _now: Monotonic) {
        self.probed.push((vip, probed));
    }

    fn note_conflict(&mut self, line: &Line, view: &NetView, now: Monotonic) {
        self.report_conflict(line, view, now);
    }

    fn note_taken(&mut self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
        self.tell_former(key, now)
    }

    fn note_announced(&mut self, vip: IpAddr, now: Monotonic) {
        if let Some(took) = self.moves.on_announced(vip, now) {
            self.move_metrics.announced(took);
        }
    }

    fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right {
        match self.engine.right(vip, mac, now) {
            // The news of a claim comes later than usual while very many are written.
            Right::NotGiven(epoch) if self.kube.crowded_for().is_some_and(|lasts| lasts < LONGEST_CROWD) => {
                Right::Unknown(epoch)
            }
            right => right,
        }
    }

    fn said(
        &self,
        _config: &Config,
        of: Option<&BTreeSet<IpAddr>>,
        now: Monotonic,
    ) -> BTreeMap<IpAddr, Said> {
        let said_of = |vip| Some((vip, self.engine.said_of(vip, now)?.1));
        match of {
            Some(vips) => vips.iter().copied().filter_map(said_of).collect(),
            None => {
                self.engine.claimed_here().chain(self.engine.left_behind(now)).filter_map(said_of).collect()
            }
        }
    }

    fn left_behind(&self, now: Monotonic) -> Vec<IpAddr> {
        self.engine.left_behind(now).collect()
    }

    fn grace(&self, _config: &Config) -> Duration {
        self.settings.lease + self.settings.margin
    }

    fn heartbeat(&self) -> Option<(Monotonic, Duration)> {
        self.synced.then_some((self.beaten, self.settings.renewal * BEATS_MISSED))
    }

    fn claims(&self, now: Monotonic) -> Option<ClaimSnapshot> {
        let (mut epochs, mut without_holder) = (Vec::new(), 0);
        for standing in self.engine.standings(now) {
            epochs.push((standing.vip, standing.epoch.0));
            without_holder += usize::from(!standing.has_holder);
        }
        Some(ClaimSnapshot { epochs, without_holder, nodes_alive: self.engine.alive(now).len() })
    }

    fn wire(&self, now: Monotonic) -> Option<WireSnapshot> {
        Some(self.wire_snapshot(now))
    }

    fn wire_report(&self, now: Monotonic) -> WireReport {
        let WireSnapshot { deposed: _, view, thread } = self.wire_snapshot(now);
        let peers = thread.iter().flat_map(|thread| &thread.traffic).map(WirePeer::of).collect();
        WireReport { view, peers }
    }

    fn metallb(&self) -> Option<MetalLbSnapshot> {
        let statuses = self.l2_statuses.as_ref()?;
        let is_one = |resource: &Resource| Resource::OF_METALLB.contains(resource);
        Some(MetalLbSnapshot {
            announced: statuses.held().map(|(vip, held)| (vip, held.services.clone())).collect(),
            is_loaded: self.listed.iter().filter(|it| is_one(it)).count() == Resource::OF_METALLB.len(),
            is_stale: self.unreadable.iter().any(is_one),
        })
    }

    fn peer_addresses(&self) -> Vec<IpAddr> {
        self.engine.peer_addresses().collect()
    }

    fn state(&self, now: Monotonic) -> Value {
        json!({
            "listed": self.listed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "synced": self.synced,
            "last_heartbeat_seconds_ago": now.saturating_since(self.beaten).as_secs_f64(),
            "engine": self.engine.view(now),
            "wire": self.wire_state(),
        })
    }

    fn mode(&self) -> Mode {
        Mode::Kubernetes
    }

    fn beat_if_due(&mut self, _: &mut Maps, _: u64, _: Monotonic) -> Result<(), RunError> {
        // Only a renewal moves this fence, and renewing does not wait for the maps for long.
        Ok(())
    }
}

/// Runs the agent of a cluster's node until a signal ends it.
pub async fn agent(args: KubernetesArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    let node = args.node_name.clone().unwrap_or_else(|| host.to_string_lossy().into_owned());
    if args.services.metallb && args.without_controller {
        return Err(RunError::NoPools);
    }
    let settings = ownership_settings(&args, &node)?;
    let _lock = check_host(&args.plane.pins)?;
    let pod = args.pod_address.and_then(|pod| pod.0);
    let desk = Desk::open(Mode::Kubernetes, &args.pages, pod).await?;
    let mut event_loop = Box::pin(start(&args, loader, settings, desk)).await?;
    while !event_loop.source.stopped {
        event_loop.turn().await?;
    }
    Box::pin(event_loop.end()).await
}

impl EventLoop<Cluster> {
    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<(), RunError> {
        let deadline = self.next_deadline();
        let others = [
            self.source.engine.next_deadline(),
            self.source.statuses.next_deadline(),
            self.source.shown.next_deadline(),
            self.source.messages.next_deadline(),
            self.source.services.next_deadline(),
        ];
        let deadline = others.into_iter().flatten().fold(deadline, Ord::min);
        let source = &mut self.source;
        let done = tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => self.on_heard(heard?).await,
            finding = found(&mut source.wire) => self.on_found(finding).await,
            Some(reply) = source.replies.recv() => self.on_replies(reply).await,
            Some(question) = self.questions.recv() => {
                self.on_question(question);
                Ok(())
            }
            why = found_out(&mut source.why) => self.on_why(why).await,
            Some(outcome) = source.messages.bulletin.event_written() => {
                source.messages.bulletin.on_event_written(outcome, now()?);
                Ok(())
            }
            Some(seen) = source.seen.recv() => self.on_seen(seen).await,
        };
        done?;
        self.tell_probed().await
    }

    async fn on_heard(&mut self, heard: Heard) -> Result<(), RunError> {
        match heard {
            Heard::Deadline => {
                self.decide(ownership::Event::Tick).await?;
                self.look_for_quiet().await?;
                self.heed_fence().await?;
                self.source.write_statuses_due(now()?);
                let looked_at = self.look_at_answers()?;
                self.show_answers(&looked_at, now()?);
                self.show_due()?;
                let Cluster { engine, services, messages, .. } = &mut self.source;
                messages.on_time(engine, services, now()?);
                // The network is observed only then. Other deadlines
                // may come a thousand times a second.
                let verifies = self.verify <= now()?;
                self.on_deadline().await?;
                if verifies {
                    self.report_interfaces().await?;
                }
            }
            Heard::Stop(signal) => self.on_signal(signal),
            Heard::Hangup => info!("SIGHUP: there is no file to read again; the cluster is watched"),
            Heard::Network(changed) => {
                self.on_network(&changed).await?;
                self.report_interfaces().await?;
            }
            Heard::Events(events) => {
                self.hear(&events)?;
                for event in &events {
                    let mac = MacAddr(event.sha);
                    let heard = match event.kind {
                        EventKind::Contested => Wire::Contested { mac },
                        EventKind::Moved => Wire::Moved { mac },
                        // The yield is passed on after it has been read back.
                        EventKind::Yielded | EventKind::Conflict | EventKind::Sighted | EventKind::Probed => {
                            continue;
                        }
                    };
                    self.decide(ownership::Event::Wire { vip: event.key().addr, heard }).await?;
                }
                self.tell_engine_of_yields().await?;
            }
            Heard::Round(report) => self.on_round(&report).await?,
            Heard::Nothing => {}
        }
        Ok(())
    }

    /// Writes the program's yields into the entries, and passes them to the engine.
    async fn tell_engine_of_yields(&mut self) -> Result<(), RunError> {
        for (vip, mac) in self.settle_yields().await? {
            self.decide(ownership::Event::Wire { vip, heard: Wire::Yielded { mac } }).await?;
        }
        Ok(())
    }

    /// Ends contests over statuses that have been quiet for long enough.
    async fn look_for_quiet(&mut self) -> Result<(), RunError> {
        let now = now()?;
        let told = self.source.services.on_time(now);
        let commands = self.serve(told, now);
        self.execute(commands).await
    }

    /// Lifts the guards over what leads to the API server while this node may be behind: what it knows
    /// of holders may be untrue by now, and it must be able to learn that.
    async fn heed_fence(&mut self) -> Result<(), RunError> {
        let is_behind = self.source.engine.is_behind(now()?);
        if self.source.services.is_behind() == is_behind {
            return Ok(());
        }
        let served = self.source.services.on_event(services::Event::Behind(is_behind));
        let owned = self.serve(served, now()?);
        self.execute(owned).await?;
        let Vital { api_servers, next_hops } = self.source.services.vital();
        let mut guarded: BTreeSet<_> = api_servers.union(&next_hops).copied().collect();
        guarded.retain(|vip| self.source.assigned.contains_key(vip));
        if !guarded.is_empty() {
            self.write_some(&guarded).await;
        }
        Ok(())
    }

    /// Begins to find out why the agent is to end. That may take seconds, and the agent goes on
    /// meanwhile. Further signals change nothing: the end is near already.
    fn on_signal(&mut self, signal: &'static str) {
        if self.source.stopping.is_some() || self.source.why.is_some() {
            return;
        }
        info!(signal, "signal to end; finding out why");
        let (kube, pod) = (self.source.kube.clone(), self.source.pod.clone());
        self.source.why = Some(task::spawn(async move { find_reason(&kube, pod.as_deref()).await }));
    }

    async fn on_why(&mut self, reason: StopReason) -> Result<(), RunError> {
        self.source.why = None;
        self.source.stopping = Some(reason);
        info!(reason = messages::reason_name(reason), "the agent ends");
        self.decide(ownership::Event::Stop(reason)).await
    }

    /// Ends the agent. Withdraws the VIPs and unpins everything if Vipward is uninstalled.
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
            Some(StopReason::Leave) => info!("the node goes away; other nodes have its VIPs"),
            Some(StopReason::Restart) | None => {
                info!("agent ends; the pinned program answers on, under the fence's policy");
            }
        }
        Ok(())
    }
}

/// Returns the reason why the agent is to end. Never resolves before a signal asks it to end.
async fn found_out(why: &mut Option<JoinHandle<Result<StopReason, ConnectError>>>) -> StopReason {
    let Some(task) = why else { return pending().await };
    match task.await {
        Ok(Ok(reason)) => reason,
        Ok(Err(error)) => unclear(error),
        Err(error) => unclear(error),
    }
}

fn unclear(error: impl std::error::Error + Send + Sync + 'static) -> StopReason {
    error!(error = chain(&error), "failed to find out why the agent is to end; assuming a restart");
    StopReason::Restart
}
