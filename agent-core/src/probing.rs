//! Schedule of ARP Probes, which find out if an address is free (RFC 5227, 2.1).
//!
//! An address is probed before its VIP is held for the first time. Held VIPs are probed about once
//! a minute: some rivals only answer requests, and only a host that asks hears them.

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

/// Longest wait before the first probe (RFC 5227, 1.1).
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// Least time between two probes (RFC 5227, 1.1).
const PROBE_MIN: Duration = Duration::from_secs(1);
/// Most time between two probes (RFC 5227, 1.1).
const PROBE_MAX: Duration = Duration::from_secs(2);
/// Wait after the last probe (RFC 5227, 1.1).
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);
/// Number of conflicts before attempts become rare (RFC 5227, 1.1).
const MAX_CONFLICTS: u32 = 10;
/// Time between two attempts after that number of conflicts (RFC 5227, 1.1).
const RATE_LIMIT_INTERVAL: Duration = Duration::from_mins(1);
/// Time between two attempts before that number of conflicts.
const RETRY: Duration = Duration::from_secs(2);
/// Largest number of addresses that are probed at a time. It is enough for the fastest pace.
const MOST_AT_ONCE: usize = 4_096;
/// Jitter of the time between two probes for a held VIP, in per cent, either way.
const JITTER_PER_CENT: u32 = 10;
/// Least time between two groups of probes for held VIPs. An agent with
/// very many VIPs does not wake for each of them.
const GROUP_EVERY: Duration = Duration::from_millis(100);

/// Settings of probing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Number of probes before an address counts as free; 0 turns them off.
    pub count: u32,
    /// Time between these probes.
    pub timing: Timing,
    /// Time between two probes for a held VIP; none turns them off.
    pub repeat: Option<Duration>,
    /// Most frames a second, over all VIPs.
    pub rate: u32,
}

impl Settings {
    /// Settings for three probes with a result within 700
    /// ms, and one probe a minute while a VIP is held.
    pub const DEFAULT: Self = Self {
        count: 3,
        timing: Timing::Every(Duration::from_millis(200)),
        repeat: Some(Duration::from_mins(1)),
        rate: 5_000,
    };

    /// Returns the longest time that it takes to find an address free,
    /// if the rate delays no probe. Returns none if probing is off.
    pub fn longest(&self) -> Option<Duration> {
        let count = self.count;
        (count > 0).then(|| match self.timing {
            Timing::Every(interval) => interval / 2 + interval * count,
            Timing::Rfc5227 => PROBE_WAIT + PROBE_MAX * (count - 1) + ANNOUNCE_WAIT,
        })
    }
}

/// Times of probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// The time between two probes, and from the last probe to
    /// the result. The first probe comes after up to half of it.
    Every(Duration),
    /// The times of RFC 5227, 2.1.1. Three probes take four to seven seconds in all.
    Rfc5227,
}

/// An input of the [`Prober`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node is about to hold a VIP for the first time.
    Wanted(VipKey),
    /// This node holds the VIP now, or no longer wants it.
    Forget(VipKey),
    /// A host claims the address, or probes for it (RFC 5227, 2.1.1).
    Heard {
        /// The VIP.
        key: VipKey,
        /// The sender's MAC.
        mac: MacAddr,
        /// True if the MAC is a peer's.
        by_peer: bool,
    },
    /// The interface has appeared, or has carrier again. Earlier probes may have reached no host.
    Restart {
        /// The interface.
        ifindex: u32,
    },
    /// A MAC turned out to be a peer's.
    Recognised {
        /// The interface that it is seen through.
        ifindex: u32,
        /// The MAC.
        mac: MacAddr,
    },
    /// A probe could not be sent.
    NotSent(VipKey),
    /// Time has passed, and everything that was heard meanwhile has been passed on.
    Tick,
}

/// The result of probing an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Probed {
    /// The address is free.
    Free,
    /// The address is in use.
    InUse {
        /// The MAC that uses it.
        mac: MacAddr,
        /// True if the MAC is a peer's.
        by_peer: bool,
    },
}

/// An action for the shell, or a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send one probe.
    Send(VipKey),
    /// No host uses the address.
    Free(VipKey),
    /// A host uses the address. The prober probes it again by itself.
    InUse {
        /// The VIP.
        key: VipKey,
        /// The MAC of the first host that was heard.
        mac: MacAddr,
        /// True if the MAC is a peer's.
        by_peer: bool,
        /// Number of attempts that found it in use.
        conflicts: u32,
        /// Time of the next attempt.
        again: Monotonic,
    },
}

/// An address that is being probed.
#[derive(Debug)]
struct Asked {
    /// Number of probes sent in this attempt. After the last one, only the wait is left.
    sent: u32,
    /// Number of attempts that found the address in use.
    conflicts: u32,
    due: Monotonic,
    /// The MAC that uses the address, while the address waits for the next attempt.
    rests: Option<MacAddr>,
}

/// The probing of all addresses.
#[derive(Debug)]
pub struct Prober {
    settings: Settings,
    seed: u64,
    asked: BTreeMap<VipKey, Asked>,
    due: BTreeSet<(Monotonic, VipKey)>,
    /// Addresses that wait until fewer are being probed.
    queue: BTreeSet<VipKey>,
    /// Number of addresses with an attempt under way.
    active: usize,
    /// Number of those addresses that were found in use before.
    retried: usize,
    pace: Pace,
    round: Round,
}

/// The round over the held VIPs.
#[derive(Debug)]
struct Round {
    /// The VIP that was probed last.
    last: Option<VipKey>,
    next: Monotonic,
    number: u32,
}

impl Prober {
    /// Starts with no address. `seed` spreads the probes of different agents.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        let pace = Pace::new(settings.rate, now);
        let round = Round { last: None, next: now + settings.repeat.unwrap_or_default(), number: 0 };
        let (asked, due, queue) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { settings: *settings, seed, asked, due, queue, active: 0, retried: 0, pace, round }
    }

    /// Applies other settings.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        if self.settings.repeat != settings.repeat {
            self.round.next = now + settings.repeat.unwrap_or_default();
        }
        self.settings = *settings;
        self.pace.set(settings.rate);
    }

    /// Returns true if this address is being probed, rests or is queued.
    pub fn asks_about(&self, key: &VipKey) -> bool {
        self.asked.contains_key(key) || self.queue.contains(key)
    }

    /// Returns true if an attempt for this address is under way. It rests between two attempts.
    pub fn is_probing(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.rests.is_none())
    }

    /// Returns the addresses that are being probed, rest or are queued.
    pub fn all_asked(&self) -> impl Iterator<Item = VipKey> {
        self.asked.keys().chain(&self.queue).copied()
    }

    /// Returns true if this address was found in use, and was not found free since.
    pub fn is_in_use(&self, key: &VipKey) -> bool {
        self.asked.get(key).is_some_and(|asked| asked.conflicts > 0)
    }

    /// Returns the number of addresses without any result yet.
    pub fn undecided(&self) -> usize {
        self.active - self.retried + self.queue.len()
    }

    /// Takes in `event`. Returns the commands and results.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Wanted(key) if !self.asks_about(&key) => _ = self.queue.insert(key),
            Event::Forget(key) => self.forget(&key),
            Event::Heard { key, mac, by_peer } => commands.extend(self.on_heard(key, (mac, by_peer), now)),
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
            // Only a tick concludes an attempt: everything heard until now has been passed on.
            Event::Tick => {
                self.fill(now);
                self.go_on(now, &mut commands);
            }
        }
        self.fill(now);
        commands
    }

    /// Returns the time of the next [`Event::Tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let (due, _) = self.due.first()?;
        // A due probe may have to wait for the pace.
        Some((*due).max(self.pace.next()))
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

    /// Returns the time of the next [`Prober::next_of_held`].
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

    /// Starts attempts for queued addresses.
    fn fill(&mut self, now: Monotonic) {
        while self.active < MOST_AT_ONCE
            && let Some(key) = self.queue.pop_first()
        {
            self.attempt(key, 0, now);
        }
    }

    /// Starts an attempt, with the wait before its first probe.
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

    /// Returns the time from a probe to the next step.
    fn pause(&self, key: VipKey, sent: u32) -> Duration {
        match self.settings.timing {
            Timing::Every(interval) => interval,
            Timing::Rfc5227 if sent >= self.settings.count => ANNOUNCE_WAIT,
            Timing::Rfc5227 => between(PROBE_MIN, PROBE_MAX, chance(self.seed, key, sent + 100)),
        }
    }

    fn on_heard(&mut self, key: VipKey, (mac, by_peer): (MacAddr, bool), now: Monotonic) -> Option<Command> {
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
        Some(Command::InUse { key, mac, by_peer, conflicts, again })
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
