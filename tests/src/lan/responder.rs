//! Answers ARP requests in user space: a rival that
//! claims an address, or a responder with known gaps.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;

use crate::{
    frames::{Arp, Mac},
    kit::worker::{Stop, Worker},
    lan::{Host, Wire},
};

/// Interval at which the thread checks for the end.
const STOP_POLL: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponderCounts {
    /// Requests answered.
    pub answered: usize,
    /// Requests received and not answered.
    pub ignored: usize,
}

/// Thread that answers requests for one address until it is dropped.
#[derive(Debug)]
pub struct Responder {
    shared: Arc<Mutex<Shared>>,
    worker: Worker<()>,
}

#[derive(Debug)]
struct Shared {
    address: Ipv4Addr,
    mac: Mac,
    answering: bool,
    /// Time span in which requests are ignored.
    pause: Option<(SystemTime, SystemTime)>,
    counts: ResponderCounts,
}

impl Responder {
    /// Starts to answer on an interface of a host: `address` is at
    /// `mac`. The Ethernet source of answers is the interface's own MAC.
    pub fn start(host: &Host, interface: &str, address: Ipv4Addr, mac: Mac) -> Result<Self> {
        let wire = Wire::open(host, interface)?;
        let source = host.mac(interface)?;
        let counts = ResponderCounts::default();
        let shared = Shared { address, mac, answering: true, pause: None, counts };
        let shared = Arc::new(Mutex::new(shared));
        let for_thread = Arc::clone(&shared);
        let worker = Worker::start("arp-responder", move |stop| respond(&wire, source, &for_thread, stop))?;
        Ok(Self { shared, worker })
    }

    pub fn set_answering(&self, answering: bool) {
        lock(&self.shared).answering = answering;
    }

    /// Ignores requests for that long. The gap is exact, even when
    /// the thread is late, because the kernel's timestamps count.
    pub fn pause_for(&self, duration: Duration) {
        let now = SystemTime::now();
        lock(&self.shared).pause = Some((now, now + duration));
    }

    pub fn counts(&self) -> ResponderCounts {
        lock(&self.shared).counts
    }

    /// Stops, and returns the counters or the thread's error.
    pub fn stop(self) -> Result<ResponderCounts> {
        self.worker.stop()?;
        Ok(lock(&self.shared).counts)
    }
}

fn respond(wire: &Wire, source: Mac, shared: &Mutex<Shared>, stop: &Stop) -> Result<()> {
    while !stop.is_asked_for() {
        let Some(frame) = wire.receive(Instant::now() + STOP_POLL)? else { continue };
        let Some(request) = frame.arp().filter(Arp::is_request) else { continue };
        let Some(mac) = lock(shared).decide(&request, frame.at) else { continue };
        wire.send(&Arp { eth_src: source, ..request.answered_by(mac) }.to_bytes())?;
    }
    Ok(())
}

impl Shared {
    /// Returns the MAC for the answer, or `None` for no answer.
    fn decide(&mut self, request: &Arp, at: SystemTime) -> Option<Mac> {
        if request.tpa != self.address || request.spa == self.address {
            return None;
        }
        let paused = self.pause.is_some_and(|(from, to)| from <= at && at < to);
        if self.answering && !paused {
            self.counts.answered += 1;
            Some(self.mac)
        } else {
            self.counts.ignored += 1;
            None
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
