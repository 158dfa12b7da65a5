//! The inputs of an event loop, whatever the source of its VIPs.

mod timer;

use std::{io, os::fd::AsRawFd, time::Duration};

use aya::maps::{MapData, RingBuf};
use aya_log::EbpfLogger;
use tokio::{
    io::{Interest, unix::AsyncFd},
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval},
};
use tracing::error;
use vipward_common::{Event, MacAddr, VipKey};
use vipward_core::{
    agent::{Changed, Stated},
    base::time::Monotonic,
    segment::confirming::Answerer,
};

use self::timer::Timer;
use super::{
    error::{RunError, system},
    rounds::{News, Report},
    timing::now,
};
use crate::shell::kernel::{bpf::DataPlane, netlink::Netlink, statements::Statements};

type Logger = EbpfLogger<&'static dyn log::Log>;

/// Time between two looks at what others can take from this host without a notification.
const WATCH: Duration = Duration::from_secs(1);

pub(super) enum Received {
    Deadline,
    /// A signal to end, by name.
    Stop(&'static str),
    Hangup,
    Network(Changed),
    Events(Vec<Event>),
    /// A round of listening on a segment has ended.
    Round(Report),
    /// A host was told from a router.
    Told(VipKey, MacAddr, Answerer),
    /// Statements of hosts about the VIPs that they hold.
    Stated(Vec<Stated>),
    News(News),
    /// It is time to see what others have taken from this host.
    Watch,
    /// An input without consequences.
    Nothing,
}

pub(super) struct Inputs {
    pub(super) netlink: Netlink,
    timer: Timer,
    events: AsyncFd<RingBuf<MapData>>,
    claims: Option<AsyncFd<Logger>>,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    /// Rounds of listening on segments.
    pub(super) rounds: JoinSet<Report>,
    /// Requests by unicast, to tell hosts from routers.
    pub(super) tellings: JoinSet<(VipKey, MacAddr, Answerer)>,
    /// The news of the rounds, with the end that they send to.
    news: (mpsc::UnboundedSender<News>, mpsc::UnboundedReceiver<News>),
    /// The statements of peers, for an agent of a file.
    pub(super) statements: Option<Statements>,
    watch: Interval,
    /// True if events were the last input although a deadline had come.
    put_off: bool,
}

impl Inputs {
    pub(super) fn open(plane: &mut DataPlane, log_claims: bool) -> Result<Self, RunError> {
        let signal = |kind| signal(kind).map_err(system("wait for signals"));
        Ok(Self {
            events: registered(plane.take_events()?).map_err(system("wait for events"))?,
            claims: if log_claims { Some(claim_log(plane)?) } else { None },
            netlink: Netlink::connect()?,
            timer: Timer::new().map_err(system("make a timer"))?,
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            rounds: JoinSet::new(),
            tellings: JoinSet::new(),
            news: mpsc::unbounded_channel(),
            statements: None,
            watch: watch_interval(),
            put_off: false,
        })
    }

    /// Returns where a round sends its news.
    pub(super) fn news(&self) -> mpsc::UnboundedSender<News> {
        self.news.0.clone()
    }

    /// Waits for one input, until the deadline. Cancel-safe.
    pub(super) async fn receive(&mut self, deadline: Monotonic) -> Result<Received, RunError> {
        // Events from before a deadline come first, since a timeout must not overlook an answer. This
        // happens only once in a row: a flood of events must not delay the heartbeat.
        if deadline <= now()? && !std::mem::replace(&mut self.put_off, true) {
            let events = drain(self.events.get_mut());
            if !events.is_empty() {
                return Ok(Received::Events(events));
            }
        }
        self.put_off = false;
        tokio::select! {
            // A late heartbeat costs answers. All other inputs can wait.
            biased;
            come = self.timer.wait_until(deadline) => {
                come.map(|()| Received::Deadline).map_err(system("wait for a deadline"))
            }
            _ = self.terminate.recv() => Ok(Received::Stop("SIGTERM")),
            _ = self.interrupt.recv() => Ok(Received::Stop("SIGINT")),
            _ = self.hangup.recv() => Ok(Received::Hangup),
            changed = self.netlink.changed() => Ok(Received::Network(changed?)),
            ready = self.events.readable_mut() => {
                let mut ready = ready.map_err(system("wait for events"))?;
                let events = drain(ready.get_inner_mut());
                ready.clear_ready();
                Ok(Received::Events(events))
            }
            Some(news) = self.news.1.recv() => Ok(Received::News(news)),
            // A round that has failed ends when its time is over.
            Some(ended) = self.rounds.join_next() => Ok(ended.map_or(Received::Nothing, Received::Round)),
            Some(ended) = self.tellings.join_next() => {
                Ok(ended.map_or(Received::Nothing, |(key, mac, answerer)| Received::Told(key, mac, answerer)))
            }
            _ = self.watch.tick() => Ok(Received::Watch),
            stated = stated(&mut self.statements) => Ok(Received::Stated(stated)),
            ready = readable(&mut self.claims) => ready.map(|()| Received::Nothing),
        }
    }
}

fn watch_interval() -> Interval {
    let mut interval = interval(WATCH);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
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
    // SAFETY: both kinds of ring own their map's descriptor, give the same one always, and close it
    // when dropped.
    let registered = unsafe { AsyncFd::register_with_interest(ring, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

fn claim_log(plane: &mut DataPlane) -> Result<AsyncFd<Logger>, RunError> {
    let logger = EbpfLogger::init(plane.object_mut()).map_err(|error| RunError::System {
        operation: "open the program's log",
        source: io::Error::other(error),
    })?;
    registered(logger).map_err(system("wait for the program's log"))
}

/// Waits for statements. Never resolves where none are received.
async fn stated(statements: &mut Option<Statements>) -> Vec<Stated> {
    match statements {
        Some(statements) => statements.receive().await,
        None => std::future::pending().await,
    }
}

/// Passes on the program's log. Never resolves while there is none.
async fn readable(claims: &mut Option<AsyncFd<Logger>>) -> Result<(), RunError> {
    let Some(claims) = claims else { return std::future::pending().await };
    let mut ready = claims.readable_mut().await.map_err(system("wait for the program's log"))?;
    ready.get_inner_mut().flush();
    ready.clear_ready();
    Ok(())
}
