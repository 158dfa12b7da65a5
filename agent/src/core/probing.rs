//! Whether an address is free: ARP Probes before a VIP is used for the first time (RFC 5227, 2.1), and, about once a minute,
//! for the VIPs that are held, since a rival that only answers is heard by nobody who does not ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use vipward_common::{MacAddr, VipKey};

use super::{
    pace::{Pace, around, between, chance},
    time::Monotonic,
};

#[cfg(test)]
mod tests;

/// RFC 5227, 1.1: longest wait before the first probe.
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// RFC 5227, 1.1: least time between two probes.
const PROBE_MIN: Duration = Duration::from_secs(1);
/// RFC 5227, 1.1: most time between two probes.
const PROBE_MAX: Duration = Duration::from_secs(2);
/// RFC 5227, 1.1: wait after the last probe.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// RFC 5227, 1.1: conflicts before attempts become rare.
const MAX_CONFLICTS: u32 = 10;
/// RFC 5227, 1.1: time between two attempts from then on.
const RATE_LIMIT_INTERVAL: Duration = Duration::from_mins(1);
/// Time between two attempts before.
const RETRY: Duration = Duration::from_secs(2);
/// VIPs that are asked about at a time: enough for the fastest pace, and no more to remember.
const MOST_AT_ONCE: usize = 4_096;
/// How far the time between two probes for a held VIP may be from the one that is set, in per cent, either way.
const JITTER_PER_CENT: u32 = 10;
/// Held VIPs are asked about in groups, so that an agent with very many does not wake for each.
const GROUP_EVERY: Duration = Duration::from_millis(100);

/// How addresses are probed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Probes before an address counts as free; none: it counts as free unasked.
    pub count: u32,
    /// The time between them.
    pub timing: Timing,
    /// The time between two probes for a VIP that is held; none: they are not sent.
    pub repeat: Option<Duration>,
    /// Frames a second over all VIPs, at most.
    pub rate: u32,
}

impl Settings {
    /// How long it takes at most to find an address free; none when nobody is asked.
    pub fn longest(&self) -> Option<Duration> {
        let count = self.count;
        (count > 0).then(|| match self.timing {
            Timing::Every(interval) => interval / 2 + interval * count,
            Timing::Rfc5227 => PROBE_WAIT + PROBE_MAX * (count - 1) + ANNOUNCE_WAIT,
        })
    }
}

/// When probes are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// After up to half the time the first, then one after each, and as long a wait after the last.
    Every(Duration),
    /// As RFC 5227, 2.1.1 has it: six to nine seconds in all.
    Rfc5227,
}

/// What the prober is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A VIP is to be used for the first time.
    Wanted(VipKey),
    /// It is not to be used any more, or is used.
    Forget(VipKey),
    /// Somebody claims the address, or probes for it (RFC 5227, 2.1.1).
    Heard {
        /// Which.
        key: VipKey,
        /// Who.
        mac: MacAddr,
    },
    /// The interface has carrier again, or another: what was asked on it may have reached nobody.
    Restart {
        /// Which.
        ifindex: u32,
    },
    /// A MAC is a peer's, as has been learnt: it is no stranger that was found to use an address.
    Recognised {
        /// The interface that it is seen through.
        ifindex: u32,
        /// The MAC.
        mac: MacAddr,
    },
    /// A probe could not be sent.
    NotSent(VipKey),
    /// Time has passed, and everything that was heard meanwhile has been told.
    Tick,
}

/// What is to be done, or has been found out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send one probe.
    Send(VipKey),
    /// Nobody uses the address.
    Free(VipKey),
    /// Somebody uses the address. It is asked about again by itself.
    InUse {
        /// Which.
        key: VipKey,
        /// Who: the first that was heard.
        mac: MacAddr,
        /// How often it has been found in use, this time included.
        conflicts: u32,
        /// When it is asked about again.
        again: Monotonic,
    },
}

/// An address that is being asked about.
#[derive(Debug)]
struct Asked {
    /// Probes sent in this attempt; after all of them, only the wait is left.
    sent: u32,
    /// Attempts that found it in use.
    conflicts: u32,
    due: Monotonic,
    /// Who was found to use it, while it waits for the next attempt.
    rests: Option<MacAddr>,
}

/// What is asked of all segments.
#[derive(Debug)]
pub struct Prober {
    settings: Settings,
    seed: u64,
    asked: BTreeMap<VipKey, Asked>,
    due: BTreeSet<(Monotonic, VipKey)>,
    /// Those that wait until fewer are asked about.
    queue: BTreeSet<VipKey>,
    /// How many of those asked about are not resting.
    active: usize,
    /// How many of these have been found in use before.
    retried: usize,
    pace: Pace,
    round: Round,
}

/// The round over the held VIPs.
#[derive(Debug)]
struct Round {
    /// The VIP that was asked about last.
    last: Option<VipKey>,
    next: Monotonic,
    number: u32,
}

impl Prober {
    /// Begins with nothing to ask. `seed` spreads what different agents send.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        let pace = Pace::new(settings.rate, now);
        let round = Round { last: None, next: now + settings.repeat.unwrap_or_default(), number: 0 };
        let (asked, due, queue) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { settings: *settings, seed, asked, due, queue, active: 0, retried: 0, pace, round }
    }

    /// Goes on with other settings.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        if self.settings.repeat != settings.repeat {
            self.round.next = now + settings.repeat.unwrap_or_default();
        }
        self.settings = *settings;
        self.pace.set(settings.rate);
    }

    /// Whether this address is being asked about.
    pub fn asks_about(&self, key: &VipKey) -> bool {
        self.asked.contains_key(key) || self.queue.contains(key)
    }

    /// Whether probes for this address are being sent now, or waited for: not while it rests until the next attempt.
    pub fn is_probing(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.rests.is_none())
    }

    /// The addresses that are being asked about.
    pub fn all_asked(&self) -> impl Iterator<Item = VipKey> {
        self.asked.keys().chain(&self.queue).copied()
    }

    /// Whether this address was found in use and has not been found free since.
    pub fn is_in_use(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.conflicts > 0)
    }

    /// How many addresses are asked about and have been found neither free nor in use, this time or before.
    pub fn undecided(&self) -> usize {
        self.active - self.retried + self.queue.len()
    }

    /// Takes note of `event`; returns what follows from it.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Wanted(key) if !self.asks_about(&key) => _ = self.queue.insert(key),
            Event::Forget(key) => self.forget(&key),
            Event::Heard { key, mac } => commands.extend(self.on_heard(key, mac, now)),
            Event::Restart { ifindex } => self.restart(now, |key, _| key.ifindex == ifindex),
            Event::Recognised { ifindex, mac } => {
                self.restart(now, |key, asked| key.ifindex == ifindex && asked.rests == Some(mac));
            }
            Event::NotSent(key) => {
                if let Some(asked) = self.asked.get_mut(&key) {
                    asked.sent = asked.sent.saturating_sub(1);
                }
            }
            Event::Wanted(_) => {}
            // Nothing else concludes: what was heard until now must have been told.
            Event::Tick => {
                self.fill(now);
                self.go_on(now, &mut commands);
            }
        }
        self.fill(now);
        commands
    }

    /// When [`Event::Tick`] is wanted.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let (due, _) = self.due.first()?;
        // What is due and not done waits for the pace.
        Some((*due).max(self.pace.next()))
    }

    /// The held VIPs that are to be probed now. `held` is their number, and `after` the one that follows another, or the first.
    pub fn next_of_held(
        &mut self,
        held: usize,
        after: impl Fn(Option<VipKey>) -> Option<VipKey>,
        now: Monotonic,
    ) -> Vec<VipKey> {
        let Some(repeat) = self.settings.repeat else { return Vec::new() };
        if self.round.next > now {
            return Vec::new();
        }
        let count = u32::try_from(held).unwrap_or(u32::MAX);
        if count == 0 {
            self.round.next = now + repeat;
            return Vec::new();
        }
        let each = repeat / count;
        let group =
            if each < GROUP_EVERY { GROUP_EVERY.as_nanos().div_ceil(each.as_nanos().max(1)) } else { 1 };
        let mut probed = Vec::new();
        for _ in 0..group.min(u128::from(count)) {
            if !self.pace.is_open(now) {
                break;
            }
            let Some(key) = after(self.round.last).or_else(|| after(None)) else { break };
            self.pace.take();
            self.round.last = Some(key);
            probed.push(key);
        }
        if probed.is_empty() {
            self.round.next = self.pace.next();
            return probed;
        }
        self.round.number = self.round.number.wrapping_add(1);
        let pause = each * u32::try_from(probed.len()).unwrap_or(u32::MAX);
        let key = VipKey::untagged(0, [0; 4]);
        let chance = chance(self.seed, key, self.round.number);
        self.round.next = now + around(pause, JITTER_PER_CENT, chance);
        probed
    }

    /// When [`Prober::next_of_held`] is wanted.
    pub fn next_round(&self) -> Option<Monotonic> {
        self.settings.repeat.map(|_| self.round.next)
    }

    fn forget(&mut self, key: &VipKey) {
        self.queue.remove(key);
        if let Some(asked) = self.asked.remove(key) {
            self.due.remove(&(asked.due, *key));
            self.active -= usize::from(asked.rests.is_none());
            self.retried -= usize::from(asked.rests.is_none() && asked.conflicts > 0);
        }
    }

    /// Begins with addresses that have waited.
    fn fill(&mut self, now: Monotonic) {
        while self.active < MOST_AT_ONCE
            && let Some(key) = self.queue.pop_first()
        {
            self.attempt(key, 0, now);
        }
    }

    /// A new attempt begins with the wait before the first probe.
    fn attempt(&mut self, key: VipKey, conflicts: u32, from: Monotonic) {
        let longest = match self.settings.timing {
            Timing::Every(interval) => interval / 2,
            Timing::Rfc5227 => PROBE_WAIT,
        };
        let longest = if self.settings.count == 0 { Duration::ZERO } else { longest };
        let due = from + between(Duration::ZERO, longest, chance(self.seed, key, conflicts));
        self.forget(&key);
        self.active += 1;
        self.retried += usize::from(conflicts > 0);
        self.asked.insert(key, Asked { sent: 0, conflicts, due, rests: None });
        self.due.insert((due, key));
    }

    /// The time to the next step after a probe was sent.
    fn pause(&self, key: VipKey, sent: u32) -> Duration {
        match self.settings.timing {
            Timing::Every(interval) => interval,
            Timing::Rfc5227 if sent >= self.settings.count => ANNOUNCE_WAIT,
            Timing::Rfc5227 => between(PROBE_MIN, PROBE_MAX, chance(self.seed, key, sent + 100)),
        }
    }

    fn on_heard(&mut self, key: VipKey, mac: MacAddr, now: Monotonic) -> Option<Command> {
        let asked = self.asked.get_mut(&key).filter(|asked| asked.rests.is_none())?;
        self.due.remove(&(asked.due, key));
        self.retried -= usize::from(asked.conflicts > 0);
        asked.conflicts += 1;
        asked.rests = Some(mac);
        self.active -= 1;
        let conflicts = asked.conflicts;
        let rest = if conflicts < MAX_CONFLICTS { RETRY } else { RATE_LIMIT_INTERVAL };
        let again = now + rest;
        asked.due = again;
        self.due.insert((again, key));
        Some(Command::InUse { key, mac, conflicts, again })
    }

    fn restart(&mut self, now: Monotonic, concerned: impl Fn(&VipKey, &Asked) -> bool) {
        let asked = self.asked.iter().filter(|(key, asked)| concerned(key, asked));
        let again: Vec<(VipKey, u32)> = asked.map(|(key, asked)| (*key, asked.conflicts)).collect();
        for (key, conflicts) in again {
            self.attempt(key, conflicts, now);
        }
    }

    fn go_on(&mut self, now: Monotonic, commands: &mut Vec<Command>) {
        while let Some((due, key)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            let Some(asked) = self.asked.get_mut(&key) else { break };
            if asked.rests.is_some() {
                let conflicts = asked.conflicts;
                self.attempt(key, conflicts, now);
                continue;
            }
            if asked.sent >= self.settings.count {
                self.forget(&key);
                commands.push(Command::Free(key));
                self.fill(now);
                continue;
            }
            if !self.pace.is_open(now) {
                break;
            }
            self.pace.take();
            asked.sent += 1;
            let sent = asked.sent;
            commands.push(Command::Send(key));
            let next = now + self.pause(key, sent);
            self.due.remove(&(due, key));
            self.due.insert((next, key));
            if let Some(asked) = self.asked.get_mut(&key) {
                asked.due = next;
            }
        }
    }
}
