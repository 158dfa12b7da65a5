//! Requests for every VIP on the wire, and the announcements of the VIPs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};

use vipward_tests::{
    cluster::{Cluster, SEGMENT},
    frames::{Arp, Mac},
    kit::interrupt,
    lan::Wire,
};

/// Requests a second: few enough that neither a switch in software nor a busy machine loses any.
const PACE: u32 = 4_000;
/// Requests a second beside a measurement.
const SLOW_PACE: u32 = 500;
const BURST: usize = 10;
/// VIPs that are requested between two checks for the end.
const PART: usize = 100;
/// Longest wait for an answer; on a busy machine it comes late.
const LATE: Duration = Duration::from_secs(1);
/// Time between two checks for the end.
const GLANCE: Duration = Duration::from_millis(50);

/// Result of a request for every VIP.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The MACs in the answers, of each VIP that was answered.
    pub(super) by: BTreeMap<Ipv4Addr, BTreeSet<Mac>>,
    pub(super) unanswered: Vec<Ipv4Addr>,
}

impl Answers {
    /// Returns the number of VIPs for which two nodes answered.
    pub(super) fn doubles(&self) -> usize {
        self.by.values().filter(|macs| macs.len() > 1).count()
    }
}

/// Sender of requests for VIPs.
pub(super) struct Surveyor {
    wire: Wire,
    mac: Mac,
    address: Ipv4Addr,
}

impl Surveyor {
    /// Opens a socket on the cluster's observer, which has this address.
    pub(super) fn new(cluster: &Cluster, address: Ipv4Addr) -> Result<Self> {
        let host = &cluster.observer;
        Ok(Self { wire: Wire::open(host, SEGMENT)?, mac: host.mac(SEGMENT)?, address })
    }

    fn ask(&self, vip: Ipv4Addr) -> Result<()> {
        self.wire.send(&Arp::request(self.mac, self.address, vip).to_bytes())
    }

    fn take_answers(&self, by: &mut BTreeMap<Ipv4Addr, BTreeSet<Mac>>) -> Result<()> {
        let answers = self.wire.drain()?.into_iter().filter_map(|frame| frame.arp());
        for arp in answers.filter(|arp| arp.is_reply() && arp.tha == self.mac && !arp.is_gratuitous()) {
            by.entry(arp.spa).or_default().insert(arp.sha);
        }
        Ok(())
    }

    /// Requests every VIP once, at an even pace.
    pub(super) fn sweep(&self, vips: &[Ipv4Addr]) -> Result<Answers> {
        self.sweep_at(PACE, vips)
    }

    fn sweep_at(&self, pace: u32, vips: &[Ipv4Addr]) -> Result<Answers> {
        let mut by = BTreeMap::new();
        self.wire.drain()?;
        let begin = Instant::now();
        for (burst, number) in vips.chunks(BURST).zip(0..) {
            interrupt::check()?;
            let due = begin + Duration::from_secs(1) * number * u32::try_from(BURST)? / pace;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            burst.iter().try_for_each(|vip| self.ask(*vip))?;
            self.take_answers(&mut by)?;
        }
        let end = Instant::now() + LATE;
        while by.len() < vips.len() && Instant::now() < end {
            thread::sleep(GLANCE / 10);
            self.take_answers(&mut by)?;
        }
        let unanswered = vips.iter().filter(|vip| !by.contains_key(vip)).copied().collect();
        Ok(Answers { by, unanswered })
    }

    /// Requests a VIP every millisecond until it is answered, and returns the time of the answer.
    pub(super) fn wait_for(&self, vip: Ipv4Addr, limit: Duration) -> Result<Instant> {
        const BETWEEN: Duration = Duration::from_millis(1);
        let end = Instant::now() + limit;
        self.wire.drain()?;
        while Instant::now() < end {
            interrupt::check()?;
            self.ask(vip)?;
            let next = Instant::now() + BETWEEN;
            while let Some(frame) = self.wire.receive(next)? {
                let is_answer = |arp: &Arp| {
                    arp.is_reply() && arp.spa == vip && arp.tha == self.mac && !arp.is_gratuitous()
                };
                if frame.arp().as_ref().is_some_and(is_answer) {
                    return Ok(Instant::now());
                }
            }
        }
        Err(anyhow!("{vip} is not answered within {limit:?}"))
    }
}

/// A thread that repeats a turn until the turn ends it, or its result is wanted.
struct Background<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<T>>,
}

impl<T: Default + Send + 'static> Background<T> {
    fn start(
        name: &str,
        mut turn: impl FnMut(&mut T) -> Result<ControlFlow<()>> + Send + 'static,
    ) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            let mut done = T::default();
            while !stopped.load(Ordering::Relaxed) && turn(&mut done)?.is_continue() {}
            Ok(done)
        });
        Ok(Self { stop, thread: thread.with_context(|| format!("failed to start the thread {name}"))? })
    }

    fn stop(self) -> Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("a thread has panicked"))?
    }
}

/// Sweeps until it is stopped.
pub(super) struct Sweeping(Background<(usize, Vec<Ipv4Addr>)>);

impl Sweeping {
    /// Starts to sweep over these VIPs again and again.
    pub(super) fn start(surveyor: Surveyor, vips: Vec<Ipv4Addr>) -> Result<Self> {
        // A part at a time, so that it can be stopped.
        let mut parts = (0..vips.len()).step_by(PART).cycle();
        Ok(Self(Background::start("sweeping", move |(asked, unanswered): &mut (usize, Vec<Ipv4Addr>)| {
            let Some(from) = parts.next() else { return Ok(ControlFlow::Break(())) };
            let part = &vips[from..vips.len().min(from + PART)];
            *asked += part.len();
            unanswered.extend(surveyor.sweep_at(SLOW_PACE, part)?.unanswered);
            Ok(ControlFlow::Continue(()))
        })?))
    }

    /// Stops after the part under way. Returns the number of
    /// requests, and the VIP of each one that was not answered.
    pub(super) fn stop(self) -> Result<(usize, Vec<Ipv4Addr>)> {
        self.0.stop()
    }
}

/// First announcement of each VIP by a node other than the given one.
pub(super) struct Listening(Background<BTreeMap<Ipv4Addr, SystemTime>>);

impl Listening {
    /// Listens at the observer until it has learned of this many VIPs. Announcements by `not_by` do not
    /// count.
    pub(super) fn start(cluster: &Cluster, not_by: Mac, vips: usize) -> Result<Self> {
        let wire = Wire::open(&cluster.observer, SEGMENT)?;
        Ok(Self(Background::start("listening", move |received: &mut BTreeMap<Ipv4Addr, SystemTime>| {
            let frame = wire.receive(Instant::now() + GLANCE)?;
            let arp = frame.and_then(|frame| Some((frame.at, frame.arp()?)));
            if let Some((at, arp)) = arp.filter(|(_, arp)| arp.is_gratuitous() && arp.sha != not_by) {
                received.entry(arp.spa).or_insert(at);
            }
            Ok(if received.len() < vips { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?))
    }

    /// Returns what was received.
    pub(super) fn stop(self) -> Result<BTreeMap<Ipv4Addr, SystemTime>> {
        self.0.stop()
    }
}
