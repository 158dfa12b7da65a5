//! The driver of a standalone agent: its file says what it holds, and its own heartbeat keeps the fence.

use std::path::PathBuf;

use tracing::{error, info, warn};
use vipward_common::{Event, Fence};

use super::{
    Driver, RunError, apply::chain, check_host, clock_tick, inputs::Heard, millis, now, read_config,
    source::Source,
};
use crate::{
    cli::AgentArgs,
    core::{
        config::{Config, Shutdown},
        heartbeat::{Beat, Heartbeat},
        net::NetView,
        placement::Wanted,
        time::Monotonic,
        trouble::Line,
    },
    shell::{
        bpf::{Loader, Maps},
        watch::Watch,
    },
};

enum Turn {
    GoOn,
    Stop(&'static str),
}

/// A file, whose VIPs this node holds on its own authority.
struct FileSource {
    path: PathBuf,
    watch: Watch,
    heartbeat: Heartbeat,
}

impl Source for FileSource {
    fn wanted<'a>(&'a self, config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> {
        config.vips.iter().map(Wanted::from)
    }

    fn is_known(&self) -> bool {
        true
    }

    fn note_trouble(&mut self, _line: &Line) {
        // The log is all that a standalone agent tells it to.
    }

    fn beat_if_due(&mut self, maps: &mut Maps, yields_settled: u64, now: Monotonic) -> Result<(), RunError> {
        if self.heartbeat.next_deadline() <= now {
            self.beat(maps, yields_settled, now)?;
        }
        Ok(())
    }
}

impl FileSource {
    /// Moves the fence. That this fails ends the agent: nothing else would keep it from lapsing.
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
        Ok(maps.set_fence(&fence(&beat, yields_settled))?)
    }
}

/// Runs a standalone agent until it is told to stop.
pub async fn agent(args: AgentArgs) -> Result<(), RunError> {
    let loader = Loader::new();
    let watch = Watch::new(&args.config)?;
    let config = read_config(&args.config)?;
    let _lock = check_host(&args.plane.pins)?;
    let mut driver = start(&args, loader, config, watch).await?;
    loop {
        if let Turn::Stop(cause) = driver.turn().await? {
            return driver.stop(cause).await;
        }
    }
}

async fn start(
    args: &AgentArgs,
    loader: Loader,
    config: Config,
    watch: Watch,
) -> Result<Driver<FileSource>, RunError> {
    let now = now()?;
    let mut heartbeat = Heartbeat::start(&config.fence, clock_tick()?, now);
    let first = fence(&heartbeat.beat(now), 0);
    let source = FileSource { path: args.config.clone(), watch, heartbeat };
    let mut driver = Driver::open(&args.plane, loader, config, first, source).await?;
    // The entries first: what the pins have may be another node's by now. Then the fence, and only then, since
    // none leaves while it is not valid, the announcements.
    driver.reconcile(false).await;
    // Loading took its time; that is no late heartbeat.
    driver.source.heartbeat.configure(&driver.config.fence, super::now()?);
    driver.beat().await?;
    driver.started = true;
    driver.note_carrier(&NetView::default())?;
    driver.adopt()?;
    info!(node = %driver.config.node, config = %driver.source.path.display(), "agent is running");
    Ok(driver)
}

impl Driver<FileSource> {
    /// Waits for one thing and handles it.
    async fn turn(&mut self) -> Result<Turn, RunError> {
        let deadline = self.next_deadline().min(self.source.heartbeat.next_deadline());
        let heard = tokio::select! {
            biased;
            heard = self.inputs.hear(deadline) => heard?,
            changed = self.source.watch.changed() => {
                changed?;
                self.reload(false).await?;
                return Ok(Turn::GoOn);
            }
        };
        match heard {
            Heard::Deadline => {
                if self.source.heartbeat.next_deadline() <= now()? {
                    self.beat().await?;
                }
                self.on_deadline().await?;
            }
            Heard::Stop(signal) => return Ok(Turn::Stop(signal)),
            Heard::Hangup => self.reload(true).await?,
            Heard::Network { overrun } => self.on_network(overrun).await?,
            Heard::Events(events) => self.on_events(&events).await?,
            Heard::Nothing => {}
        }
        Ok(Turn::GoOn)
    }

    /// Moves the fence, and settles what was yielded while it had lapsed.
    async fn beat(&mut self) -> Result<(), RunError> {
        self.move_fence()?;
        self.settle_yields().await
    }

    fn move_fence(&mut self) -> Result<(), RunError> {
        self.source.beat(self.plane.maps_mut(), self.yields_settled, now()?)
    }

    async fn on_events(&mut self, events: &[Event]) -> Result<(), RunError> {
        self.note_trouble(events)?;
        for event in events {
            self.note_contested(event)?;
        }
        self.settle_yields().await
    }

    /// Reads the file again. What is wrong with it is said, and changes nothing.
    async fn reload(&mut self, reclaim: bool) -> Result<(), RunError> {
        match read_config(&self.source.path) {
            Ok(config) if config == self.config && !reclaim => return Ok(()),
            Ok(config) => {
                info!(config = %self.source.path.display(), reclaim, "configuration is applied");
                self.source.heartbeat.configure(&config.fence, now()?);
                self.announcer.configure(&config.announce, now()?);
                self.config = config;
            }
            Err(error) => {
                error!(
                    error = chain(error),
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

fn fence(beat: &Beat, yields_settled: u64) -> Fence {
    Fence {
        deadline_ns: beat.deadline.as_nanos(),
        hold_until_ns: beat.hold_until.as_nanos(),
        yields_settled,
        session: 0,
        policy: beat.policy,
        _pad: 0,
    }
}
