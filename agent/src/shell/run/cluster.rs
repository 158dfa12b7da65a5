//! The driver of an agent in a cluster: what the API server has goes into the core, what the core asks for is done.
//!
//! Tasks read and write; this one alone decides and touches the maps. Requests never make it wait.

mod conflicts;
mod execute;
mod intake;
mod links;
mod messages;
mod moves;
mod refusals;
mod start;
mod untold;
mod writes;

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    io,
    net::{IpAddr, Ipv4Addr},
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
use vipward_common::{EventKind, MacAddr};

use self::{
    conflicts::Show,
    messages::Messages,
    moves::Moves,
    start::{ownership_settings, start},
    writes::Writes,
};
use super::{
    BEATS_MISSED, Desk, Driver, RunError, check_host, inputs::Heard, now, segment::Probed, source::Source,
    system,
};
use crate::{
    cli::KubernetesArgs,
    core::{
        cluster::ServiceName,
        config::{Config, InterfacePattern},
        conflict::Line,
        ownership::{self, Engine, Settings, StopReason, Wire},
        placement::{Stance, Wanted},
        reporting::{self, Reporting},
        services::{Problem, Services},
        time::Monotonic,
    },
    shell::{
        bpf::{self, Loader, Maps},
        causes::chain,
        kube::{ConnectError, Kube, Reader, Reply, Requests, Resource, Seen, Termination},
        metrics::{ClaimSnapshot, Mode},
    },
};

/// What this node is to a VIP, as the engine says.
struct Assigned {
    stance: Stance,
    home: Option<InterfacePattern>,
}

impl Assigned {
    fn wanted(&self, address: Ipv4Addr) -> Wanted<'_> {
        Wanted { address, interface: self.home.as_ref(), bind: None, stance: self.stance }
    }
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
    /// What probes have found out and the engine has not been told.
    probed: Vec<(Ipv4Addr, ownership::Probed)>,
    /// The conflicts that people were told of, and what.
    conflicted: BTreeMap<Ipv4Addr, String>,
    /// What is to be shown of them on claims.
    shown: Writes<Ipv4Addr, Show>,
    pin_dir: PathBuf,
    /// When the engine last moved the fence.
    beaten: Monotonic,
    messages: Messages,
    reporting: Reporting,
    statuses: Writes<ServiceName, Option<Vec<Ipv4Addr>>>,
    requests: Requests,
    replies: mpsc::Receiver<Reply>,
    seen: mpsc::Receiver<Seen>,
    _reader: Reader,
    moves: Moves,
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
        self.assigned.iter().map(|(address, assigned)| assigned.wanted(*address))
    }

    // Not all of them are looked at: there are thousands, and this is asked for each change.
    fn wanted_of<'a>(&'a self, _config: &'a Config, vips: &BTreeSet<Ipv4Addr>) -> Vec<Wanted<'a>> {
        vips.iter().filter_map(|vip| Some(self.assigned.get(vip)?.wanted(*vip))).collect()
    }

    fn is_known(&self) -> bool {
        self.known
    }

    fn must_be_free(&self, _vip: Ipv4Addr) -> bool {
        // The engine has asked.
        false
    }

    fn note_probed(&mut self, probed: Probed, _now: Monotonic) {
        let (vip, probed) = match probed {
            Probed::Free { vip } => (vip, ownership::Probed::Free),
            Probed::InUse { vip, mac, by_peer } => (vip, ownership::Probed::InUse { mac, by_peer }),
        };
        self.probed.push((vip, probed));
    }

    fn note_conflict(&mut self, line: &Line, now: Monotonic) {
        self.tell_conflict(line, now);
    }

    fn note_announced(&mut self, vip: Ipv4Addr, now: Monotonic) {
        self.moves.on_announced(vip, now);
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

    fn state(&self, now: Monotonic) -> Value {
        json!({
            "listed": self.listed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "synced": self.synced,
            "last_heartbeat_seconds_ago": now.saturating_since(self.beaten).as_secs_f64(),
            "engine": self.engine.view(now),
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

/// Runs the agent of a cluster's node until it is told to stop.
pub async fn agent(args: KubernetesArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    let node = args.node_name.clone().unwrap_or_else(|| host.to_string_lossy().into_owned());
    let settings = ownership_settings(&args, &node)?;
    let _lock = check_host(&args.plane.pins)?;
    let pod = args.pod_address.and_then(|pod| pod.0);
    let desk = Desk::open(Mode::Kubernetes, &args.pages, pod).await?;
    let mut driver = Box::pin(start(&args, loader, settings, desk)).await?;
    while !driver.source.stopped {
        driver.turn().await?;
    }
    driver.end().await
}

impl Driver<Cluster> {
    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<(), RunError> {
        let deadline = self.next_deadline();
        let others = [
            self.source.engine.next_deadline(),
            self.source.statuses.next_deadline(),
            self.source.shown.next_deadline(),
            self.source.messages.next_deadline(),
            self.source.reporting.next_deadline(),
            self.source.services.next_deadline(),
        ];
        let deadline = others.into_iter().flatten().fold(deadline, Ord::min);
        let source = &mut self.source;
        let done = tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => self.on_heard(heard?).await,
            Some(reply) = source.replies.recv() => self.on_replies(reply).await,
            Some(question) = self.questions.recv() => {
                self.on_question(question);
                Ok(())
            }
            why = found_out(&mut source.why) => self.on_why(why).await,
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
                self.source.write_statuses_due(now()?);
                self.show_conflicts_due()?;
                self.source.messages.tell_untold(now()?);
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
                self.hear(&events)?;
                for event in &events {
                    let mac = MacAddr(event.sha);
                    let heard = match event.kind {
                        EventKind::Contested => Wire::Contested { mac },
                        EventKind::Moved => Wire::Moved { mac },
                        // Told when the yield has been read back.
                        EventKind::Yielded | EventKind::Conflict | EventKind::Sighted | EventKind::Probed => {
                            continue;
                        }
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

    /// Contests over statuses end when nobody goes on with them.
    async fn look_for_quiet(&mut self) -> Result<(), RunError> {
        let now = now()?;
        let told = self.source.services.on_time(now);
        let commands = self.serve(told, now);
        self.execute(commands).await
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
        let tell =
            |service: &ServiceName, problem: &Problem| messages.problem_settled(services, service, problem);
        reporting.due(is_ours, tell, now);
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
    error!(error = chain(&error), "failed to find out why the agent is to end; taken for a restart");
    StopReason::Restart
}
