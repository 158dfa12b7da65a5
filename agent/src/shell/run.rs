//! The event loop: waits for the next event or deadline, asks the core what to do, and does it.
//!
//! One task does everything that changes the maps, between two waits of `turn`. So no two changes
//! ever meet. A request that could take longer than a heartbeat runs in another task.
//!
//! The host's part is the same for each source of VIPs; `standalone` and `cluster` add their own.

mod announcing;
mod apply;
mod attaching;
mod cluster;
mod conflicts;
mod inputs;
mod probing;
mod report;
mod silent;
mod snapshot;
mod source;
mod standalone;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use nix::unistd::gethostname;
use thiserror::Error;
use tokio::sync::mpsc;
use tracing::warn;
use vipward_common::{Fence, MacAddr, VipKey};
use vipward_core::{
    announce::Announcer,
    cluster::{NodeName, Session},
    config::{Config, ConfigError},
    conflict::Conflicts,
    net::NetView,
    ownership::SettingsError,
    plan::Slots,
    probing::Prober,
    stale::Stale,
    time::Monotonic,
};

use self::{apply::Settled, inputs::Inputs, report::Problems, silent::Silent, source::Source};
use super::{
    bind::BindError,
    bpf::{BpfError, DataPlane, Loader, Opening, Options},
    clock,
    file_watch::FileWatchError,
    kube::ConnectError,
    metrics::{Metrics, Mode},
    netlink::NetlinkError,
    packet::{Announcer as Packets, PacketError},
    pages::{Pages, PagesError, Question},
    preflight::{self, PinDirError, PinDirLock, PreflightError},
};
use crate::{
    cli::{PagesArgs, PinArgs, PlaneArgs},
    shell::causes::chain,
};

/// How soon an interface that could not be attached is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// A heartbeat that has not moved for so many times its period is none.
const BEATS_MISSED: u32 = 10;
/// How often everything is read back although nothing was heard of: not every change in the kernel is told.
const VERIFY: Duration = Duration::from_secs(30);

/// Why the agent could not start, or ended by itself.
#[derive(Debug, Error)]
pub enum RunError {
    /// The file could not be read.
    #[error("failed to read the configuration {}", path.display())]
    ReadConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file says something wrong.
    #[error("the configuration is wrong")]
    Config(#[from] ConfigError),
    /// This host cannot run the agent.
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
    /// A VIP could not be put on an interface, or taken from it.
    #[error("an address could not be changed")]
    Bind(#[from] BindError),
    /// The packet socket failed.
    #[error("nothing can be announced")]
    Packet(#[from] PacketError),
    /// The file cannot be watched.
    #[error("the configuration cannot be watched")]
    Watch(#[from] FileWatchError),
    /// Ownership cannot work so.
    #[error("the settings cannot work")]
    Settings(#[from] SettingsError),
    /// The API server cannot be found, or not be talked to.
    #[error("no way to the API server")]
    Connect(#[from] ConnectError),
    /// The pages cannot be served.
    #[error("failed to serve the HTTP endpoints")]
    Pages(#[from] PagesError),
    /// Two agents have one name.
    #[error(
        "another agent runs under the node name {node}, in session {session}: two would take VIPs from each other. Give \
         each its own --node-name"
    )]
    NotAlone {
        /// The name.
        node: NodeName,
        /// The other's session.
        session: Session,
    },
    /// A system call failed.
    #[error("failed to {operation}")]
    System {
        /// What was tried.
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

/// Everything that the agent has open, and the core's state machines.
struct EventLoop<S> {
    source: S,
    /// What is in force.
    config: Config,
    plane: DataPlane,
    program_id: u32,
    inputs: Inputs,
    view: NetView,
    packets: Packets,
    announcer: Announcer,
    conflicts: Conflicts,
    prober: Prober,
    /// VIPs that wait until it is known whether their addresses are free.
    held_back: BTreeSet<VipKey>,
    problems: Problems,
    stale: Stale,
    /// The VIPs that this node is said to hold and does not answer.
    silent: Silent,
    /// The interfaces that are to have the program and could not be given it, and why.
    unattached: BTreeMap<u32, String>,
    /// The VIPs that were yielded, and to whom: their entries may go with an interface and come back.
    yielded: BTreeMap<Ipv4Addr, MacAddr>,
    /// Yields up to this count have been written into their entries.
    yields_settled: u64,
    /// Whether the fence is this agent's: before, nothing is announced.
    started: bool,
    /// The slots of all entries, as last read or written.
    slots: Slots,
    /// Whether the changes under way are few enough for a line each.
    log_each_entry: bool,
    /// What was brought about last, when all of it was.
    settled: Option<Settled>,
    /// When everything is read back again; sooner after a failure.
    verify: Monotonic,
    metrics: Arc<Metrics>,
    /// What the pages ask.
    questions: mpsc::Receiver<Question>,
    _pages: Pages,
}

/// Where an agent is asked how it is.
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

/// Returns whether this host can run an agent on these pins, and the lock that keeps others from
/// them.
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
    /// Opens the data plane and everything that is listened to. `fence` is the one that maps made now begin with.
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
        plane.maps_mut().repair_filter()?;
        report::opening(opening, &options.pin_dir);
        desk.pages.begin(&options.pin_dir)?;
        let inputs = Inputs::open(&mut plane, args.log_claims)?;
        let view = inputs.netlink.observe().await?;
        let yields_settled = if opening == Opening::Fresh { 0 } else { plane.maps().fence()?.yields_settled };
        // Not the process's number: that is 1 in every Pod.
        let seed = fastrand::u64(..);
        Ok(Self {
            silent: Silent::start(source.grace(&config), now),
            announcer: Announcer::start(&config.announce, seed, now),
            conflicts: Conflicts::start(&config.conflicts, now),
            prober: Prober::start(&config.probe, seed, now),
            held_back: BTreeSet::new(),
            source,
            config,
            program_id: plane.program_id()?,
            plane,
            inputs,
            view,
            packets: Packets::open()?,
            problems: Problems::default(),
            stale: Stale::default(),
            unattached: BTreeMap::new(),
            yielded: BTreeMap::new(),
            yields_settled,
            started: false,
            slots: Slots::default(),
            log_each_entry: true,
            settled: None,
            verify: now + VERIFY,
            metrics: desk.metrics,
            questions: desk.questions,
            _pages: desk.pages,
        })
    }

    /// Returns the earliest thing that time alone brings about, whatever the VIPs come from.
    fn next_deadline(&self) -> Monotonic {
        // Before it is known what this node is to hold, nothing is looked at.
        let silent = self.silent.next_deadline().filter(|_| self.started);
        [self.announcer.next_deadline(), self.conflicts.next_deadline(), self.probing_deadline(), silent]
            .into_iter()
            .flatten()
            .fold(self.verify, Ord::min)
    }

    async fn on_deadline(&mut self) -> Result<(), RunError> {
        let now = now()?;
        if self.verify <= now {
            self.verify = now + VERIFY;
            self.settled = None;
            self.observe().await?;
        }
        self.announce(now);
        self.tick_probing(now)?;
        self.tick_conflicts(now)
    }

    /// Writes what the program yielded into the entries.
    async fn settle_yields(&mut self) -> Result<(), RunError> {
        if self.plane.maps().yields()?.total == self.yields_settled {
            return Ok(());
        }
        self.reconcile(false).await;
        Ok(())
    }

    async fn on_network(&mut self, overrun: bool) -> Result<(), RunError> {
        if overrun {
            warn!("network notifications were lost; everything is observed again");
        }
        self.observe().await
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
        // Containers come and go: what concerns no VIP must not cost a reading of all maps.
        if !self.is_settled() {
            self.reconcile(false).await;
        }
        Ok(())
    }
}

/// For a log: a number of 128 bits would be written as text.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
