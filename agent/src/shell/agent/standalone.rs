//! The event loop of a standalone agent: a file lists its VIPs,
//! and its own heartbeat moves the fence.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};
use tracing::{error, info, warn};
use vipward_common::{Defence, Event, EventKind, Fence, MacAddr, Policy};
use vipward_core::{
    agent::segment::{Authority, Input},
    base::time::Monotonic,
    config::{Config, OnYield, Shutdown},
    host::{
        heartbeat::{Beat, Heartbeat},
        net::{NetView, Vital},
        placement::{Entry, Wanted},
    },
    ownership::Said,
    segment::{
        conflict::{Line, Right},
        probing::Probed,
    },
};

use super::{
    error::RunError,
    event_loop::{EventLoop, settings},
    inputs::Heard,
    source::Source,
    starting::{Desk, check_host, read_config},
    timing::{self, BEATS_MISSED, clock_tick, millis, now},
};
use crate::{
    cli::AgentArgs,
    shell::{
        kernel::{
            bpf::{Loader, Maps},
            file_watch::FileWatch,
        },
        logging::causes::chain,
        pages::metrics::Mode,
    },
};

/// Time between two log lines about the progress of probes.
const PROGRESS: Duration = Duration::from_secs(5);
/// Time during which free addresses are collected, to be taken together.
const TOGETHER: Duration = Duration::from_millis(10);

enum Turn {
    GoOn,
    Stop(&'static str),
}

/// A file. This node holds its VIPs without asking other nodes.
struct FileSource {
    path: PathBuf,
    watch: FileWatch,
    heartbeat: Heartbeat,
    /// VIPs whose addresses were found free, and which are not held yet.
    free: BTreeSet<IpAddr>,
    /// VIPs that are taken even if their addresses are in use.
    forced: BTreeSet<IpAddr>,
    /// True if a yielded VIP is taken back when no peer answers for it.
    takes_back: bool,
    /// The program's part in the defence of held VIPs.
    defence: Defence,
    /// Time of the next taking of free VIPs, if one is due.
    take_due: Option<Monotonic>,
    /// Earliest time of the next taking. A taking of very many VIPs must leave time for other work.
    take_next: Monotonic,
    /// Time of the last log line about probes; `None` while no address is probed.
    probing_logged: Option<Monotonic>,
    /// Time of the fence's last move.
    beaten: Monotonic,
    every: Duration,
}

impl Authority for FileSource {
    fn right(&self, _vip: IpAddr, _mac: MacAddr, _now: Monotonic) -> Right {
        Right::NoClaims
    }

    fn may_take_back(&self, _vip: IpAddr) -> bool {
        self.takes_back
    }

    fn must_be_free(&self, vip: IpAddr) -> bool {
        !self.free.contains(&vip) && !self.forced.contains(&vip)
    }

    fn is_known(&self) -> bool {
        true
    }

    fn is_vacant(&self, _vip: IpAddr) -> bool {
        false
    }

    fn may_begin_answering(&self, _now: Monotonic) -> bool {
        true
    }

    fn must_hear(&self) -> Option<Vital> {
        None
    }
}

impl Source for FileSource {
    fn wanted<'a>(&'a self, config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> + Clone {
        config.vips.iter().map(Wanted::from)
    }

    fn note_probed(&mut self, vip: IpAddr, probed: Probed, now: Monotonic) {
        // The prober repeats its probe of an address in use.
        if probed == Probed::Free {
            self.free.insert(vip);
            self.take_due.get_or_insert((now + TOGETHER).max(self.take_next));
        }
    }

    fn note_conflict(&mut self, _line: &Line, _view: &NetView, _now: Monotonic) {
        // A standalone agent reports conflicts in its log alone.
    }

    fn said(
        &self,
        config: &Config,
        of: Option<&BTreeSet<IpAddr>>,
        _now: Monotonic,
    ) -> BTreeMap<IpAddr, Said> {
        let is_one = |wanted: &Wanted<'_>| {
            wanted.entry == Entry::Held && of.is_none_or(|of| of.contains(&wanted.address))
        };
        let held = self.wanted(config).filter(is_one);
        held.map(|wanted| (wanted.address, Said::Here { taken: true })).collect()
    }

    fn heartbeat(&self) -> Option<(Monotonic, Duration)> {
        Some((self.beaten, self.every * BEATS_MISSED))
    }

    fn state(&self, now: Monotonic) -> Value {
        json!({
            "file": self.path,
            "last_heartbeat_seconds_ago": now.saturating_since(self.beaten).as_secs_f64(),
        })
    }

    fn mode(&self) -> Mode {
        Mode::Standalone
    }

    fn beat_if_due(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError> {
        if self.heartbeat.next_deadline() <= now {
            self.beat(maps, yields_settled, now)?;
        }
        Ok(())
    }
}

impl FileSource {
    /// Moves the fence. A failure ends the agent: nothing else would keep the fence from lapsing.
    fn beat(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError> {
        let beat = self.heartbeat.beat(now);
        if let Some(late) = beat.late {
            warn!(
                late_by_ms = millis(late.by),
                fence_ms = millis(beat.deadline.saturating_since(now)),
                lapsed = late.lapsed,
                "heartbeat is late"
            );
        }
        self.beaten = now;
        Ok(maps.set_fence(&fence(&beat, yields_settled, self.defence))?)
    }
}

/// Runs a standalone agent until a signal ends it.
pub async fn agent(args: AgentArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let watch = FileWatch::new(&args.config)?;
    let config = read_config(&args.config)?;
    let _lock = check_host(&args.plane.pins)?;
    let desk = Desk::open(Mode::Standalone, &args.pages, None).await?;
    let mut event_loop = start(&args, loader, config, watch, desk).await?;
    loop {
        if let Turn::Stop(cause) = event_loop.turn().await? {
            return event_loop.stop(cause).await;
        }
    }
}

async fn start(
    args: &AgentArgs,
    loader: Loader,
    config: Config,
    watch: FileWatch,
    desk: Desk,
) -> Result<EventLoop<FileSource>, RunError> {
    let now = now()?;
    let mut heartbeat = Heartbeat::start(&config.fence, clock_tick()?, now);
    let defence = config.conflicts.defend.in_program();
    let first = fence(&heartbeat.beat(now), 0, defence);
    let forced = forced(&config);
    let every = config.fence.heartbeat;
    let source = FileSource {
        path: args.config.clone(),
        watch,
        heartbeat,
        free: BTreeSet::new(),
        forced,
        takes_back: takes_back(&config),
        defence,
        take_due: None,
        take_next: now,
        probing_logged: None,
        beaten: now,
        every,
    };
    let mut event_loop = EventLoop::open(&args.plane, loader, config, first, source, desk).await?;
    // Entries come first: another node may have the pinned VIPs by now. The fence is next, and
    // announcements come last, since none may leave before the fence is valid.
    event_loop.reconcile(false).await;
    event_loop.log_probing()?;
    // The time for loading must not count as a late heartbeat.
    event_loop.source.heartbeat.configure(&event_loop.config.fence, timing::now()?);
    event_loop.beat().await?;
    event_loop.on_segment(Input::Started)?;
    event_loop.on_segment(Input::Network(&NetView::default()))?;
    event_loop.adopt()?;
    info!(node = %event_loop.config.node, config = %event_loop.source.path.display(), "agent is running");
    Ok(event_loop)
}

impl EventLoop<FileSource> {
    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<Turn, RunError> {
        let deadline = self.next_deadline().min(self.source.heartbeat.next_deadline());
        let deadline = self.source.take_due.map_or(deadline, |due| due.min(deadline));
        let heard = tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => heard?,
            changed = self.source.watch.changed() => {
                changed?;
                self.reload(false).await?;
                return Ok(Turn::GoOn);
            }
            Some(question) = self.questions.recv() => {
                self.on_question(question);
                return Ok(Turn::GoOn);
            }
        };
        match heard {
            Heard::Deadline => {
                if self.source.heartbeat.next_deadline() <= now()? {
                    self.beat().await?;
                }
                self.take_what_is_free().await?;
                self.look_at_answers()?;
                self.on_deadline().await?;
            }
            Heard::Stop(signal) => return Ok(Turn::Stop(signal)),
            Heard::Hangup => self.reload(true).await?,
            Heard::Network(changed) => self.on_network(&changed).await?,
            Heard::Events(events) => self.on_events(&events).await?,
            Heard::Round(report) => self.on_round(&report).await?,
            Heard::Nothing => {}
        }
        self.log_probing()?;
        Ok(Turn::GoOn)
    }

    /// Moves the fence, and writes yields into the entries.
    async fn beat(&mut self) -> Result<(), RunError> {
        self.move_fence()?;
        self.settle_yields().await.map(drop)
    }

    fn move_fence(&mut self) -> Result<(), RunError> {
        self.source.beat(self.plane.maps_mut(), self.host.yields_settled(), now()?)
    }

    async fn on_events(&mut self, events: &[Event]) -> Result<(), RunError> {
        self.on_program(events)?;
        // The file is the only authority, so this node keeps a VIP that a peer claims.
        for event in events.iter().filter(|event| event.kind == EventKind::Contested) {
            self.on_segment(Input::Challenged(event.key()))?;
        }
        self.settle_yields().await.map(drop)
    }

    /// Takes the VIPs whose addresses have been found free.
    async fn take_what_is_free(&mut self) -> Result<(), RunError> {
        let began = now()?;
        if self.source.take_due.is_none_or(|due| began < due) {
            return Ok(());
        }
        self.source.take_due = None;
        let free = self.source.free.clone();
        self.take_free(&free).await?;
        self.source.free.clear();
        let ended = now()?;
        self.source.take_next = ended + ended.saturating_since(began) * 2;
        Ok(())
    }

    /// Takes the VIPs whose addresses were found free. Examines no others, since tens of thousands may
    /// wait.
    async fn take_free(&mut self, vips: &BTreeSet<IpAddr>) -> Result<(), RunError> {
        self.on_segment(Input::Freed(vips))?;
        // Only a full reconciliation binds addresses.
        if self.source.wanted_of(&self.config, vips).iter().any(|vip| vip.bind.is_some()) {
            self.reconcile(false).await;
        } else {
            self.reconcile_some(vips).await;
        }
        Ok(())
    }

    /// Logs the progress of probing, and its end.
    fn log_probing(&mut self) -> Result<(), RunError> {
        let left = self.segment.undecided();
        let now = now()?;
        if left > 0 && self.source.probing_logged.is_none_or(|logged| logged + PROGRESS <= now) {
            self.source.probing_logged = Some(now);
            info!(left, "addresses are being probed before their VIPs are held");
        }
        if left == 0 && self.source.take_due.is_none() && self.source.probing_logged.take().is_some() {
            info!(in_use = self.segment.held_back().count(), "addresses have been probed");
        }
        Ok(())
    }

    /// Reads the file again. A faulty file is logged, and changes nothing.
    async fn reload(&mut self, reclaim: bool) -> Result<(), RunError> {
        match read_config(&self.source.path) {
            Ok(config) if config == self.config && !reclaim => return Ok(()),
            Ok(config) => {
                info!(config = %self.source.path.display(), reclaim, "configuration is applied");
                self.source.heartbeat.configure(&config.fence, now()?);
                self.source.every = config.fence.heartbeat;
                self.segment.configure(&settings(&config), now()?);
                self.source.forced = forced(&config);
                self.source.takes_back = takes_back(&config);
                self.source.defence = config.conflicts.defend.in_program();
                self.config = config;
                self.answers.configure(self.source.grace(&self.config));
            }
            Err(error) => {
                error!(
                    error = chain(&error),
                    config = %self.source.path.display(),
                    "configuration is not applied; the running one stays in force"
                );
                if !reclaim {
                    return Ok(());
                }
            }
        }
        self.move_fence()?;
        self.reconcile(reclaim).await;
        self.log_probing()?;
        self.beat().await
    }

    async fn stop(mut self, cause: &'static str) -> Result<(), RunError> {
        match self.config.shutdown {
            Shutdown::Keep => {
                self.beat().await?;
                info!(cause, "agent ends; the pinned program answers on, under the fence's policy");
            }
            Shutdown::Withdraw => {
                self.withdraw().await?;
                info!(cause, "agent ends; every VIP is withdrawn");
            }
        }
        Ok(())
    }
}

fn takes_back(config: &Config) -> bool {
    config.fence.policy == Policy::Hold && config.yields == OnYield::Ask && config.probe.count > 0
}

fn forced(config: &Config) -> BTreeSet<IpAddr> {
    config.vips.iter().filter(|vip| vip.force).map(|vip| vip.address).collect()
}

fn fence(beat: &Beat, yields_settled: u64, defence: Defence) -> Fence {
    Fence {
        deadline_ns: beat.deadline.as_nanos(),
        hold_until_ns: beat.hold_until.as_nanos(),
        yields_settled,
        session: 0,
        words_settled: 0,
        policy: beat.policy,
        defence,
    }
}
