//! A monitor on a simulated segment: the holder's program answers pings at once while it lives.
//!
//! The monitor's acts are shown as lines, each with the milliseconds that have passed. Pings are
//! not shown. Its findings about its own contact and its own monitors are kept apart
//! (`Lan::found`).

use std::time::Duration;

use super::*;
use crate::liveness::{Ended, ExpiryNotice, Finding, Sight};

mod judging;
mod own;
mod voting;

const KEY: KeyId = KeyId(1);

fn wid(node: u8) -> Wid {
    Wid::from_number(u64::from(node) << 32).expect("a number that is not zero")
}

fn session(node: u8) -> Session {
    Session::from_number(u64::from(node) << 8 | 1).expect("a number that is not zero")
}

fn path(node: u8, interface: &str) -> Path {
    Path { interface: interface.into(), mac: MacAddr([2, 0, 0, 0, 0, node]) }
}

/// Returns a holder whose set are this node and `others`.
fn holder(node: u8, others: &[u8], quorum: usize) -> Peer {
    let others = others.iter().map(|other| (wid(*other), vec![path(*other, "eth0")])).collect();
    Peer { watched: Some(Watched { round: 1, others, place: 0, quorum }), ..contact(node) }
}

fn contact(node: u8) -> Peer {
    Peer {
        node: char::from(node).to_string().as_str().into(),
        session: session(node),
        wid: wid(node),
        paths: vec![path(node, "eth0")],
        watched: None,
    }
}

fn plan(peers: Vec<Peer>) -> Plan {
    Plan { key: Some(KEY), peers, ..Plan::default() }
}

fn at(millis: u64) -> Boottime {
    // A boot clock never begins at the start of a test.
    Boottime::from_nanos((1_000_000 + millis) * 1_000_000)
}

fn name(mac: MacAddr) -> char {
    char::from(mac.0[5])
}

#[derive(Default)]
struct Program {
    holders: BTreeMap<(Session, String), Sight>,
    monitors: BTreeMap<(Wid, String), Sight>,
    notified: Option<ExpiryNotice>,
}

impl Seen for Program {
    fn holder(&self, session: Session, interface: &str) -> Sight {
        self.holders.get(&(session, interface.to_owned())).copied().unwrap_or_default()
    }

    fn monitor(&self, wid: Wid, interface: &str) -> Sight {
        self.monitors.get(&(wid, interface.to_owned())).copied().unwrap_or_default()
    }

    fn notified(&self) -> Option<ExpiryNotice> {
        self.notified
    }
}

struct Lan {
    monitor: Monitor,
    program: Program,
    /// The MACs, with their interfaces, that answer no ping.
    dead: Vec<Path>,
    now: u64,
    pings: Vec<(u64, char)>,
    requested: Vec<u64>,
    found: Vec<String>,
    lines: Vec<String>,
}

impl Lan {
    fn start(plan: Plan) -> Self {
        Self::scaled(Scale::One, plan)
    }

    fn scaled(scale: Scale, plan: Plan) -> Self {
        let mut monitor = Monitor::new(scale, wid(b'w'));
        monitor.set_plan(plan, at(0));
        let (dead, pings, requested, found, lines) = Default::default();
        Self { monitor, program: Program::default(), dead, now: 0, pings, requested, found, lines }
    }

    fn kill(&mut self, node: u8) {
        self.dead.push(path(node, "eth0"));
    }

    fn run(&mut self, until: u64) -> Vec<String> {
        for turns in 0.. {
            assert!(turns < 100_000, "it wakes and wakes");
            let Some(deadline) = self.monitor.next_deadline() else { break };
            let due = deadline.as_nanos().div_ceil(1_000_000).saturating_sub(1_000_000);
            if due > until {
                break;
            }
            self.wake(due.max(self.now));
        }
        self.now = until;
        std::mem::take(&mut self.lines)
    }

    fn stall(&mut self, until: u64) {
        self.wake(until);
    }

    fn wake(&mut self, now: u64) {
        self.now = now;
        for act in self.monitor.on_time(&self.program, at(now)) {
            self.note(act);
        }
        let next = self.monitor.next_deadline();
        assert!(next.is_none_or(|next| next > at(now)), "woken at {now} ms for {next:?}");
    }

    fn note(&mut self, act: Act) {
        let now = self.now;
        let line = match act {
            Act::Send { interface, to, key, frame } => {
                assert_eq!(key, KEY);
                match frame.kind {
                    Kind::Ping => {
                        assert_eq!((frame.wid, frame.stamp), (Some(wid(b'w')), at(now).as_nanos()));
                        self.pings.push((now, name(to)));
                        if !self.dead.contains(&Path { interface: Arc::clone(&interface), mac: to }) {
                            let received = at(now) + Duration::from_micros(300);
                            let sight = Sight { answered: at(now), received };
                            self.program.holders.insert((frame.holder, interface.to_string()), sight);
                        }
                        return;
                    }
                    Kind::VoteRequest => {
                        self.requested.push(frame.stamp);
                        format!("{now} asks {}", name(to))
                    }
                    Kind::Vote => format!("{now} seconds {}, request {}", name(to), frame.stamp),
                    Kind::Ended => format!("{now} tells {}", name(to)),
                }
            }
            Act::AskNeighbours { session: _, interface, holder } => {
                format!("{now} asks neighbours of {} on {interface}", name(holder))
            }
            Act::Report(Finding::Unresponsive { .. }) => format!("{now} unresponsive"),
            Act::Report(Finding::Answers { .. }) => format!("{now} answers"),
            Act::Report(Finding::Ended(_)) => format!("{now} ended"),
            Act::Report(Finding::Expired { session }) => {
                let node = char::from(u8::try_from(session.number() >> 8).expect("a letter"));
                return self.found.push(format!("{now} {node} has expired"));
            }
            Act::Report(Finding::Pinged { by, lately }) => {
                let by = char::from(u8::try_from(by.number() >> 32).expect("a letter"));
                return self.found.push(format!("{now} pinged by {by}: {lately}"));
            }
            Act::Report(Finding::Contact { interface, received, answers }) => {
                return self
                    .found
                    .push(format!("{now} {interface} received: {received}, answers: {answers:?}"));
            }
        };
        self.lines.push(line);
    }

    fn deliver(&mut self, kind: Kind, from: u8, about: u8, stamp: u64) {
        let frame = Frame { kind, holder: session(about), wid: Some(wid(from)), stamp };
        let Path { interface, mac } = path(from, "eth0");
        self.monitor.on_frame(Received { interface, from: mac, frame }, at(self.now));
    }

    fn second(&mut self, from: u8, about: u8) {
        let number = *self.requested.last().expect("a vote request");
        self.deliver(Kind::Vote, from, about, number);
    }

    fn pinged(&mut self, by: u8) {
        let received = at(self.now);
        let sight = Sight { answered: Boottime::default(), received };
        self.program.monitors.insert((wid(by), "eth0".to_owned()), sight);
    }
}
