//! Tells a host that uses a wanted address from a proxy that answers for it.
//!
//! A fabric that suppresses ARP and Neighbour Discovery (RFC 9161), or a WLAN controller, answers
//! broadcast requests in the name of a host that may be dead. A unicast request goes to the host
//! itself, and a host that is alive answers it (RFC 1122, 2.3.2.1; RFC 4861, 7.2.4). So the MAC that was
//! found to use an address is asked three times by unicast. No answer means that a proxy speaks for a
//! host that does not answer itself, or that the host has just gone. If the next probe is answered
//! nevertheless, the MAC is asked once more, and meanwhile no probe leaves that a proxy would answer.
//!
//! A router that answers by proxy ARP (RFC 1027) answers unicast requests too. [`Telling`] tells it
//! from a host. An address that such a router was found to answer for is asked about by unicast once
//! more before it counts as free: the router need not answer probes, which have no sender.
//!
//! Only a request that was sent and not answered speaks for a proxy. Whatever else is unclear counts as
//! a host, and the address stays in use.

mod telling;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use vipward_common::{EventKind, MacAddr, Offender, OffenderKey, TYPE_REDIRECT, VipKey};

pub use self::telling::{Telling, controls};
use super::probing::Proxied;
use crate::base::{pace::Pace, time::Monotonic};

/// Number of unicast requests.
const QUESTIONS: u32 = 3;
/// Time from the conflict to the first request. Late answers to the probes arrive meanwhile: proxy ARP
/// of Linux delays them by up to 0.8 s.
const PAUSE: Duration = Duration::from_secs(1);
/// Time between two requests.
const INTERVAL: Duration = Duration::from_millis(300);
/// Time from the last request to the verdict. Hosts that save power answer late (RFC 5227, 1.1:
/// `ANNOUNCE_WAIT`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Time after the verdict for which the prober rests at least.
const SLACK: Duration = Duration::from_millis(100);
/// Largest lag of the program's clock.
const COARSE: Duration = Duration::from_millis(20);
/// Least time between two readings of the program's counts.
const COUNT_EVERY: Duration = Duration::from_millis(250);
/// Time after which a finding is forgotten if it is not confirmed. An address in use is probed at least
/// once a minute.
const REMEMBERED: Duration = Duration::from_mins(3);
/// Time until the next probes of an address that a router answers for, and no probe of which it answers.
const RECHECK: Duration = Duration::from_secs(10);
/// Largest number of hosts that are told from routers at a time. Each takes sockets.
const MOST_TELLING: usize = 8;
/// Largest number of MACs of one address that are asked in turn.
const MOST_ASKED: usize = 4;
/// Part of the rate of probes that unicast requests may take.
const SHARE: u32 = 2;

/// The sort of a host that answers for a wanted address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answerer {
    /// A host that has the address.
    Host,
    /// A proxy in the name of a host that does not answer itself.
    Proxy,
    /// A router that answers for addresses of others.
    Router,
}

impl Answerer {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Proxy => "proxy",
            Self::Router => "router",
        }
    }

    /// Returns a clause about the answers.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Host => "a host has the address",
            Self::Proxy => {
                "a proxy answers for a host that does not answer itself (ARP or ND suppression of a fabric, or a \
                 WLAN controller)"
            }
            Self::Router => {
                "a router answers for it by proxy ARP or ND proxy (it has a route to the address, or answers for all)"
            }
        }
    }

    /// Returns the first remedy. `force` is another.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::Host => "give that host another address",
            Self::Proxy => {
                "clear its entry in the fabric or controller, or have such addresses taken (`probe: {proxied: take}` \
                 in the file of a standalone agent, `--probe-proxied take` in a cluster)"
            }
            Self::Router => "remove that route, or proxy ARP (ND proxy) on that interface of the router",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A probe found that this MAC uses an address.
    InUse {
        key: VipKey,
        mac: MacAddr,
        /// False for a peer's MAC, whose claims the program does not count.
        is_counted: bool,
    },
    /// A MAC claims an address, or probes for it.
    Received {
        key: VipKey,
        mac: MacAddr,
        /// The operation of ARP, or the type of the `ICMPv6` message.
        oper: u16,
        at: Monotonic,
    },
    /// The program's counts of claims.
    Counted(&'a BTreeMap<OffenderKey, Offender>),
    /// A request or probe could not be sent.
    NotSent(VipKey),
    /// A broadcast probe leaves, which a proxy answers too.
    Probed(VipKey),
    /// This node no longer wants to know.
    Forget(VipKey),
    /// No host has answered a probe. A proxy would have, so whoever answers from now on is none.
    Free(VipKey),
    /// A host was told from a router.
    Told {
        key: VipKey,
        mac: MacAddr,
        answerer: Answerer,
    },
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Ask for the address by unicast.
    Ask { key: VipKey, mac: MacAddr },
    /// Let the prober rest until then: a proxy would answer a broadcast probe.
    Rest { key: VipKey, mac: MacAddr, until: Monotonic },
    /// Read the program's counts; [`Event::Counted`] follows.
    Count,
    /// Tell a host from a router; [`Event::Told`] follows.
    Tell { key: VipKey, mac: MacAddr },
    /// Another sort answers for the address than was known, or a proxy is overruled.
    Found {
        key: VipKey,
        mac: MacAddr,
        answerer: Answerer,
        /// True if the address counts as free.
        takes: bool,
    },
    /// The address counts as free.
    Free {
        key: VipKey,
        /// True if a proxy answers for it.
        by_proxy: bool,
    },
}

/// The requests to one MAC about one address.
#[derive(Debug)]
struct Case {
    mac: MacAddr,
    is_counted: bool,
    /// Time at which the MAC was found, or at which others of the address were.
    begun: Monotonic,
    asked: u32,
    /// Time of the first request.
    since: Option<Monotonic>,
    /// Time of the next request or of the verdict.
    due: Monotonic,
    /// MACs that do not answer themselves.
    silent: Vec<MacAddr>,
    /// True if no probe was answered.
    is_free: bool,
    /// True if a verdict follows, and no probe leaves before it.
    is_last: bool,
}

#[derive(Debug)]
struct Finding {
    mac: MacAddr,
    answerer: Answerer,
    at: Monotonic,
}

#[derive(Debug)]
pub struct Confirming {
    policy: Proxied,
    cases: BTreeMap<VipKey, Case>,
    /// The next requests, by time.
    to_ask: BTreeSet<(Monotonic, VipKey)>,
    /// The verdicts, by time.
    to_judge: BTreeSet<(Monotonic, VipKey)>,
    /// MACs that answered a probe and no request after it.
    suspects: BTreeMap<VipKey, MacAddr>,
    /// The findings, of which those about proxies outlast a taking.
    found: BTreeMap<VipKey, Finding>,
    telling: BTreeSet<(VipKey, MacAddr)>,
    pace: Pace,
    count_next: Monotonic,
}

impl Confirming {
    pub fn start(policy: Proxied, rate: u32, now: Monotonic) -> Self {
        Self {
            policy,
            cases: BTreeMap::new(),
            to_ask: BTreeSet::new(),
            to_judge: BTreeSet::new(),
            suspects: BTreeMap::new(),
            found: BTreeMap::new(),
            telling: BTreeSet::new(),
            pace: Pace::new(rate / SHARE, now),
            count_next: now,
        }
    }

    pub fn configure(&mut self, policy: Proxied, rate: u32) {
        self.policy = policy;
        self.pace.set(rate / SHARE);
    }

    /// Returns the sort of host that a MAC was found to be for an address.
    pub fn answerer(&self, key: &VipKey, mac: MacAddr) -> Option<Answerer> {
        self.found.get(key).filter(|found| found.mac == mac).map(|found| found.answerer)
    }

    /// Doubts that an address is free that no host has answered probes for, if a router was found to
    /// answer for it, or a host that may be one. [`Command::Free`] follows unless the router still does.
    pub fn doubt(&mut self, key: VipKey, now: Monotonic) -> Option<Command> {
        let router = self.found.get(&key).filter(|found| found.answerer == Answerer::Router);
        let told = self.telling.range((key, MacAddr::ZERO)..).next().filter(|(other, _)| *other == key);
        let mac = router.map(|found| found.mac).or(told.map(|(_, mac)| *mac))?;
        // No answer is under way.
        self.begin(key, Case { is_free: true, is_last: true, ..Case::new(mac, true, now, now) });
        Some(Command::Rest { key, mac, until: now + INTERVAL })
    }

    pub fn on_event(&mut self, event: Event<'_>, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::InUse { key, mac, is_counted } => {
                let is_last = self.suspects.get(&key) == Some(&mac);
                self.begin(key, Case { is_last, ..Case::new(mac, is_counted, now, now + PAUSE) });
            }
            Event::Received { key, mac, oper, at } => {
                let answers = |case: &Case| {
                    case.mac == mac
                        && case.is_by(oper)
                        && case.since.is_some_and(|since| since <= at + COARSE)
                };
                if self.cases.get(&key).is_some_and(answers) {
                    self.on_answer(key, now, &mut commands);
                }
            }
            Event::Counted(counts) => self.on_counted(counts, now, &mut commands),
            Event::Probed(key) => drop(self.end(&key)),
            Event::NotSent(key) | Event::Forget(key) => {
                self.end(&key);
                self.suspects.remove(&key);
            }
            Event::Free(key) => {
                self.end(&key);
                self.suspects.remove(&key);
                self.found.remove(&key);
            }
            Event::Told { key, mac, answerer } => {
                // Without an answer to any request, nothing is known.
                if self.telling.remove(&(key, mac)) && answerer != Answerer::Proxy {
                    self.find(key, mac, answerer, now, &mut commands);
                }
            }
            Event::Tick => self.go_on(now, &mut commands),
        }
        commands
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        let next = |steps: &BTreeSet<(Monotonic, VipKey)>, limit: Monotonic| {
            steps.first().map(|(due, _)| limit.max(*due))
        };
        let (ask, judge) = (next(&self.to_ask, self.pace.next()), next(&self.to_judge, self.count_next));
        ask.into_iter().chain(judge).min()
    }

    fn begin(&mut self, key: VipKey, case: Case) {
        self.end(&key);
        self.to_ask.insert((case.due, key));
        self.cases.insert(key, case);
    }

    /// Ends the requests about an address.
    fn end(&mut self, key: &VipKey) -> Option<Case> {
        let case = self.cases.remove(key)?;
        self.to_ask.remove(&(case.due, *key));
        self.to_judge.remove(&(case.due, *key));
        Some(case)
    }

    fn go_on(&mut self, now: Monotonic, commands: &mut Vec<Command>) {
        self.found.retain(|key, found| self.cases.contains_key(key) || now < found.at + REMEMBERED);
        while let Some((_, key)) = self.to_ask.first().copied().filter(|(due, _)| *due <= now)
            && self.pace.is_open(now)
        {
            self.to_ask.pop_first();
            let Some(case) = self.cases.get_mut(&key) else { continue };
            self.pace.take();
            case.asked += 1;
            case.since.get_or_insert(now);
            let (mac, is_asked) = (case.mac, case.asked >= QUESTIONS);
            case.due = now + if is_asked { PATIENCE } else { INTERVAL };
            match (is_asked, case.is_last) {
                (false, _) => _ = self.to_ask.insert((case.due, key)),
                (true, true) => _ = self.to_judge.insert((case.due, key)),
                (true, false) => _ = self.suspects.insert(key, mac),
            }
            commands.push(Command::Ask { key, mac });
            if case.is_last {
                commands.push(Command::Rest { key, mac, until: case.due + COUNT_EVERY + SLACK });
            }
        }
        if self.count_next <= now && self.to_judge.first().is_some_and(|(due, _)| *due <= now) {
            self.count_next = now + COUNT_EVERY;
            commands.push(Command::Count);
        }
    }

    /// Judges by the program's counts. They have each claim, and an event stands for several.
    fn on_counted(
        &mut self,
        counts: &BTreeMap<OffenderKey, Offender>,
        now: Monotonic,
        commands: &mut Vec<Command>,
    ) {
        let due = self.to_judge.iter().take_while(|(due, _)| *due <= now);
        for key in due.map(|(_, key)| *key).collect::<Vec<_>>() {
            let Some(case) = self.cases.get(&key) else { continue };
            let is_since = |count: &Offender, since: Monotonic| {
                case.is_by(count.oper) && since <= Monotonic::from_nanos(count.last_ns) + COARSE
            };
            let own = counts.get(&OffenderKey { vip: key, mac: case.mac });
            let since = case.since.unwrap_or(now);
            match own {
                Some(count) if is_since(count, since) => {
                    self.on_answer(key, now, commands);
                    continue;
                }
                // A host that probes for the address is about to use it. A count that is gone shows
                // nothing.
                Some(Offender { kind: EventKind::Probed, .. }) => {
                    self.end(&key);
                    continue;
                }
                None if case.is_counted && !case.is_free => {
                    self.end(&key);
                    continue;
                }
                Some(_) | None => {}
            }
            let others = counts.range(OffenderKey { vip: key, mac: MacAddr::ZERO }..);
            let mut others = others.take_while(|(other, _)| other.vip == key).filter(|(other, count)| {
                let is_asked = other.mac == case.mac || case.silent.contains(&other.mac);
                !is_asked && is_since(count, case.begun.saturating_sub(PAUSE))
            });
            match others.next().map(|(other, _)| other.mac) {
                None => self.on_silence(key, now, commands),
                Some(_) if case.silent.len() + 1 >= MOST_ASKED => drop(self.end(&key)),
                Some(other) => self.ask_another(key, other, now),
            }
        }
    }

    /// Handles that another MAC claims the address too.
    fn ask_another(&mut self, key: VipKey, other: MacAddr, now: Monotonic) {
        let Some(mut case) = self.end(&key) else { return };
        case.silent.push(case.mac);
        let Case { begun, silent, is_free, is_last, .. } = case;
        self.begin(key, Case { silent, is_free, is_last, ..Case::new(other, true, begun, now) });
    }

    fn on_answer(&mut self, key: VipKey, now: Monotonic, commands: &mut Vec<Command>) {
        let Some(case) = self.end(&key) else { return };
        let mac = case.mac;
        self.suspects.remove(&key);
        if case.is_free {
            commands.push(Command::Rest { key, mac, until: now + RECHECK });
        }
        match self.found.get_mut(&key).filter(|found| found.mac == mac) {
            Some(found) if found.answerer != Answerer::Proxy => found.at = now,
            Some(_) | None => {
                if self.telling.len() < MOST_TELLING && self.telling.insert((key, mac)) {
                    commands.push(Command::Tell { key, mac });
                }
            }
        }
    }

    fn on_silence(&mut self, key: VipKey, now: Monotonic, commands: &mut Vec<Command>) {
        let Some(case) = self.end(&key) else { return };
        if case.is_free {
            self.found.remove(&key);
            commands.push(Command::Free { key, by_proxy: false });
            return;
        }
        self.find(key, case.mac, Answerer::Proxy, now, commands);
        if self.policy == Proxied::Take {
            commands.push(Command::Free { key, by_proxy: true });
        }
    }

    fn find(
        &mut self,
        key: VipKey,
        mac: MacAddr,
        answerer: Answerer,
        now: Monotonic,
        commands: &mut Vec<Command>,
    ) {
        let before = self.found.insert(key, Finding { mac, answerer, at: now });
        let takes = answerer == Answerer::Proxy && self.policy == Proxied::Take;
        if takes || before.is_none_or(|before| (before.mac, before.answerer) != (mac, answerer)) {
            commands.push(Command::Found { key, mac, answerer, takes });
        }
    }
}

impl Case {
    fn new(mac: MacAddr, is_counted: bool, begun: Monotonic, due: Monotonic) -> Self {
        let silent = Vec::new();
        Self { mac, is_counted, begun, asked: 0, since: None, due, silent, is_free: false, is_last: false }
    }

    /// Returns true if a message of this type shows that its sender answers for the address. A router
    /// that is asked for an address of others may redirect the request. It lives, but it need not
    /// answer for the address.
    fn is_by(&self, oper: u16) -> bool {
        !self.is_free || oper != u16::from(TYPE_REDIRECT)
    }
}
