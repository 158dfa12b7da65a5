//! VIPs that a standalone peer holds too: which of the two hosts yields.
//!
//! Two hosts that have each other in `peers:` hold one VIP after each took it without the other's
//! answers: a switch between them was down, or a machine was paused. The younger hold yields. The hosts
//! share no clock, so each states to each peer the ages of its holds every `EVERY`.
//!
//! |the peer's age, less this host's|this host|
//! |---|---|
//! |more than `TIE`|yields|
//! |within `TIE`|yields if its MAC is the higher one|
//! |less|keeps the VIP|
//!
//! An age is older when it arrives than when it was sent. So a host may find the peer's hold younger than
//! it is, and never older: at no time do both yield. A VIP with `force` never yields, and states an
//! age above all others.
//!
//! A statement alone moves nothing: the peer's program must have claimed the VIP by ARP or Neighbour
//! Discovery too, within `FRESH`. A peer that states no ages never makes this host yield.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{MacAddr, VipKey};

pub use self::age::{Age, Hold};
use crate::base::time::Monotonic;

mod age;
pub mod statement;
#[cfg(test)]
mod tests;

/// Time between two statements of a hold.
const EVERY: Duration = Duration::from_secs(2);
/// Time for which a statement or a claim of a peer counts.
const FRESH: Duration = Duration::from_secs(5);
/// Least time between two requests for one VIP, and between two rounds of statements.
const LEAST: Duration = Duration::from_secs(1);
/// Difference of two ages that counts as none. Hosts that begin together differ by less, and then the
/// way of a frame does not decide.
const TIE: Duration = Duration::from_secs(1);
/// The most statements that leave at once. A receiver must not lose some.
const BURST: usize = 32;
/// Time between two bursts.
const PAUSE: Duration = Duration::from_millis(200);

/// A VIP of this host that is to yield.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Yield {
    pub key: VipKey,
    /// The peer that keeps it.
    pub to: MacAddr,
    pub own: Age,
    pub other: Age,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// State these holds to a peer, as far as the maps state by then that this host has them.
    State {
        ifindex: u32,
        to: MacAddr,
        holds: Vec<Hold>,
    },
    /// Request a held VIP, which a peer states to hold too.
    Ask(VipKey),
    Yield(Yield),
}

/// This host's part in a segment, as an input is judged by.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// The peers of the file. In a cluster, the claims decide, and there are none.
    pub peers: &'a [MacAddr],
    pub is_forced: &'a dyn Fn(IpAddr) -> bool,
    /// Returns the MAC of an interface that has carrier.
    pub mac_of: &'a dyn Fn(u32) -> Option<MacAddr>,
    pub now: Monotonic,
}

/// A peer that may hold one of this host's VIPs.
#[derive(Clone, Copy, Debug, Default)]
struct Rival {
    stated: Option<(Age, Monotonic)>,
    claimed: Option<Monotonic>,
    asked: Option<Monotonic>,
}

#[derive(Debug, Default)]
pub struct Rivals {
    /// The held VIPs, with the times at which the holds began.
    held: BTreeMap<VipKey, Monotonic>,
    known: BTreeMap<(VipKey, MacAddr), Rival>,
    /// The statements of this round that have not left yet.
    left: VecDeque<(u32, MacAddr, Vec<IpAddr>)>,
    /// The beginning of the last round.
    began: Option<Monotonic>,
    due: Option<Monotonic>,
}

impl Rivals {
    pub fn on_taken(&mut self, key: VipKey, now: Monotonic) {
        self.held.insert(key, now);
        self.due.get_or_insert(now + LEAST);
    }

    /// Records that the peers may be others now.
    pub fn on_configured(&mut self, now: Monotonic) {
        if !self.held.is_empty() {
            self.due.get_or_insert(now);
        }
    }

    pub fn on_released(&mut self, key: VipKey) {
        self.held.remove(&key);
        self.known.retain(|(of, _), _| *of != key);
    }

    /// Handles a statement. `from` is its Ethernet source.
    pub fn on_stated(
        &mut self,
        (ifindex, from): (u32, MacAddr),
        holds: &[Hold],
        host: &Host<'_>,
    ) -> Vec<Command> {
        let mut commands = Vec::new();
        if !host.peers.contains(&from) {
            return commands;
        }
        for (vip, age) in holds {
            let key = VipKey::new(ifindex, *vip);
            if !self.held.contains_key(&key) {
                continue;
            }
            let rival = self.known.entry((key, from)).or_default();
            rival.stated = Some((*age, host.now));
            let is_claimed = rival.claimed.is_some_and(|at| host.now < at + FRESH);
            if !is_claimed && rival.asked.is_none_or(|at| at + LEAST <= host.now) {
                rival.asked = Some(host.now);
                commands.push(Command::Ask(key));
            }
            commands.extend(self.judge(key, from, host));
        }
        commands
    }

    /// Handles a claim on a held VIP, by ARP or Neighbour Discovery, whose Ethernet source is the sender.
    pub fn on_claimed(&mut self, key: VipKey, mac: MacAddr, host: &Host<'_>) -> Option<Command> {
        if !host.peers.contains(&mac) || !self.held.contains_key(&key) {
            return None;
        }
        self.known.entry((key, mac)).or_default().claimed = Some(host.now);
        // The peer is to know the age soon, too.
        let soon = self.began.map_or(host.now, |began| host.now.max(began + LEAST));
        self.due = self.due.map(|due| due.min(soon));
        self.judge(key, mac, host)
    }

    /// Returns the statements that are due.
    pub fn on_tick(&mut self, host: &Host<'_>) -> Vec<Command> {
        let now = host.now;
        if self.due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        if self.held.is_empty() || host.peers.is_empty() {
            (self.due, self.left) = (None, VecDeque::new());
            return Vec::new();
        }
        if self.left.is_empty() {
            self.begin(host);
        }
        let held = &self.held;
        let number = self.left.len().min(BURST);
        let statement = |(ifindex, to, vips): (u32, MacAddr, Vec<IpAddr>)| {
            let hold = |vip: IpAddr| {
                let began = held.get(&VipKey::new(ifindex, vip))?;
                let age = Age::of(now.saturating_since(*began));
                Some((vip, if (host.is_forced)(vip) { Age::FORCED } else { age }))
            };
            Command::State { ifindex, to, holds: vips.into_iter().filter_map(hold).collect() }
        };
        let commands = self.left.drain(..number).map(statement).collect();
        let next = self.began.map_or(now, |began| began + EVERY);
        self.due = if self.left.is_empty() { Some(next.max(now + PAUSE)) } else { Some(now + PAUSE) };
        commands
    }

    /// Returns the time of the next statements.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.due
    }

    fn begin(&mut self, host: &Host<'_>) {
        self.began = Some(host.now);
        let is_fresh = |at: Monotonic| host.now < at + FRESH;
        self.known.retain(|_, rival| {
            rival.claimed.is_some_and(is_fresh) || rival.stated.is_some_and(|(_, at)| is_fresh(at))
        });
        let segments: BTreeSet<u32> = self.held.keys().map(|key| key.ifindex).collect();
        for ifindex in segments.into_iter().filter(|ifindex| (host.mac_of)(*ifindex).is_some()) {
            let vips: Vec<_> =
                self.held.keys().filter(|key| key.ifindex == ifindex).map(|key| key.addr).collect();
            for part in vips.chunks(statement::MOST_HOLDS) {
                self.left.extend(host.peers.iter().map(|peer| (ifindex, *peer, part.to_vec())));
            }
        }
    }

    /// Returns the command to yield a VIP, if this host is to yield it to the peer now.
    fn judge(&self, key: VipKey, mac: MacAddr, host: &Host<'_>) -> Option<Command> {
        let Rival { stated, claimed, .. } = *self.known.get(&(key, mac))?;
        let is_fresh = |at: Monotonic| host.now < at + FRESH;
        let (age, at) = stated.filter(|(_, at)| is_fresh(*at))?;
        claimed.filter(|at| is_fresh(*at))?;
        if (host.is_forced)(key.addr) {
            return None;
        }
        let own = Age::of(host.now.saturating_since(*self.held.get(&key)?));
        let other = age.after(host.now.saturating_since(at));
        let is_tie = own.0.abs_diff(other.0) <= Age::of(TIE).0 && other != Age::FORCED;
        let yields = if is_tie { (host.mac_of)(key.ifindex)? > mac } else { other > own };
        yields.then_some(Command::Yield(Yield { key, to: mac, own, other }))
    }
}
