//! When each held VIP is announced: at once, five more rounds, then refreshes, paced over all VIPs.
//!
//! A round is due at a time; what is due leaves as the pace allows, first rounds before later ones before refreshes.
//! Linux ignores some announcements within a second of the last change (its lock time), hence the spacing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use vipward_common::{MacAddr, VipKey};

use super::time::Monotonic;

#[cfg(test)]
mod tests;

/// Rounds after a VIP was taken, the first one included.
const ROUNDS: u8 = 6;
/// Least time between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(1_100);
/// RFC 5227: least time between two announcements that defend an address.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Frames of one round: a request and a reply.
const FRAMES_PER_ROUND: u32 = 2;
/// How far a refresh may be from its period, in per cent, either way.
const JITTER_PER_CENT: u64 = 10;
/// How much may leave at once after a silence.
const BURST: Duration = Duration::from_millis(5);

/// How VIPs are announced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Time between two refreshes of a VIP.
    pub refresh: Duration,
    /// Frames a second over all VIPs, at most.
    pub rate: u32,
}

/// What the schedule is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The VIP is held now; its entry is written.
    Taken {
        /// Which.
        key: VipKey,
        /// Where it is.
        mac: MacAddr,
    },
    /// The VIP is held no more.
    Released {
        /// Which.
        key: VipKey,
    },
    /// The VIP is at another MAC now.
    MacChanged {
        /// Which.
        key: VipKey,
        /// Where it is.
        mac: MacAddr,
    },
    /// A peer claimed the VIP, which is held still.
    Contested {
        /// Which.
        key: VipKey,
    },
    /// The interface has no carrier.
    CarrierLost {
        /// Which.
        ifindex: u32,
    },
    /// The interface has carrier again.
    CarrierReturned {
        /// Which.
        ifindex: u32,
    },
    /// The interface is gone, and with it its VIPs.
    InterfaceGone {
        /// Which.
        ifindex: u32,
    },
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Send one round; whether the VIP is still ours is checked directly before.
    Send {
        /// Which VIP.
        key: VipKey,
        /// Where it is.
        mac: MacAddr,
        /// Which round.
        round: Round,
    },
}

/// Which announcement it is. Earlier ones go first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Round {
    /// One that a peer's claim asked for.
    Defence,
    /// One of the rounds after the VIP was taken, from 0.
    Taking(u8),
    /// A later one.
    Refresh,
}

struct Vip {
    mac: MacAddr,
    round: Round,
    due: Monotonic,
    /// No defence before this: the last round is too near, or the last defence.
    defended_until: Monotonic,
    /// How many refreshes there were, for the jitter.
    refreshes: u32,
}

/// The schedule of all VIPs.
pub struct Announcer {
    settings: Settings,
    seed: u64,
    vips: BTreeMap<VipKey, Vip>,
    /// What is not due yet, by time.
    waiting: BTreeSet<(Monotonic, VipKey)>,
    /// What is due, in the order in which it leaves.
    ready: BTreeSet<(Round, Monotonic, VipKey)>,
    /// Interfaces without carrier: nothing is announced there.
    silent: BTreeSet<u32>,
    /// When the pace allows the next round; it may lie in the past by [`BURST`] at most.
    next_slot: Monotonic,
}

impl Announcer {
    /// Begins with nothing to announce. `seed` spreads the refreshes of different agents.
    pub fn start(settings: &Settings, seed: u64, now: Monotonic) -> Self {
        Self {
            settings: *settings,
            seed,
            vips: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
            silent: BTreeSet::new(),
            next_slot: now,
        }
    }

    /// Goes on with other settings; refreshes that are waiting are spread anew.
    pub fn configure(&mut self, settings: &Settings, now: Monotonic) {
        let changed = self.settings != *settings;
        self.settings = *settings;
        if !changed {
            return;
        }
        let refreshing: Vec<VipKey> =
            self.vips.iter().filter(|(_, vip)| vip.round == Round::Refresh).map(|(key, _)| *key).collect();
        for key in refreshing {
            self.schedule_refresh(key, now);
        }
    }

    /// Takes note of `event`; returns what leaves now.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        match event {
            Event::Taken { key, mac } | Event::MacChanged { key, mac } => self.begin(key, mac, now),
            Event::Released { key } => self.forget(&key),
            Event::Contested { key } => self.defend(key, now),
            Event::CarrierLost { ifindex } => {
                self.silent.insert(ifindex);
                for key in self.keys_on(ifindex) {
                    self.unschedule(&key);
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
                    self.forget(&key);
                }
            }
            Event::Tick => {}
        }
        self.send_what_is_due(now)
    }

    /// When [`Event::Tick`] is wanted.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let paced = (!self.ready.is_empty()).then_some(self.next_slot);
        let waiting = self.waiting.first().map(|(due, _)| *due);
        match (paced, waiting) {
            (Some(paced), Some(waiting)) => Some(paced.min(waiting)),
            (paced, waiting) => paced.or(waiting),
        }
    }

    fn keys_on(&self, ifindex: u32) -> Vec<VipKey> {
        let first = VipKey { ifindex, vlan: 0, _pad: 0, addr: [0; 4] };
        self.vips.range(first..).map(|(key, _)| *key).take_while(|key| key.ifindex == ifindex).collect()
    }

    fn begin(&mut self, key: VipKey, mac: MacAddr, now: Monotonic) {
        self.forget(&key);
        self.vips
            .insert(key, Vip { mac, round: Round::Taking(0), due: now, defended_until: now, refreshes: 0 });
        self.schedule(key, Round::Taking(0), now);
    }

    /// Claims may come ten times a second: the rounds under way are an answer too, and one defence is one round.
    fn defend(&mut self, key: VipKey, now: Monotonic) {
        let Some(vip) = self.vips.get(&key) else { return };
        let due = vip.defended_until.max(now);
        match vip.round {
            Round::Refresh if due < vip.due => self.schedule(key, Round::Defence, due),
            Round::Refresh | Round::Taking(_) | Round::Defence => {}
        }
    }

    fn forget(&mut self, key: &VipKey) {
        self.unschedule(key);
        self.vips.remove(key);
    }

    fn unschedule(&mut self, key: &VipKey) {
        if let Some(vip) = self.vips.get(key) {
            self.waiting.remove(&(vip.due, *key));
            self.ready.remove(&(vip.round, vip.due, *key));
        }
    }

    fn schedule(&mut self, key: VipKey, round: Round, due: Monotonic) {
        self.unschedule(&key);
        let Some(vip) = self.vips.get_mut(&key) else { return };
        vip.round = round;
        vip.due = due;
        if !self.silent.contains(&key.ifindex) {
            self.waiting.insert((due, key));
        }
    }

    fn schedule_refresh(&mut self, key: VipKey, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&key) else { return };
        vip.refreshes = vip.refreshes.wrapping_add(1);
        let period = jittered(self.settings.refresh, self.seed, key, vip.refreshes);
        self.schedule(key, Round::Refresh, now + period);
    }

    fn send_what_is_due(&mut self, now: Monotonic) -> Vec<Command> {
        while let Some((due, key)) = self.waiting.first().copied().filter(|(due, _)| *due <= now) {
            self.waiting.remove(&(due, key));
            if let Some(vip) = self.vips.get(&key) {
                self.ready.insert((vip.round, due, key));
            }
        }
        if self.next_slot.saturating_since(now).is_zero() && now.saturating_since(self.next_slot) > BURST {
            self.next_slot = now.saturating_sub(BURST);
        }
        let slot = slot(self.settings.rate);
        let mut commands = Vec::new();
        while self.next_slot <= now {
            let Some((round, _, key)) = self.ready.pop_first() else { break };
            let Some(vip) = self.vips.get_mut(&key) else { continue };
            let pause = if round == Round::Defence { DEFEND_INTERVAL } else { ROUND_INTERVAL };
            vip.defended_until = vip.defended_until.max(now + pause);
            commands.push(Command::Send { key, mac: vip.mac, round });
            self.next_slot = self.next_slot + slot;
            match round {
                Round::Taking(number) if number + 1 < ROUNDS => {
                    self.schedule(key, Round::Taking(number + 1), now + ROUND_INTERVAL);
                }
                Round::Taking(_) | Round::Refresh | Round::Defence => self.schedule_refresh(key, now),
            }
        }
        commands
    }
}

/// The time that one round takes up: so much that no second has more than `rate` frames, even one that begins with a
/// burst.
fn slot(rate: u32) -> Duration {
    let rounds = (rate / FRAMES_PER_ROUND).max(1);
    (Duration::from_secs(1) + BURST) / rounds + Duration::from_nanos(1)
}

/// The period, longer or shorter by up to [`JITTER_PER_CENT`]; the same for the same arguments.
fn jittered(period: Duration, seed: u64, key: VipKey, number: u32) -> Duration {
    let [a, b, c, d] = key.addr;
    let key = u64::from(u32::from_be_bytes([a, b, c, d])) | u64::from(key.ifindex) << 32;
    // SplitMix64's finisher: neighbouring VIPs must not be refreshed together.
    let mut mixed = seed.wrapping_add(u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let nanos = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    let spread = nanos / 100 * JITTER_PER_CENT;
    Duration::from_nanos(nanos - spread + mixed % (2 * spread).max(1))
}
