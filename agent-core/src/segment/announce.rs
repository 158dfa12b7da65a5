//! Schedule of announcements. Each held VIP is announced at once, in some more rounds, and then in
//! refreshes.
//!
//! Due rounds leave as the pace over all VIPs allows: first rounds, those after a failover, then
//! defences, later rounds, and refreshes.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    ops::Bound,
    time::Duration,
};

use vipward_common::{MacAddr, VipKey};

use self::former::{Formers, ROUND_INTERVAL};
use crate::base::{
    pace::{Pace, around, chance},
    time::Monotonic,
};

mod former;
#[cfg(test)]
mod tests;

/// Rounds after an IPv4 VIP was taken, the first one included.
const ROUNDS: u8 = 6;
/// The same for IPv6: at most as many (RFC 4861, 7.2.6 and 10), at least a second apart.
const ROUNDS_V6: u8 = 3;
/// Least time between two announcements that defend an address (RFC 5227).
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
const FRAMES_PER_ROUND: u32 = 2;
/// Jitter of refreshes, in per cent of the period, either way.
const JITTER_PER_CENT: u32 = 8;
/// Longest time by which a refresh comes early, to leave with others. An
/// agent with very many VIPs does not wake for each of them.
const TOGETHER: Duration = Duration::from_secs(1);
/// The same as a part of the period. With the jitter it makes ten per cent.
const TOGETHER_PART: u32 = 50;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    pub refresh: Duration,
    /// Most frames a second, over all VIPs.
    pub rate: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// This node holds the VIP; its entry is written.
    Taken {
        key: VipKey,
        mac: MacAddr,
    },
    Released {
        key: VipKey,
    },
    /// The VIP was taken from a session that has ended, whose node may still answer. This follows
    /// [`Event::Taken`].
    Succeeded {
        key: VipKey,
        former: MacAddr,
    },
    MacChanged {
        key: VipKey,
        mac: MacAddr,
    },
    /// Another host claimed the VIP, which this node still holds.
    Challenged {
        key: VipKey,
    },
    /// The frames of the interface take another way from now on: switches and neighbours learn the way
    /// from one round for each VIP.
    FailedOver {
        ifindex: u32,
        /// The time at which the agent learned of it. A round that left later is enough.
        received: Monotonic,
    },
    CarrierLost {
        ifindex: u32,
    },
    CarrierReturned {
        ifindex: u32,
    },
    /// The interface and its VIPs are gone.
    InterfaceGone {
        ifindex: u32,
    },
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send one round. Send nothing if the maps show by then that this node does not hold the VIP.
    Send { key: VipKey, mac: MacAddr, round: Round },
    /// Send one announcement to a former holder alone. Send nothing if the maps show by then that this
    /// node does not hold the VIP.
    Repeat { key: VipKey, mac: MacAddr, former: MacAddr },
}

impl Command {
    pub const fn key(&self) -> VipKey {
        match self {
            Self::Send { key, .. } | Self::Repeat { key, .. } => *key,
        }
    }
}

/// Kind of an announcement. The smallest leaves first: the first round of each VIP, its repetitions for
/// the former holder, then those after a failover, then corrections of another host's claim, then repetitions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Round {
    /// A round after the VIP was taken, from 0.
    Taking(u8),
    /// A repetition of the first round for the former holder alone, from 0.
    Repeat(u8),
    Failover,
    Defence,
    Refresh,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taking(number) => write!(f, "taking {number}"),
            Self::Repeat(number) => write!(f, "repeat {number}"),
            Self::Failover => f.write_str("failover"),
            Self::Defence => f.write_str("defence"),
            Self::Refresh => f.write_str("refresh"),
        }
    }
}

impl Round {
    fn rank(self) -> (u8, u8) {
        match self {
            Self::Taking(0) => (0, 0),
            Self::Repeat(number) => (1, number),
            Self::Failover => (2, 0),
            Self::Defence => (3, 0),
            Self::Taking(number) => (4, number),
            Self::Refresh => (5, 0),
        }
    }
}

impl Ord for Round {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Round {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

struct Vip {
    mac: MacAddr,
    round: Round,
    due: Monotonic,
    /// Number of refreshes so far, for the jitter.
    refreshes: u32,
}

/// Defence state; a separate map, because few VIPs are challenged.
struct Defence {
    due: Option<Monotonic>,
    /// Earliest time of the next defence.
    not_before: Monotonic,
}

pub struct Announcer {
    settings: Settings,
    seed: u64,
    vips: BTreeMap<VipKey, Vip>,
    defences: BTreeMap<VipKey, Defence>,
    /// Rounds after failovers that have not left yet, with the times at which they were due.
    failovers: BTreeMap<VipKey, Monotonic>,
    /// Former holders that receive the first round again, with the next repetition and its time.
    formers: Formers,
    repeats: BTreeMap<VipKey, (Round, Monotonic)>,
    waiting: BTreeSet<(Monotonic, Round, VipKey)>,
    /// Due announcements, in the order in which they leave.
    ready: BTreeSet<(Round, Monotonic, VipKey)>,
    /// Interfaces without carrier. No announcement leaves there.
    silent: BTreeSet<u32>,
    pace: Pace,
}

impl Announcer {
    /// Starts with no VIP to announce. `seed` spreads the refreshes of different agents.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        Self {
            settings: *settings,
            seed,
            vips: BTreeMap::new(),
            defences: BTreeMap::new(),
            failovers: BTreeMap::new(),
            formers: Formers::default(),
            repeats: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
            silent: BTreeSet::new(),
            pace: Pace::new(settings.rate / FRAMES_PER_ROUND, now),
        }
    }

    /// Applies other settings, and spreads future refreshes anew.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        let changed = self.settings != *settings;
        self.settings = *settings;
        self.pace.set(settings.rate / FRAMES_PER_ROUND);
        if !changed {
            return;
        }
        let refreshing: Vec<VipKey> =
            self.vips.iter().filter(|(_, vip)| vip.round == Round::Refresh).map(|(key, _)| *key).collect();
        for key in refreshing {
            self.schedule_refresh(key, now);
        }
    }

    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        match event {
            Event::Taken { key, mac } | Event::MacChanged { key, mac } => self.begin(key, mac, now),
            Event::Succeeded { key, former } => self.repeat_for(key, former, now),
            Event::Released { key } => self.forget(key),
            Event::Challenged { key } => self.defend(key, now),
            Event::FailedOver { ifindex, received } => {
                for key in self.keys_on(ifindex) {
                    self.follow_failover(key, received, now);
                }
            }
            Event::CarrierLost { ifindex } => {
                self.silent.insert(ifindex);
                for key in self.keys_on(ifindex) {
                    self.unschedule(key);
                }
            }
            Event::CarrierReturned { ifindex } => {
                self.silent.remove(&ifindex);
                for key in self.keys_on(ifindex) {
                    let mac = self.vips[&key].mac;
                    self.begin(key, mac, now);
                }
            }
            Event::InterfaceGone { ifindex } => {
                self.silent.remove(&ifindex);
                for key in self.keys_on(ifindex) {
                    self.forget(key);
                }
            }
            Event::Tick => {}
        }
        self.send_what_is_due(now)
    }

    pub fn schedule_of_all(&self) -> impl Iterator<Item = (&VipKey, Round, Monotonic)> {
        self.vips.iter().map(|(key, vip)| (key, vip.round, vip.due))
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        let paced = self.ready.first().map(|(round, ..)| match round {
            Round::Taking(0) | Round::Repeat(_) | Round::Failover | Round::Defence => self.pace.next(),
            // The others leave in bursts, so that the agent does not wake for each of them.
            Round::Taking(_) | Round::Refresh => self.pace.next_burst(),
        });
        let waiting = self.waiting.first().map(|(due, ..)| *due);
        match (paced, waiting) {
            (Some(paced), Some(waiting)) => Some(paced.min(waiting)),
            (paced, waiting) => paced.or(waiting),
        }
    }

    pub fn count(&self) -> usize {
        self.vips.len()
    }

    pub fn count_on(&self, ifindex: u32) -> usize {
        self.keys_on(ifindex).len()
    }

    /// Returns the VIP after `key` and its MAC. Returns the first VIP if there is no key.
    pub fn after(&self, key: Option<VipKey>) -> Option<(VipKey, MacAddr)> {
        let first = (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.vips.range(first).next().map(|(key, vip)| (*key, vip.mac))
    }

    fn keys_on(&self, ifindex: u32) -> Vec<VipKey> {
        let first = VipKey::new(ifindex, [0; 4]);
        self.vips.range(first..).map(|(key, _)| *key).take_while(|key| key.ifindex == ifindex).collect()
    }

    fn begin(&mut self, key: VipKey, mac: MacAddr, now: Monotonic) {
        self.forget(key);
        let round = Round::Taking(0);
        self.vips.insert(key, Vip { mac, round, due: now, refreshes: 0 });
        self.schedule(key, Round::Taking(0), now);
    }

    /// Schedules a defence by RFC 5227, 2.4 (c): at once, then at most once per
    /// `DEFEND_INTERVAL` while claims come. A defence is one round.
    fn defend(&mut self, key: VipKey, now: Monotonic) {
        if self.silent.contains(&key.ifindex) || !self.vips.contains_key(&key) {
            return;
        }
        let defence = self.defences.entry(key).or_insert(Defence { due: None, not_before: now });
        if defence.due.is_some() {
            return;
        }
        let due = defence.not_before.max(now);
        defence.due = Some(due);
        self.waiting.insert((due, Round::Defence, key));
    }

    /// Schedules one round, unless the first round of the VIP is due or has left since `received`.
    /// The carrier's return announces every VIP of an interface without carrier.
    fn follow_failover(&mut self, key: VipKey, received: Monotonic, now: Monotonic) {
        let Some(vip) = self.vips.get(&key) else { return };
        let is_announced = match vip.round {
            Round::Taking(0) => true,
            // This round was scheduled when the one before left.
            Round::Taking(1) => vip.due >= received + ROUND_INTERVAL,
            Round::Taking(_) | Round::Repeat(_) | Round::Refresh | Round::Failover | Round::Defence => false,
        };
        if is_announced || self.silent.contains(&key.ifindex) || self.failovers.contains_key(&key) {
            return;
        }
        self.failovers.insert(key, now);
        self.waiting.insert((now, Round::Failover, key));
    }

    /// Repeats the first round of a VIP for its former holder. The round may have left already.
    fn repeat_for(&mut self, key: VipKey, former: MacAddr, now: Monotonic) {
        let Some(vip) = self.vips.get(&key) else { return };
        let is_announced = vip.round != Round::Taking(0);
        self.formers.begin(key, former);
        if is_announced {
            self.begin_repeats(key, now);
        }
    }

    fn begin_repeats(&mut self, key: VipKey, now: Monotonic) {
        let first = self.formers.on_announced(key, now);
        self.schedule_repeat(key, 0, first, now);
    }

    fn schedule_repeat(&mut self, key: VipKey, number: u8, due: Option<Monotonic>, now: Monotonic) {
        let Some(due) = due.filter(|_| !self.silent.contains(&key.ifindex)) else { return };
        let round = Round::Repeat(number);
        self.repeats.insert(key, (round, due));
        if due > now {
            self.waiting.insert((due, round, key));
        } else {
            self.ready.insert((round, due, key));
        }
    }

    fn forget(&mut self, key: VipKey) {
        self.unschedule(key);
        self.vips.remove(&key);
        self.defences.remove(&key);
    }

    fn unschedule(&mut self, key: VipKey) {
        let Some(vip) = self.vips.get(&key) else { return };
        let defence = self.defences.get_mut(&key).and_then(|defence| defence.due.take());
        let defence = defence.map(|due| (due, Round::Defence));
        let failover = self.failovers.remove(&key).map(|due| (due, Round::Failover));
        self.formers.end(key);
        let repeat = self.repeats.remove(&key).map(|(round, due)| (due, round));
        for (due, round) in [(vip.due, vip.round)].into_iter().chain(defence).chain(failover).chain(repeat) {
            self.waiting.remove(&(due, round, key));
            self.ready.remove(&(round, due, key));
        }
    }

    fn schedule(&mut self, key: VipKey, round: Round, due: Monotonic) {
        let Some(vip) = self.vips.get_mut(&key) else { return };
        self.waiting.remove(&(vip.due, vip.round, key));
        self.ready.remove(&(vip.round, vip.due, key));
        vip.round = round;
        vip.due = due;
        if !self.silent.contains(&key.ifindex) {
            self.waiting.insert((due, round, key));
        }
    }

    fn schedule_refresh(&mut self, key: VipKey, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&key) else { return };
        vip.refreshes = vip.refreshes.wrapping_add(1);
        let chance = chance(self.seed, key, vip.refreshes);
        let period = around(self.settings.refresh, JITTER_PER_CENT, chance);
        let together = TOGETHER.min(self.settings.refresh / TOGETHER_PART);
        self.schedule(key, Round::Refresh, (now + period).round_down(together));
    }

    fn send_what_is_due(&mut self, now: Monotonic) -> Vec<Command> {
        while let Some((due, round, key)) = self.waiting.first().copied().filter(|(due, ..)| *due <= now) {
            self.waiting.remove(&(due, round, key));
            self.ready.insert((round, due, key));
        }
        let mut commands = Vec::new();
        while self.pace.is_open(now) {
            let Some((round, _, key)) = self.ready.pop_first() else { break };
            let Some(vip) = self.vips.get(&key) else { continue };
            if let Round::Repeat(number) = round {
                let mac = vip.mac;
                commands.extend(self.repeat(key, mac, number, now));
                continue;
            }
            commands.push(Command::Send { key, mac: vip.mac, round });
            self.pace.take();
            if is_followed_by_probe(key, round) {
                self.pace.take();
            }
            if round == Round::Taking(0) {
                self.begin_repeats(key, now);
            }
            match round {
                Round::Repeat(_) => {}
                Round::Failover => {
                    self.failovers.remove(&key);
                }
                Round::Defence => {
                    self.defences.insert(key, Defence { due: None, not_before: now + DEFEND_INTERVAL });
                }
                Round::Taking(number) if number + 1 < rounds(key) => {
                    self.schedule(key, Round::Taking(number + 1), now + ROUND_INTERVAL);
                }
                Round::Taking(_) | Round::Refresh => self.schedule_refresh(key, now),
            }
        }
        commands
    }

    /// Repeats the first round of a VIP for its former holder, unless it is too late.
    fn repeat(&mut self, key: VipKey, mac: MacAddr, number: u8, now: Monotonic) -> Option<Command> {
        self.repeats.remove(&key);
        let (former, next) = self.formers.take(key, number, now);
        self.schedule_repeat(key, number + 1, next, now);
        let former = former?;
        self.pace.take();
        Some(Command::Repeat { key, mac, former })
    }
}

/// Returns true if one probe leaves after the round. From it, switches that bind IPv6 addresses to
/// ports learn the new port (RFC 6620). A former holder that still answers has received the announcement
/// by then, and does not answer the probe: its answer would go to all hosts.
pub fn is_followed_by_probe(key: VipKey, round: Round) -> bool {
    round == Round::Taking(0) && key.addr.is_ipv6()
}

const fn rounds(key: VipKey) -> u8 {
    match key.addr {
        IpAddr::V4(_) => ROUNDS,
        IpAddr::V6(_) => ROUNDS_V6,
    }
}
