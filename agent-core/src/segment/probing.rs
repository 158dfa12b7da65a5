//! Schedule of ARP Probes, which find out if an address is free (RFC 5227, 2.1).
//!
//! An address is probed before its VIP is held for the first time. An address in use is probed
//! again and again, and so found free within seconds. Held VIPs are probed about once a minute:
//! some rivals only answer requests, and only the requesting host receives the answers.
//!
//! On a segment where no other host was heard since its link came up, silence proves nothing for a
//! while: no address is found free until then ([`Event::Unheard`]).
//!
//! Due probes leave as the pace allows: for addresses without a result first, then for addresses
//! whose attempt has begun, then for all others that were in use.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use vipward_common::{MacAddr, VipKey};

pub use self::manner::Manner;
use self::{
    probed_address::{ProbedAddress, RETRY, Turn},
    round::Round,
};
use crate::base::{
    pace::{Pace, between, chance},
    time::Monotonic,
};

mod manner;
mod probed_address;
mod round;
#[cfg(test)]
mod tests;

/// Longest wait before the first probe (RFC 5227, 1.1).
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Least time between two probes (RFC 5227, 1.1).
const PROBE_MIN: Duration = Duration::from_secs(1);
/// Most time between two probes (RFC 5227, 1.1).
const PROBE_MAX: Duration = Duration::from_secs(2);
/// Wait after the last probe (RFC 5227, 1.1).
pub const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// Largest number of addresses without a result that are probed at
/// a time. It is enough for the fastest pace.
const MOST_AT_ONCE: usize = 4_096;
/// Part of the rate that addresses in use may take. The rest is for
/// addresses without a result, and for held VIPs.
const SHARE_IN_USE: u32 = 2;
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of probes before an address counts as free; 0 turns them off.
    pub count: u32,
    pub timing: Timing,
    /// Time between two probes for a held VIP; none turns them off.
    pub repeat: Option<Duration>,
    /// Most frames a second, over all VIPs.
    pub rate: u32,
    pub proxied: Proxied,
}

/// Handling of an address for which only a proxy answers, in the name of a host that does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Proxied {
    /// The address counts as free.
    #[default]
    Take,
    /// The address counts as in use.
    Wait,
}

impl Settings {
    /// Settings for three probes with a result within 700
    /// ms, and one probe a minute while a VIP is held.
    pub const DEFAULT: Self = Self {
        count: 3,
        timing: Timing::Every(Duration::from_millis(200)),
        repeat: Some(Duration::from_mins(1)),
        rate: 5_000,
        proxied: Proxied::Take,
    };

    /// Returns the longest time that it takes to find an address free,
    /// if the rate delays no probe. Returns none if probing is off.
    pub fn longest(&self) -> Option<Duration> {
        (self.count > 0).then(|| self.timing.longest(self.count))
    }
}

impl Timing {
    /// Returns the longest time of an attempt with this number of probes.
    fn longest(self, count: u32) -> Duration {
        match self {
            Self::Every(interval) => interval / 2 + interval * count,
            Self::Rfc5227 => PROBE_WAIT + PROBE_MAX * count.saturating_sub(1) + ANNOUNCE_WAIT,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// The time between two probes, and from the last probe to
    /// the result. The first probe comes after up to half of it.
    Every(Duration),
    /// The times of RFC 5227, 2.1.1. Three probes take four to seven seconds in all.
    Rfc5227,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node is about to hold a VIP for the first time.
    Wanted {
        key: VipKey,
        manner: Manner,
    },
    /// This node holds the VIP now, or no longer wants it.
    Forget(VipKey),
    /// A host claims the address, or is a rival that probes for it (RFC 5227, 2.1.1).
    Received {
        key: VipKey,
        mac: MacAddr,
        /// True if the MAC is a peer's.
        by_peer: bool,
    },
    /// This node has begun to hold the VIP, because no host answered, and one answers now.
    Late {
        key: VipKey,
        mac: MacAddr,
        by_peer: bool,
    },
    /// The interface has appeared, or has carrier again. Earlier probes may have reached no host.
    Restart {
        ifindex: u32,
    },
    /// The interfaces on which no other host was heard since their links came up, with the
    /// times until which silence proves nothing there.
    Unheard(BTreeMap<u32, Monotonic>),
    /// Probe the held VIPs of the interface without delay.
    ProbeHeld {
        ifindex: u32,
    },
    /// A MAC turned out to be a peer's.
    Recognised {
        ifindex: u32,
        mac: MacAddr,
    },
    NotSent(VipKey),
    /// No answer to a probe would be reported now, nor was one to the probes before.
    Unwatched(VipKey),
    /// Time has passed, and everything that was received meanwhile has been passed on.
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probed {
    Free,
    InUse {
        mac: MacAddr,
        by_peer: bool,
    },
    /// A host answers after the address was found free: it was in use. What was begun since is undone.
    Late {
        mac: MacAddr,
        by_peer: bool,
    },
    /// No host has answered, and none was heard on the segment since its link came up. Another result
    /// follows.
    Unheard,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    Send(VipKey),
    /// No host uses the address.
    Free(VipKey),
    /// No host has answered. That proves nothing yet, and the prober probes the address again by itself.
    Unheard {
        key: VipKey,
        /// The time until which silence proves nothing.
        until: Monotonic,
    },
    /// A host uses the address. The prober probes it again by itself.
    InUse {
        key: VipKey,
        /// The MAC of the first host that was found to use the address.
        mac: MacAddr,
        by_peer: bool,
        /// Number of attempts that found it in use.
        conflicts: u32,
        again: Monotonic,
        /// True if the address had been found free before.
        is_late: bool,
    },
}

#[derive(Debug)]
pub struct Prober {
    settings: Settings,
    seed: u64,
    asked: BTreeMap<VipKey, ProbedAddress>,
    /// The next steps of these addresses, by time.
    waiting: BTreeSet<(Monotonic, VipKey)>,
    /// Due probes, in the order in which they leave.
    ready: BTreeSet<(Turn, Monotonic, VipKey)>,
    /// Addresses that wait until fewer are being probed.
    queue: BTreeMap<VipKey, Manner>,
    /// Interfaces on which no other host was heard, with the times until which that proves nothing.
    unheard: BTreeMap<u32, Monotonic>,
    /// Number of addresses with a first attempt under way.
    new: usize,
    pace: Pace,
    pace_in_use: Pace,
    round: Round,
}

impl Prober {
    /// Starts with no address. `seed` spreads the probes of different agents.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        let pace = Pace::new(settings.rate, now);
        let round = Round::start(seed, now + settings.repeat.unwrap_or_default());
        Self {
            settings: *settings,
            seed,
            asked: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
            queue: BTreeMap::new(),
            unheard: BTreeMap::new(),
            new: 0,
            pace,
            pace_in_use: Pace::new(settings.rate / SHARE_IN_USE, now),
            round,
        }
    }

    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        if self.settings.repeat != settings.repeat {
            self.round.next = now + settings.repeat.unwrap_or_default();
        }
        self.settings = *settings;
        self.pace.set(settings.rate);
        self.pace_in_use.set(settings.rate / SHARE_IN_USE);
        // Fewer probes may be enough now.
        self.waiting.extend(std::mem::take(&mut self.ready).into_iter().map(|(_, due, key)| (due, key)));
    }

    /// Returns true if this address is being probed, rests or is queued.
    pub fn asks_about(&self, key: &VipKey) -> bool {
        self.asked.contains_key(key) || self.queue.contains_key(key)
    }

    /// Returns true if an attempt for this address is under way. It rests between two attempts.
    pub fn is_probing(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.rests.is_none())
    }

    pub fn all_asked(&self) -> impl Iterator<Item = VipKey> {
        self.asked.keys().chain(self.queue.keys()).copied()
    }

    /// Puts off the attempt that is under way for an address, because a host probes for it too. The
    /// host may be a node that this one does not know for a peer yet: their agents have started
    /// together. Returns false if an attempt was put off before. Then the host is a rival.
    pub fn put_off(&mut self, key: &VipKey, mac: MacAddr, now: Monotonic) -> bool {
        if !self.asked.get(key).is_some_and(|asked| asked.rests.is_none() && !asked.was_put_off) {
            return false;
        }
        self.unschedule(*key);
        let Some(asked) = self.asked.get_mut(key) else { return false };
        (asked.was_put_off, asked.rests, asked.due) = (true, Some(mac), now + RETRY);
        self.waiting.insert((asked.due, *key));
        true
    }

    /// Returns the interfaces of the last [`Event::Unheard`].
    pub fn unheard(&self) -> &BTreeMap<u32, Monotonic> {
        &self.unheard
    }

    /// Lets an address in use rest at least until a time. An address that no host has answered for
    /// counts as in use again.
    pub fn rest_until(&mut self, key: VipKey, mac: MacAddr, until: Monotonic) {
        if self.asked.get(&key).is_some_and(|asked| asked.rests.is_none() || asked.due >= until) {
            return;
        }
        self.unschedule(key);
        self.asked.entry(key).or_insert_with(|| ProbedAddress::in_use(mac, until)).due = until;
        self.waiting.insert((until, key));
    }

    /// Returns true if this address was found in use, and was not found free since.
    pub fn is_in_use(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.conflicts > 0)
    }

    /// Returns the MAC that was found to use an address, while the address rests.
    pub fn user_of(&self, key: &VipKey) -> Option<MacAddr> {
        self.asked.get(key).filter(|asked| asked.conflicts > 0)?.rests
    }

    pub fn undecided(&self) -> usize {
        self.new + self.queue.len()
    }

    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Wanted { key, manner } => self.want(key, manner, now),
            Event::Forget(key) => self.forget(key),
            Event::Received { key, mac, by_peer } => {
                commands.extend(self.on_received(key, (mac, by_peer), now));
            }
            Event::Late { key, mac, by_peer } => commands.extend(self.on_late(key, (mac, by_peer), now)),
            Event::Unheard(unheard) => self.on_unheard(unheard, now),
            Event::ProbeHeld { ifindex } => self.round.begin_on(ifindex, now),
            Event::Restart { ifindex } => self.restart(now, |key, _| key.ifindex == ifindex),
            Event::Recognised { ifindex, mac } => {
                self.restart(now, |key, asked| key.ifindex == ifindex && asked.rests == Some(mac));
            }
            Event::NotSent(key) => {
                if let Some(asked) = self.asked.get_mut(&key) {
                    asked.sent = asked.sent.saturating_sub(1);
                }
            }
            Event::Unwatched(key) => {
                self.attempt(key, now + RETRY);
            }
            // Only a tick concludes an attempt: everything received until now has been passed on.
            Event::Tick => {
                self.fill(now);
                self.go_on(now, &mut commands);
            }
        }
        self.fill(now);
        commands
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        let waiting = self.waiting.first().map(|(due, _)| *due);
        // A due probe waits for the pace.
        let ready = self.ready.first().map(|(turn, ..)| self.opens(*turn));
        waiting.into_iter().chain(ready).min()
    }

    /// Returns the held VIPs to be probed now. `held` is the number of all held
    /// VIPs. `after` returns the held VIP after a given one, or the first.
    pub fn next_of_held(
        &mut self,
        held: usize,
        after: impl Fn(Option<VipKey>) -> Option<VipKey>,
        now: Monotonic,
    ) -> Vec<VipKey> {
        let Some(repeat) = self.settings.repeat else { return Vec::new() };
        self.round.go_on((repeat, held), after, &mut self.pace, now)
    }

    pub fn next_round(&self) -> Option<Monotonic> {
        self.settings.repeat.map(|_| self.round.next)
    }

    /// Starts to probe an address, or changes how often an address in use is probed.
    fn want(&mut self, key: VipKey, manner: Manner, now: Monotonic) {
        match self.asked.get_mut(&key) {
            Some(asked) => {
                let before = std::mem::replace(&mut asked.manner, manner);
                asked.manner.patient |= before.patient;
                if manner.often && !before.often && asked.rests.is_some() {
                    self.attempt(key, now);
                }
            }
            None => _ = self.queue.insert(key, manner),
        }
    }

    /// Records the late answer of a host that uses the address.
    fn on_late(&mut self, key: VipKey, who: (MacAddr, bool), now: Monotonic) -> Option<Command> {
        if !self.asked.contains_key(&key) {
            self.queue.remove(&key);
            self.new += 1;
            self.asked.insert(key, ProbedAddress::new(Manner { patient: true, ..Manner::OFTEN }, now));
        }
        let mut command = self.on_received(key, who, now);
        if let Some(Command::InUse { is_late, .. }) = &mut command {
            *is_late = true;
        }
        command
    }

    /// Begins anew with the addresses on interfaces where hosts are heard now.
    fn on_unheard(&mut self, unheard: BTreeMap<u32, Monotonic>, now: Monotonic) {
        let before = std::mem::replace(&mut self.unheard, unheard);
        for ifindex in
            before.into_keys().filter(|ifindex| !self.unheard.contains_key(ifindex)).collect::<Vec<_>>()
        {
            self.restart(now, |key, asked| key.ifindex == ifindex && asked.rests.is_none());
        }
    }

    fn forget(&mut self, key: VipKey) {
        self.queue.remove(&key);
        self.unschedule(key);
        if let Some(asked) = self.asked.remove(&key) {
            self.new -= usize::from(asked.conflicts == 0);
        }
    }

    fn unschedule(&mut self, key: VipKey) {
        if let Some(asked) = self.asked.get(&key) {
            self.waiting.remove(&(asked.due, key));
            self.ready.remove(&(asked.turn(), asked.due, key));
        }
    }

    /// Starts attempts for queued addresses.
    fn fill(&mut self, now: Monotonic) {
        while self.new < MOST_AT_ONCE
            && let Some((key, manner)) = self.queue.pop_first()
        {
            self.new += 1;
            self.asked.insert(key, ProbedAddress::new(manner, now));
            self.attempt(key, now);
        }
    }

    /// Starts an attempt, with the wait before its first probe.
    fn attempt(&mut self, key: VipKey, from: Monotonic) {
        let longest = match self.timing(key) {
            Timing::Every(interval) => interval / 2,
            Timing::Rfc5227 => PROBE_WAIT,
        };
        let longest = if self.settings.count == 0 { Duration::ZERO } else { longest };
        self.unschedule(key);
        let Some(asked) = self.asked.get_mut(&key) else { return };
        (asked.sent, asked.began) = (0, from);
        asked.rests = None;
        asked.due = from + between(Duration::ZERO, longest, chance(self.seed, key, asked.conflicts));
        self.waiting.insert((asked.due, key));
    }

    /// Returns the times of an address: those of RFC 5227 where no other host was heard.
    fn timing(&self, key: VipKey) -> Timing {
        if self.unheard.contains_key(&key.ifindex) { Timing::Rfc5227 } else { self.settings.timing }
    }

    fn pause(&self, key: VipKey, sent: u32, patient: bool) -> Duration {
        let is_last = sent >= self.settings.count;
        match self.timing(key) {
            Timing::Every(interval) if patient && is_last => interval.max(ANNOUNCE_WAIT),
            Timing::Every(interval) => interval,
            Timing::Rfc5227 if is_last => ANNOUNCE_WAIT,
            Timing::Rfc5227 => between(PROBE_MIN, PROBE_MAX, chance(self.seed, key, sent + 100)),
        }
    }

    fn on_received(
        &mut self,
        key: VipKey,
        (mac, by_peer): (MacAddr, bool),
        now: Monotonic,
    ) -> Option<Command> {
        self.asked.get(&key).filter(|asked| asked.rests.is_none())?;
        self.unschedule(key);
        let asked = self.asked.get_mut(&key)?;
        self.new -= usize::from(asked.conflicts == 0);
        let again = asked.rest(mac, now);
        self.waiting.insert((again, key));
        Some(Command::InUse { key, mac, by_peer, conflicts: asked.conflicts, again, is_late: false })
    }

    fn restart(&mut self, now: Monotonic, concerned: impl Fn(&VipKey, &ProbedAddress) -> bool) {
        let asked = self.asked.iter().filter(|(key, asked)| concerned(key, asked));
        for key in asked.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.attempt(key, now);
        }
    }

    fn go_on(&mut self, now: Monotonic, commands: &mut Vec<Command>) {
        while let Some((due, key)) = self.waiting.first().copied().filter(|(due, _)| *due <= now) {
            self.waiting.remove(&(due, key));
            let Some(asked) = self.asked.get(&key) else { continue };
            if asked.rests.is_some() {
                self.attempt(key, now);
            } else if asked.sent < self.settings.count {
                self.ready.insert((asked.turn(), due, key));
            } else if let Some((from, until)) = self.must_begin_again(key) {
                self.attempt(key, from.max(now));
                commands.push(Command::Unheard { key, until });
            } else {
                self.forget(key);
                commands.push(Command::Free(key));
                self.fill(now);
            }
        }
        while let Some((turn, _, key)) = self.ready.first().copied()
            && self.is_open(turn, now)
        {
            self.ready.pop_first();
            self.pace.take();
            if turn != Turn::New {
                self.pace_in_use.take();
            }
            let (sent, patient) =
                self.asked.get(&key).map_or((0, false), |asked| (asked.sent, asked.manner.patient));
            let sent = sent + 1;
            let next = now + self.pause(key, sent, patient);
            let Some(asked) = self.asked.get_mut(&key) else { continue };
            (asked.sent, asked.due) = (sent, next);
            self.waiting.insert((next, key));
            commands.push(Command::Send(key));
        }
    }

    /// Returns the time of the next attempt, if the silence of the last one proves nothing, and the
    /// time until which that is so.
    fn must_begin_again(&self, key: VipKey) -> Option<(Monotonic, Monotonic)> {
        let (until, asked) = (*self.unheard.get(&key.ifindex)?, self.asked.get(&key)?);
        let from = until.saturating_sub(Timing::Rfc5227.longest(self.settings.count));
        (self.settings.count > 0 && asked.began < from).then_some((from, until))
    }

    fn is_open(&mut self, turn: Turn, now: Monotonic) -> bool {
        self.pace.is_open(now) && (turn == Turn::New || self.pace_in_use.is_open(now))
    }

    /// Returns the time at which a probe may leave.
    fn opens(&self, turn: Turn) -> Monotonic {
        match turn {
            Turn::New => self.pace.next(),
            Turn::Begun | Turn::InUse => self.pace.next().max(self.pace_in_use.next()),
        }
    }
}
