//! Requests one address many times a second, and records the answers to each request.

mod report;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

pub use self::report::{ANSWER_LIMIT, Answer, Answerer, ProbeReport, Request};

use crate::{
    frames::{Family, Mac, Message},
    kit::{
        wait_until,
        worker::{Stop, Worker},
    },
    lan::{Frame, Host, Wire},
};

/// Destination of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeMode {
    /// Broadcast, like a client without an entry.
    Broadcast,
    /// Unicast to this MAC, like a client that revalidates its entry.
    Unicast(Mac),
}

/// Thread that requests an address at a constant rate, until it is stopped or dropped.
/// Each request has its own sha, to which the answer goes. So every answer belongs to one
/// request, even a late or second answer. The Ethernet source is the interface's own: a switch
/// learns nothing, and the kernel of a target has one neighbour entry instead of thousands.
#[derive(Debug)]
pub struct ArpProbe {
    shared: Arc<Shared>,
    worker: Worker<ProbeReport>,
}

#[derive(Debug, Default)]
struct Shared {
    sent: AtomicUsize,
    answers: AtomicUsize,
}

impl ArpProbe {
    /// Starts to request `target`, once every `interval`, from an interface with an address of that
    /// family.
    pub fn start(
        host: &Host,
        interface: &str,
        target: impl Into<IpAddr>,
        interval: Duration,
        mode: ProbeMode,
    ) -> Result<Self> {
        let target = target.into();
        let family = Family::of(target);
        let (source, from) = (host.mac(interface)?, host.address_in(interface, family)?);
        let shared = Arc::new(Shared::default());
        let (wire, numbering) = (Wire::open_in(host, interface, family)?, Numbering::new());
        // An answer goes to its asker.
        wire.receive_only(0, &numbering.prefix())?;
        let asker = Asker {
            wire,
            source,
            from,
            target,
            mode,
            interval,
            numbering,
            shared: Arc::clone(&shared),
            report: ProbeReport::new(interval),
        };
        let worker = Worker::start("arp-probe", move |stop| asker.ask(stop))?;
        Ok(Self { shared, worker })
    }

    /// Returns the number of requests sent so far.
    pub fn sent(&self) -> usize {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Returns the number of answers received so far, including doubles.
    pub fn answers(&self) -> usize {
        self.shared.answers.load(Ordering::Relaxed)
    }

    /// Waits until `count` more requests are sent.
    pub fn wait_for_requests(&self, count: usize, limit: Duration) -> Result<()> {
        let enough = self.sent() + count;
        wait_until(limit, &format!("{count} more requests"), || Ok(self.sent() >= enough))
    }

    /// Waits until `count` more answers arrive.
    pub fn wait_for_answers(&self, count: usize, limit: Duration) -> Result<()> {
        let enough = self.answers() + count;
        wait_until(limit, &format!("{count} more answers"), || Ok(self.answers() >= enough))
    }

    /// Stops the requests, waits for the last answers, and returns the report.
    pub fn stop(self) -> Result<ProbeReport> {
        self.worker.stop()
    }
}

struct Asker {
    wire: Wire,
    source: Mac,
    from: IpAddr,
    target: IpAddr,
    mode: ProbeMode,
    interval: Duration,
    numbering: Numbering,
    shared: Arc<Shared>,
    report: ProbeReport,
}

impl Asker {
    fn ask(mut self, stop: &Stop) -> Result<ProbeReport> {
        let mut due = Instant::now();
        while !stop.is_asked_for() {
            let late = Instant::now().saturating_duration_since(due);
            self.send_next(late)?;
            // Skips what this thread is too late for, instead of sending a burst.
            due = (due + self.interval).max(Instant::now());
            while let Some(frame) = self.wire.receive(due)? {
                self.record(&frame);
                if Instant::now() >= due {
                    break;
                }
            }
        }
        self.wait_for_the_last()?;
        Ok(self.report)
    }

    fn send_next(&mut self, late: Duration) -> Result<()> {
        let number = self.report.requests.len();
        let message = Message::request(self.numbering.sha_of(number)?, self.from, self.target);
        let message = match self.mode {
            ProbeMode::Broadcast => message,
            ProbeMode::Unicast(mac) => message.to(mac),
        };
        let request = Request { sent_at: SystemTime::now(), late, answers: Vec::new() };
        self.report.requests.push(request);
        self.wire.send(&message.sent_by(self.source).to_bytes())?;
        self.shared.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn wait_for_the_last(&mut self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let limit_ago = |at: SystemTime| at.elapsed().is_ok_and(|age| age < ANSWER_LIMIT);
        while self
            .report
            .requests
            .iter()
            .rev()
            .take_while(|r| limit_ago(r.sent_at))
            .any(|r| r.answers.is_empty())
        {
            match self.wire.receive(deadline)? {
                Some(frame) => self.record(&frame),
                None => break,
            }
        }
        // The socket may already have second answers to the last requests.
        for frame in self.wire.drain()? {
            self.record(&frame);
        }
        Ok(())
    }

    fn record(&mut self, frame: &Frame) {
        let answer = frame.message().filter(|message| message.answers_for() == Some(self.target));
        let Some(reply) = answer else { return };
        let Some(number) = self.numbering.number_of(reply.eth_dst()) else { return };
        let Some(request) = self.report.requests.get_mut(number) else { return };
        let by = Answerer { sha: reply.sender(), eth_src: reply.eth_src() };
        request.answers.push(Answer { by, at: frame.at });
        self.shared.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Request numbers as hardware addresses: 06, one byte for the probe, four for the number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    probe: u8,
}

impl Numbering {
    const PREFIX: u8 = 0x06;

    pub(crate) fn new() -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        Self { probe: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Returns the prefix of its MACs, which no other probe has.
    fn prefix(self) -> [u8; 2] {
        [Self::PREFIX, self.probe]
    }

    pub(crate) fn sha_of(self, number: usize) -> Result<Mac> {
        let [a, b, c, d] = u32::try_from(number).context("a probe sends at most 2³² requests")?.to_be_bytes();
        Ok(Mac([Self::PREFIX, self.probe, a, b, c, d]))
    }

    pub(crate) fn number_of(self, mac: Mac) -> Option<usize> {
        let [prefix, probe, a, b, c, d] = mac.0;
        let number = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
        (prefix == Self::PREFIX && probe == self.probe).then_some(number)
    }
}
