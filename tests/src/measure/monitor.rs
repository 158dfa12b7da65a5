//! Watches several VIPs on the wire: requests each
//! every millisecond, and listens for announcements.
//! Requests alternate between broadcast, like a client without an entry, and unicast, like a client
//! that revalidates its entry. Unicast goes only to a MAC that has answered for itself. During a
//! handover the old holder names its successor, which may not have seen the claim yet and would
//! rightly not answer. No client sends it a request then: a client revalidates an entry seconds after
//! the answer, and a handover takes milliseconds. A MAC that has stopped answering soon gets no more
//! requests: a client whose entry no host confirms sends a broadcast again.
//! One thread requests all VIPs of a family. It skips requests that it is too
//! late for, so that its own delay never counts as silence of a VIP.

mod report;
mod timeline;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};

pub use self::report::{
    Announcement, AnnouncementForm, Double, DoubleKind, Gap, MonitorReport, Move, Note, VipReport,
};

use self::report::INTERVAL;
use crate::{
    frames::{Family, Mac, Message},
    kit::{
        wait_for, wait_until,
        worker::{Stop, Worker},
    },
    lan::{Frame, Host, Wire},
    measure::{ANSWER_LIMIT, Answer, Answerer, Request, probe::Numbering},
};

/// Number of requests after which a MAC that has answered none of them gets no unicast.
const PATIENCE: usize = 100;

/// Threads that watch VIPs until they are stopped or dropped.
#[derive(Debug)]
pub struct Monitor {
    state: Arc<Mutex<State>>,
    workers: Vec<Worker<()>>,
}

#[derive(Debug)]
struct State {
    started: SystemTime,
    vips: Vec<Watched>,
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Watched {
    report: VipReport,
    latest: Option<Latest>,
    /// Latest answer that came from the MAC that it names.
    latest_own: Option<Latest>,
}

/// Answer to the latest answered request.
#[derive(Clone, Copy, Debug)]
struct Latest {
    mac: Mac,
    request: usize,
}

impl Monitor {
    /// Starts to watch `vips` from an interface with an address of each one's family.
    /// The host should not use the VIPs otherwise. Each request has its own sender MAC, which the kernel of a
    /// target may record as the host's.
    pub fn start(host: &Host, interface: &str, vips: &[impl Into<IpAddr> + Copy]) -> Result<Self> {
        ensure!(!vips.is_empty(), "a monitor needs a VIP to watch");
        let source = host.mac(interface)?;
        let started = SystemTime::now();
        let watched = vips.iter().map(|vip| Watched {
            report: VipReport::new((*vip).into(), started),
            latest: None,
            latest_own: None,
        });
        let state = State { started, vips: watched.collect(), notes: Vec::new() };
        let by_family = Family::BOTH.map(|family| {
            let is_in = |(_, watched): &(usize, &Watched)| Family::of(watched.report.vip) == family;
            let of_family = state.vips.iter().enumerate().filter(is_in).map(|(index, _)| index);
            (family, of_family.collect::<Vec<_>>())
        });
        let state = Arc::new(Mutex::new(state));
        let mut workers = Vec::new();
        for (family, vips) in by_family.into_iter().filter(|(_, vips)| !vips.is_empty()) {
            let asker = Asker {
                wire: Wire::open_in(host, interface, family)?,
                source,
                from: host.address_in(interface, family)?,
                vips,
                numbering: Numbering::new(),
                state: Arc::clone(&state),
            };
            workers.push(Worker::start("vip-monitor", move |stop| asker.watch(stop))?);
        }
        Ok(Self { state, workers })
    }

    /// Records a step in the timeline, and returns the time.
    pub fn note(&self, text: impl Into<String>) -> SystemTime {
        let at = SystemTime::now();
        self.state().notes.push(Note { at, text: text.into() });
        at
    }

    /// Returns the report so far, without the last requests that may yet be answered.
    pub fn report(&self) -> MonitorReport {
        let mut report = self.state().report();
        let still_open = |request: &Request| {
            !request.is_answered() && request.sent_at.elapsed().is_ok_and(|age| age < ANSWER_LIMIT)
        };
        for vip in report.vips.values_mut() {
            let decided =
                vip.requests.iter().rposition(|request| !still_open(request)).map_or(0, |last| last + 1);
            vip.requests.truncate(decided);
        }
        report
    }

    /// Stops the requests, waits for the last answers, and returns the report.
    pub fn stop(self) -> Result<MonitorReport> {
        self.workers.into_iter().try_for_each(Worker::stop)?;
        Ok(lock(&self.state).report())
    }

    /// Waits until `count` more requests are sent for every VIP.
    pub fn wait_for_requests(&self, count: usize, limit: Duration) -> Result<()> {
        let enough = self.fewest_requests() + count;
        let what = format!("{count} more requests for each VIP");
        wait_until(limit, &what, || self.check_alive().map(|()| self.fewest_requests() >= enough))
    }

    /// Waits until a request for `vip` sent from now on is answered with `mac`.
    pub fn wait_until_answered_by(&self, vip: impl Into<IpAddr>, mac: Mac, limit: Duration) -> Result<()> {
        let vip = vip.into();
        self.wait_for_answer(vip, limit, &format!("an answer that {vip} is at {mac}"), |by| by == mac)
            .map(drop)
    }

    /// Waits until a request for `vip` sent from now on is answered, and returns the MAC.
    pub fn wait_until_answered(&self, vip: impl Into<IpAddr>, limit: Duration) -> Result<Mac> {
        let vip = vip.into();
        self.wait_for_answer(vip, limit, &format!("an answer for {vip}"), |_| true)
    }

    /// Waits until no host has answered for `vip` for `silence`, as requests prove.
    pub fn wait_until_silent(
        &self,
        vip: impl Into<IpAddr>,
        silence: Duration,
        limit: Duration,
    ) -> Result<()> {
        let vip = vip.into();
        let from = SystemTime::now();
        wait_until(limit, &format!("silence about {vip} for {silence:?}"), || {
            self.check_alive()?;
            let state = self.state();
            let requests = &state.watched(vip)?.report.requests;
            let unanswered = requests.iter().rev().take_while(|r| r.answers.is_empty() && r.sent_at >= from);
            let count = u32::try_from(unanswered.count()).context("a monitor sends at most 2³² requests")?;
            Ok(INTERVAL * count >= silence)
        })
    }

    fn wait_for_answer(
        &self,
        vip: IpAddr,
        limit: Duration,
        what: &str,
        is_it: impl Fn(Mac) -> bool,
    ) -> Result<Mac> {
        let first = self.state().watched(vip)?.report.requests.len();
        let found = wait_for(limit, what, || {
            self.check_alive()?;
            let latest = self.state().watched(vip)?.latest;
            Ok(latest.filter(|latest| latest.request >= first && is_it(latest.mac)).map(|latest| latest.mac))
        });
        found.with_context(|| format!("what was seen:\n{}", self.report()))
    }

    fn check_alive(&self) -> Result<()> {
        self.workers.iter().try_for_each(Worker::check_alive)
    }

    fn fewest_requests(&self) -> usize {
        self.state().vips.iter().map(|watched| watched.report.requests.len()).min().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn watched(&self, vip: IpAddr) -> Result<&Watched> {
        self.vips
            .iter()
            .find(|watched| watched.report.vip == vip)
            .with_context(|| format!("{vip} is not watched"))
    }

    fn report(&self) -> MonitorReport {
        let vips = self.vips.iter().map(|watched| (watched.report.vip, watched.report.clone()));
        MonitorReport { started: self.started, vips: vips.collect(), notes: self.notes.clone() }
    }
}

struct Asker {
    wire: Wire,
    source: Mac,
    from: IpAddr,
    /// Which of the VIPs, in the order of the requests, on which their numbers depend.
    vips: Vec<usize>,
    numbering: Numbering,
    state: Arc<Mutex<State>>,
}

impl Asker {
    fn watch(self, stop: &Stop) -> Result<()> {
        let mut due = Instant::now();
        let mut round = 0;
        while !stop.is_asked_for() {
            self.ask_for_all(round, due)?;
            round += 1;
            // Skips what this thread is too late for, instead of sending a burst.
            due = (due + INTERVAL).max(Instant::now());
            while let Some(frame) = self.wire.receive(due)? {
                self.record(&frame);
                if Instant::now() >= due {
                    break;
                }
            }
        }
        self.wait_for_the_last()
    }

    fn ask_for_all(&self, round: usize, due: Instant) -> Result<()> {
        let mut state = lock(&self.state);
        for (nth, index) in self.vips.iter().enumerate() {
            let watched = &mut state.vips[*index];
            let asks_known = |latest: &Latest| round % 2 == 1 && round - latest.request <= PATIENCE;
            let known = watched.latest_own.filter(asks_known).map(|latest| latest.mac);
            let sha = self.numbering.sha_of(round * self.vips.len() + nth)?;
            let request = Message::request(sha, self.from, watched.report.vip).sent_by(self.source);
            let request = match known {
                Some(mac) => request.to(mac),
                None => request,
            };
            let late = Instant::now().saturating_duration_since(due);
            let sent_at = SystemTime::now();
            watched.report.requests.push(Request { sent_at, late, answers: Vec::new() });
            self.wire.send(&request.to_bytes())?;
        }
        Ok(())
    }

    fn record(&self, frame: &Frame) {
        let Some(message) = frame.message() else { return };
        let mut state = lock(&self.state);
        let by = Answerer { sha: message.sender(), eth_src: message.eth_src() };
        if message.is_announcement() {
            let (address, form): (IpAddr, _) = match message {
                Message::Arp(arp) if arp.is_reply() => (arp.spa.into(), AnnouncementForm::Reply),
                Message::Arp(arp) => (arp.spa.into(), AnnouncementForm::Request),
                Message::Nd(nd) => (nd.target.into(), AnnouncementForm::Advertisement),
            };
            if let Some(watched) = state.vips.iter_mut().find(|watched| watched.report.vip == address) {
                watched.report.announcements.push(Announcement { at: frame.at, by, form });
            }
        } else if let Some(address) = message.answers_for()
            && let Some(number) = self.numbering.number_of(message.eth_dst())
        {
            let count = self.vips.len();
            let watched = &mut state.vips[self.vips[number % count]];
            let number = number / count;
            if watched.report.vip == address
                && let Some(request) = watched.report.requests.get_mut(number)
            {
                request.answers.push(Answer { by, at: frame.at });
                let is_later = |latest: Option<Latest>| latest.is_none_or(|latest| latest.request <= number);
                let answer = Some(Latest { mac: by.sha, request: number });
                if is_later(watched.latest) {
                    watched.latest = answer;
                }
                if by.eth_src == by.sha && is_later(watched.latest_own) {
                    watched.latest_own = answer;
                }
            }
        }
    }

    /// Returns true if a request may yet be answered.
    fn awaits_answers(&self) -> bool {
        let state = lock(&self.state);
        let fresh = |request: &&Request| request.sent_at.elapsed().is_ok_and(|age| age < ANSWER_LIMIT);
        self.vips.iter().any(|index| {
            let requests = &state.vips[*index].report.requests;
            requests.iter().rev().take_while(fresh).any(|request| request.answers.is_empty())
        })
    }

    fn wait_for_the_last(&self) -> Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        while self.awaits_answers() {
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
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
