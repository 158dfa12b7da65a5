//! The driver: waits for the next event or deadline, asks the core what to do, and does it.
//!
//! One task, one thread: everything that the agent does is between two waits of `Driver::turn`, so no two things
//! ever change the maps at the same time. What waits longer than a heartbeat is not done here.

mod apply;
mod report;

use std::{
    collections::BTreeMap,
    fs, io,
    net::Ipv4Addr,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    time::Duration,
};

use aya::maps::{MapData, RingBuf};
use aya_log::EbpfLogger;
use nix::unistd::gethostname;
use thiserror::Error;
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};
use tracing::{error, info, warn};
use vipward_common::{Event, Fence, MacAddr};

use self::{
    apply::{Settled, chain},
    report::Problems,
};
use super::{
    bind::BindError,
    bpf::{BpfError, DataPlane, Loader, Opening, Options},
    clock,
    netlink::{Netlink, NetlinkError},
    packet::{Announcer as Packets, PacketError},
    preflight::{self, PinDirError, PinDirLock, PreflightError},
    watch::{Watch, WatchError},
};
use crate::{
    cli::AgentArgs,
    core::{
        announce::Announcer,
        config::{Config, ConfigError, Shutdown},
        heartbeat::{Beat, Heartbeat},
        net::NetView,
        time::Monotonic,
        trouble::Trouble,
    },
};

/// How soon an interface that could not be attached is tried again.
const RETRY: Duration = Duration::from_secs(5);
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
    Watch(#[from] WatchError),
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

/// Runs the agent until it is told to stop.
pub async fn agent(args: AgentArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let watch = Watch::new(&args.config)?;
    let config = read_config(&args.config)?;
    preflight::check_capabilities()?;
    preflight::check_kernel()?;
    let pin_dir = &args.pins.pin_dir;
    preflight::ensure_bpffs(pin_dir)?;
    let _lock = PinDirLock::acquire(pin_dir)?;
    let mut driver = Driver::start(&args, loader, config, watch).await?;
    loop {
        if let Turn::Stop(cause) = driver.turn().await? {
            return driver.stop(cause).await;
        }
    }
}

/// Everything that the agent has open, and the core's state machines.
struct Driver {
    config_path: PathBuf,
    /// What the file said when it was last applied; a change of the file that is none changes nothing.
    config: Config,
    watch: Watch,
    plane: DataPlane,
    program_id: u32,
    netlink: Netlink,
    view: NetView,
    packets: Packets,
    events: AsyncFd<RingBuf<MapData>>,
    claims: Option<AsyncFd<EbpfLogger<&'static dyn log::Log>>>,
    heartbeat: Heartbeat,
    announcer: Announcer,
    trouble: Trouble,
    problems: Problems,
    /// The VIPs that were yielded, and to whom: their entries may go with an interface and come back.
    yielded: BTreeMap<Ipv4Addr, MacAddr>,
    /// Yields up to this count have been written into their entries.
    yields_settled: u64,
    /// Whether the fence is this agent's: before, nothing is announced.
    started: bool,
    /// Whether the changes under way are few enough for a line each.
    log_each_entry: bool,
    /// What was brought about last, when all of it was.
    settled: Option<Settled>,
    /// When everything is read back again; sooner after a failure.
    verify: Monotonic,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

enum Turn {
    GoOn,
    Stop(&'static str),
}

impl Driver {
    async fn start(args: &AgentArgs, loader: Loader, config: Config, watch: Watch) -> Result<Self, RunError> {
        let tick =
            clock::coarse_tick().map_err(io::Error::from).map_err(system("read the clock's resolution"))?;
        let now = now()?;
        let mut heartbeat = Heartbeat::start(&config.fence, tick, now);
        let options = Options {
            pin_dir: args.pins.pin_dir.clone(),
            max_vips: args.max_vips,
            log: args.log_claims,
            object: args.ebpf_object.clone(),
            fence: fence(&heartbeat.beat(now), 0),
        };
        let (mut plane, opening) = DataPlane::open(loader, &options)?;
        plane.maps_mut().repair_filter()?;
        report::opening(opening, &options.pin_dir);
        let events = registered(plane.take_events()?).map_err(system("wait for events"))?;
        let claims = if args.log_claims { Some(claim_log(&mut plane)?) } else { None };
        let netlink = Netlink::connect()?;
        let view = netlink.observe().await?;
        let yields_settled = if opening == Opening::Fresh { 0 } else { plane.maps().fence()?.yields_settled };
        let signal = |kind| signal(kind).map_err(system("wait for signals"));
        let mut driver = Self {
            config_path: args.config.clone(),
            heartbeat,
            announcer: Announcer::start(&config.announce, u64::from(std::process::id()), now),
            trouble: Trouble::start(now),
            config,
            watch,
            program_id: plane.program_id()?,
            plane,
            netlink,
            view,
            packets: Packets::open()?,
            events,
            claims,
            problems: Problems::default(),
            yielded: BTreeMap::new(),
            yields_settled,
            started: false,
            log_each_entry: true,
            settled: None,
            verify: now + VERIFY,
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        };
        // The entries first: what the pins have may be another node's by now. Then the fence, and only then, since
        // none leaves while it is not valid, the announcements.
        driver.reconcile(false).await;
        // Loading took its time; that is no late heartbeat.
        driver.heartbeat.configure(&driver.config.fence, self::now()?);
        driver.beat().await?;
        driver.started = true;
        driver.note_carrier(&NetView::default())?;
        driver.adopt()?;
        info!(node = %driver.config.node, config = %driver.config_path.display(), "agent is running");
        Ok(driver)
    }

    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<Turn, RunError> {
        let deadline = self.next_deadline();
        let wait = deadline.saturating_since(now()?);
        tokio::select! {
            // A late heartbeat costs answers; everything else can wait.
            biased;
            () = sleep_until(Instant::now() + wait) => self.on_deadline().await?,
            _ = self.terminate.recv() => return Ok(Turn::Stop("SIGTERM")),
            _ = self.interrupt.recv() => return Ok(Turn::Stop("SIGINT")),
            _ = self.hangup.recv() => self.reload(true).await?,
            changed = self.watch.changed() => {
                changed?;
                self.reload(false).await?;
            }
            changed = self.netlink.changed() => {
                if changed?.overrun {
                    warn!("network notifications were lost; everything is observed again");
                }
                self.observe().await?;
            }
            ready = self.events.readable_mut() => {
                let mut ready = ready.map_err(system("wait for events"))?;
                let events = drain(ready.get_inner_mut());
                ready.clear_ready();
                self.on_events(&events).await?;
            }
            ready = readable(&mut self.claims) => ready?,
        }
        Ok(Turn::GoOn)
    }

    /// The earliest thing that time alone brings about.
    fn next_deadline(&self) -> Monotonic {
        [self.announcer.next_deadline(), self.trouble.next_deadline(), Some(self.verify)]
            .into_iter()
            .flatten()
            .fold(self.heartbeat.next_deadline(), Ord::min)
    }

    async fn on_deadline(&mut self) -> Result<(), RunError> {
        if self.heartbeat.next_deadline() <= now()? {
            self.beat().await?;
        }
        let now = now()?;
        if self.verify <= now {
            self.verify = now + VERIFY;
            self.settled = None;
            self.observe().await?;
        }
        self.announce(now);
        for line in self.trouble.on_tick(now) {
            report::trouble(&line, &self.view);
        }
        Ok(())
    }

    /// Moves the fence, and settles what was yielded while it had lapsed.
    async fn beat(&mut self) -> Result<(), RunError> {
        self.move_fence()?;
        self.settle_yields().await
    }

    /// Moves the fence. That this fails ends the agent: nothing else would keep it from lapsing.
    fn move_fence(&mut self) -> Result<(), RunError> {
        let beat = self.heartbeat.beat(now()?);
        if let Some(late) = beat.late {
            warn!(
                late_by_ms = millis(late.by),
                fence_ms = millis(self.config.fence.duration),
                lapsed = late.lapsed,
                "heartbeat is late"
            );
        }
        Ok(self.plane.maps_mut().set_fence(&fence(&beat, self.yields_settled))?)
    }

    /// Writes what the program yielded into the entries.
    async fn settle_yields(&mut self) -> Result<(), RunError> {
        if self.plane.maps().yields()?.total == self.yields_settled {
            return Ok(());
        }
        self.reconcile(false).await;
        Ok(())
    }

    async fn observe(&mut self) -> Result<(), RunError> {
        let view = match self.netlink.observe().await {
            Ok(view) => view,
            Err(error) => {
                warn!(error = chain(error), "the network could not be observed; trying again");
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

    async fn on_events(&mut self, events: &[Event]) -> Result<(), RunError> {
        let now = now()?;
        for event in events {
            for line in self.trouble.on_event(event, now) {
                report::trouble(&line, &self.view);
            }
            self.note_contested(event)?;
        }
        self.settle_yields().await
    }

    /// Reads the file again. What is wrong with it is said, and changes nothing.
    async fn reload(&mut self, reclaim: bool) -> Result<(), RunError> {
        match read_config(&self.config_path) {
            Ok(config) if config == self.config && !reclaim => return Ok(()),
            Ok(config) => {
                info!(config = %self.config_path.display(), reclaim, "configuration is applied");
                self.heartbeat.configure(&config.fence, now()?);
                self.announcer.configure(&config.announce, now()?);
                self.config = config;
            }
            Err(error) => {
                error!(
                    error = chain(error),
                    config = %self.config_path.display(),
                    "configuration is not applied; the running one stays in force"
                );
                if !reclaim {
                    return Ok(());
                }
            }
        }
        self.move_fence()?;
        self.reconcile(reclaim).await;
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

/// For a log: a number of 128 bits would be written as text.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn fence(beat: &Beat, yields_settled: u64) -> Fence {
    Fence {
        deadline_ns: beat.deadline.as_nanos(),
        hold_until_ns: beat.hold_until.as_nanos(),
        yields_settled,
        policy: beat.policy,
        _pad: 0,
    }
}

fn drain(ring: &mut RingBuf<MapData>) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(record) = ring.next() {
        if let Some(event) = Event::from_bytes(&record) {
            events.push(event);
        } else {
            error!(bytes = record.len(), "an event of another version was skipped");
        }
    }
    events
}

/// Makes tokio wait for a ring buffer.
fn registered<T: AsRawFd>(ring: T) -> io::Result<AsyncFd<T>> {
    // SAFETY: both kinds of ring own their map's descriptor, give the same one always, and close it when dropped.
    let registered = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

fn claim_log(plane: &mut DataPlane) -> Result<AsyncFd<EbpfLogger<&'static dyn log::Log>>, RunError> {
    let logger = EbpfLogger::init(plane.object_mut()).map_err(|error| RunError::System {
        operation: "open the program's log",
        source: io::Error::other(error),
    })?;
    registered(logger).map_err(system("wait for the program's log"))
}

/// Passes on what the program has logged; never resolves when it logs nothing.
async fn readable(claims: &mut Option<AsyncFd<EbpfLogger<&'static dyn log::Log>>>) -> Result<(), RunError> {
    let Some(claims) = claims else { return std::future::pending().await };
    let mut ready = claims.readable_mut().await.map_err(system("wait for the program's log"))?;
    ready.get_inner_mut().flush();
    ready.clear_ready();
    Ok(())
}
