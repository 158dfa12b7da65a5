//! The event loop: waits for the next event or deadline, asks the
//! core for decisions, and carries them out.
//!
//! One task makes all changes to the maps, between two waits of `turn`. So no two changes ever
//! meet. A request that could take longer than a heartbeat runs in another task.
//!
//! The host's part is the same for each source of VIPs; `standalone` and `cluster` add their own.

mod announcing;
mod apply;
mod attaching;
mod cluster;
mod conflicts;
mod hearing;
mod inputs;
mod probing;
mod proving;
mod report;
mod silent;
mod snapshot;
mod source;
mod standalone;
mod yields;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::gethostname;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::{info, warn};
use vipward_common::{Fence, MacAddr, VipKey};
use vipward_core::{
    base::time::Monotonic,
    config::{Config, ConfigError},
    host::{net::NetView, plan::Slots, stale::Stale},
    ownership::SettingsError,
    records::{NodeName, Session},
    segment::{
        announce::Announcer,
        conflict::Conflicts,
        failover::{self, Failovers},
        probing::Prober,
        proving::Proving,
        yields::Yields,
    },
};

use self::{
    apply::Settled, hearing::Hearing, inputs::Inputs, report::Problems, silent::Silent, source::Source,
};
use super::{
    bind::BindError,
    bpf::{BpfError, DataPlane, Loader, Opening, Options},
    clock,
    file_watch::FileWatchError,
    groups::GroupsError,
    kube::ConnectError,
    lines::{Lines, Trouble},
    metrics::{Metrics, Mode},
    netlink::{Changed, NetlinkError},
    packet::{Announcer as Packets, PacketError},
    pages::{Pages, PagesError, Question},
    preflight::{self, PinDirError, PinDirLock, PreflightError},
};
use crate::{
    cli::{PagesArgs, PinArgs, PlaneArgs},
    shell::causes::chain,
};

/// Time until a failed attachment is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// Number of missed periods after which a heartbeat counts as stopped.
const BEATS_MISSED: u32 = 10;
/// Most changes of entries at once with one log line each.
const MOST_ENTRIES: u32 = 16;
/// Time between two full readings of the kernel. The kernel does not report every change.
const VERIFY: Duration = Duration::from_secs(30);

/// The reason why the agent could not start, or ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The file could not be read.
    #[error("failed to read the configuration {}", path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A faulty file.
    #[error("the configuration is wrong")]
    Config(#[from] ConfigError),
    /// Pools without a controller, which alone gives out their addresses.
    #[error(
        "--metallb needs a controller, since nothing else gives out the addresses of IPAddressPools: leave out \
         --without-controller, or --metallb"
    )]
    NoPools,
    /// A host that cannot run the agent.
    #[error("this host cannot run the agent")]
    Preflight(#[from] PreflightError),
    /// The pin directory cannot be used.
    #[error("the pin directory cannot be used")]
    PinDir(#[from] PinDirError),
    /// The data plane failed.
    #[error("the data plane failed")]
    Bpf(#[from] BpfError),
    /// rtnetlink failed.
    #[error("the network could not be observed")]
    Netlink(#[from] NetlinkError),
    /// A VIP could not be added to an interface, or removed from it.
    #[error("an address could not be changed")]
    Bind(#[from] BindError),
    /// The groups of neighbour solicitations could not be read or changed.
    #[error("neighbour solicitations may not be heard")]
    Groups(#[from] GroupsError),
    /// The packet socket failed.
    #[error("nothing can be announced")]
    Packet(#[from] PacketError),
    /// The file cannot be watched.
    #[error("the configuration cannot be watched")]
    Watch(#[from] FileWatchError),
    /// Settings that ownership cannot work with.
    #[error("the settings cannot work")]
    Settings(#[from] SettingsError),
    /// An API server that cannot be found or used.
    #[error("no way to the API server")]
    Connect(#[from] ConnectError),
    /// The pages cannot be served.
    #[error("failed to serve the HTTP endpoints")]
    Pages(#[from] PagesError),
    /// Two agents with one name.
    #[error(
        "another agent runs under the node name {node}, in session {session}: two would take VIPs from each other. Give \
         each its own --node-name"
    )]
    NotAlone {
        /// The name.
        node: NodeName,
        /// The other agent's session.
        session: Session,
    },
    /// A system call failed.
    #[error("failed to {operation}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
}

fn system(operation: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { operation, source }
}

fn now() -> Result<Monotonic, RunError> {
    let now_ns = clock::monotonic_ns().map_err(io::Error::from).map_err(system("read the clock"))?;
    Ok(Monotonic::from_nanos(now_ns))
}

/// Reads and validates the configuration.
pub fn read_config(path: &Path) -> Result<Config, RunError> {
    let text =
        fs::read_to_string(path).map_err(|source| RunError::ReadConfig { path: path.to_owned(), source })?;
    let host = gethostname().map_err(io::Error::from).map_err(system("read the host name"))?;
    Ok(Config::parse(&text, &path.display().to_string(), &host.to_string_lossy())?)
}

pub use self::{cluster::agent as kubernetes, standalone::agent};

/// The agent's open objects, and the core's state machines.
struct EventLoop<S> {
    source: S,
    /// The configuration in force.
    config: Config,
    plane: DataPlane,
    inputs: Inputs,
    view: NetView,
    packets: Packets,
    announcer: Announcer,
    /// Notifications of failovers that may go on.
    failovers: Failovers,
    conflicts: Conflicts,
    prober: Prober,
    proving: Proving,
    /// The interfaces of the segments that the program serves, from the last reconciliation.
    segments: BTreeSet<u32>,
    /// VIPs with entries that have changed since the present rounds of `proving` began.
    changed_entries: BTreeSet<IpAddr>,
    hearing: Hearing,
    /// VIPs that wait until their addresses are known to be free.
    held_back: BTreeSet<VipKey>,
    problems: Problems,
    stale: Stale,
    /// VIPs that this node is said to hold and does not answer.
    silent: Silent,
    /// Interfaces that should have the program and could not be attached, with the reason.
    unattached: BTreeMap<u32, String>,
    /// Interfaces on which the kernel has refused a better mode than the one that runs.
    refused: BTreeSet<u32>,
    /// Yielded VIPs, with the peer's MAC. Their entries may go with an interface and come back.
    yielded: BTreeMap<IpAddr, MacAddr>,
    /// Questions to the segment about yielded VIPs, and the VIPs that were taken back.
    yields: Yields,
    /// VIPs that are being taken back now.
    taking_back: BTreeSet<IpAddr>,
    /// Number of yields that have been written into their entries.
    yields_settled: u64,
    /// True if this agent has taken over the fence. Nothing is announced before.
    started: bool,
    /// The slots of all entries, from the last reading or write.
    slots: Slots,
    /// Changes of entries for the log, by the roles before and after.
    entry_lines: Lines<(&'static str, &'static str)>,
    /// Lines about conflicts.
    conflict_lines: Lines<Trouble>,
    /// The last reconciliation, if it was complete.
    settled: Option<Settled>,
    /// Time of the next full reading. It is sooner after a failure.
    verify: Monotonic,
    metrics: Arc<Metrics>,
    /// Questions of the pages.
    questions: mpsc::Receiver<Question>,
    _pages: Pages,
}

/// The pages and the metrics, before the event loop exists.
struct Desk {
    metrics: Arc<Metrics>,
    questions: mpsc::Receiver<Question>,
    pages: Pages,
}

impl Desk {
    async fn open(mode: Mode, pages: &PagesArgs, pod: Option<IpAddr>) -> Result<Self, RunError> {
        let metrics = Arc::new(Metrics::new(mode, pages.metrics_max_vips));
        let listen = pages.listen(pod, mode == Mode::Kubernetes);
        let (pages, questions) = Pages::open(&listen, Arc::clone(&metrics)).await?;
        Ok(Self { metrics, questions, pages })
    }
}

/// Checks that this host can run an agent on these pins.
/// Returns the lock that excludes other agents.
fn check_host(pins: &PinArgs) -> Result<PinDirLock, RunError> {
    preflight::check_capabilities()?;
    preflight::check_kernel()?;
    preflight::ensure_bpffs(&pins.pin_dir)?;
    Ok(PinDirLock::acquire(&pins.pin_dir)?)
}

fn clock_tick() -> Result<Duration, RunError> {
    clock::coarse_tick().map_err(io::Error::from).map_err(system("read the clock's resolution"))
}

impl<S: Source> EventLoop<S> {
    /// Opens the data plane and all inputs. `fence` is the first fence of new maps.
    async fn open(
        args: &PlaneArgs,
        loader: Loader,
        config: Config,
        fence: Fence,
        source: S,
        desk: Desk,
    ) -> Result<Self, RunError> {
        let now = now()?;
        let options = Options {
            pin_dir: args.pins.pin_dir.clone(),
            max_vips: args.max_vips,
            log: args.log_claims,
            object: args.ebpf_object.clone(),
            fence,
        };
        let (mut plane, opening) = DataPlane::open(loader, &options)?;
        report::opening(&opening, &options.pin_dir);
        desk.pages.begin(&options.pin_dir)?;
        let inputs = Inputs::open(&mut plane, args.log_claims)?;
        let view = inputs.netlink.observe().await?;
        let yields_settled = if opening == Opening::Fresh { 0 } else { plane.maps().fence()?.yields_settled };
        // The process id is no seed: it is 1 in every Pod.
        let seed = fastrand::u64(..);
        Ok(Self {
            silent: Silent::start(source.grace(&config), now),
            announcer: Announcer::start(&config.announce, seed, now),
            failovers: Failovers::default(),
            conflicts: Conflicts::start(&config.conflicts, now),
            prober: Prober::start(&config.probe, seed, now),
            proving: Proving::start(plane.maps().proofs()?),
            segments: BTreeSet::new(),
            changed_entries: BTreeSet::new(),
            hearing: Hearing::default(),
            held_back: BTreeSet::new(),
            source,
            config,
            plane,
            inputs,
            view,
            packets: Packets::open()?,
            problems: Problems::default(),
            stale: Stale::default(),
            unattached: BTreeMap::new(),
            refused: BTreeSet::new(),
            yielded: BTreeMap::new(),
            yields: Yields::default(),
            taking_back: BTreeSet::new(),
            yields_settled,
            started: false,
            slots: Slots::default(),
            entry_lines: Lines::start(
                MOST_ENTRIES,
                |(from, to), entries| info!(entries, from, to, "more entries changed"),
                now,
            ),
            conflict_lines: Trouble::lines(now),
            settled: None,
            verify: now + VERIFY,
            metrics: desk.metrics,
            questions: desk.questions,
            _pages: desk.pages,
        })
    }

    /// Returns the earliest deadline of the host's part.
    fn next_deadline(&self) -> Monotonic {
        // No VIP is examined before it is known what this node is to hold.
        let silent = self.silent.next_deadline().filter(|_| self.started);
        [
            self.announcer.next_deadline(),
            self.conflicts.next_deadline(),
            self.probing_deadline(),
            self.proving.next_deadline(),
            self.yields.next_deadline(),
            self.hearing.next_deadline(),
            self.entry_lines.next_deadline(),
            self.conflict_lines.next_deadline(),
            silent,
        ]
        .into_iter()
        .flatten()
        .fold(self.verify, Ord::min)
    }

    async fn on_deadline(&mut self) -> Result<(), RunError> {
        let began = now()?;
        if self.verify <= began {
            self.verify = began + VERIFY;
            self.settled = None;
            self.observe().await?;
        }
        // With very many VIPs, observing takes longer than a pace allows its items to be late.
        let now = now()?;
        self.entry_lines.on_time(now);
        self.conflict_lines.on_time(now);
        self.announce(now);
        self.tick_hearing(now).await;
        self.tick_probing(now)?;
        self.tick_proving(now).await?;
        self.take_back_yielded(now).await?;
        self.tick_conflicts(now)
    }

    /// Writes the program's yields into the entries. Returns the new ones, each with its peer.
    async fn settle_yields(&mut self) -> Result<BTreeMap<IpAddr, MacAddr>, RunError> {
        let settled = self.yields_settled;
        if self.plane.maps().yields()?.total == settled {
            return Ok(BTreeMap::new());
        }
        let before = self.yielded.clone();
        self.reconcile(false).await;
        if self.yields_settled == settled {
            return Ok(BTreeMap::new());
        }
        let new = self.yielded.iter().filter(|(vip, _)| !before.contains_key(vip));
        Ok(new.map(|(vip, mac)| (*vip, *mac)).collect())
    }

    async fn on_network(&mut self, changed: &Changed) -> Result<(), RunError> {
        let heard = now()?;
        let mut failed_over = BTreeSet::new();
        if changed.overrun || !self.segments.is_disjoint(&changed.downs) {
            self.hearing.on_down(heard);
        }
        if changed.overrun {
            warn!("network notifications were lost; everything is observed again");
            let before = self.view.clone();
            self.observe().await?;
            failed_over = failover::unnoticed(&before, &self.view);
        } else {
            self.observe().await?;
        }
        // The view is new, so that a MAC or a port that came with the failover counts.
        failed_over.append(&mut self.failovers.on_notices(&changed.notices, &self.view, heard));
        self.announce_after_failover(&failed_over, heard)
    }

    async fn observe(&mut self) -> Result<(), RunError> {
        let view = match self.inputs.netlink.observe().await {
            Ok(view) => view,
            Err(error) => {
                warn!(error = chain(&error), "the network could not be observed; trying again");
                self.verify = now()? + RETRY;
                return Ok(());
            }
        };
        let before = std::mem::replace(&mut self.view, view);
        self.note_carrier(&before)?;
        // Containers come and go: a change that concerns no VIP
        // must not cost a reading of all maps.
        if !self.is_settled() {
            self.reconcile(false).await;
        }
        self.observe_segments().await
    }
}

/// Returns milliseconds for a log. The log would write a number of 128 bits as text.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
