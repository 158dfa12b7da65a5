//! Computes what the program must do with frames of wire failover, from the table of docs/internals/dataplane.md
//! alone. It shares no code with the program: it reads frames byte by byte, and its tags are the
//! standard library's.

#![expect(
    deprecated,
    reason = "the standard library's SipHash-2-4 is the one of this workspace that we did not write"
)]

use std::{
    collections::BTreeMap,
    hash::{Hasher as _, SipHasher},
};

use fastrand::Rng;

use super::{frame::without_tags, table::Cell, world::Mac};
use crate::oracle::kernel::Action;

/// The maps, and what the program has recorded in them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The tags of the segment, from outside: whether it is a service tag, and the VLAN ID.
    pub vlan: Vec<(bool, u16)>,
    /// The MAC of the segment's interface.
    pub own: Option<Mac>,
    /// The session; 0 for none.
    pub session: u64,
    /// The number as a monitor; 0 for none.
    pub wid: u64,
    /// The keys by number.
    pub keys: BTreeMap<u8, [u8; 16]>,
    /// The slots of peers by their sessions and their numbers as monitors.
    pub index: BTreeMap<u64, u32>,
    /// The times at which the newest answered ping was sent, of the last frame, and at which the peer sent
    /// its newest ping, by slot.
    pub seen: BTreeMap<u32, [u64; 3]>,
    pub ended: u64,
    /// The number of expiry notices.
    pub notices: u64,
}

/// A rule that a frame must keep to be accepted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// It begins with the magic number.
    Magic,
    /// It is whole.
    Length,
    /// It was sent to the interface.
    Destination,
    /// Its type is known.
    Type,
    /// It is for this node.
    Target,
    /// Its peer is known.
    Peer,
    /// Its key is known.
    Key,
    /// Its tag is right.
    Tag,
    /// It answers a ping of the past.
    Time,
    /// It is a newer ping, or answers one, than all before.
    New,
}

impl Rule {
    /// All rules, in the order in which they are checked. For an echo, the peer comes before the
    /// target.
    pub const ALL: [Self; 10] = [
        Self::Magic,
        Self::Length,
        Self::Destination,
        Self::Type,
        Self::Target,
        Self::Peer,
        Self::Key,
        Self::Tag,
        Self::Time,
        Self::New,
    ];
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expected {
    /// Return code.
    pub action: Action,
    pub bytes: Vec<u8>,
    /// The counter of `wire_counters` that rises. If there is none, `unrelated` of `counters` rises.
    pub counter: Option<&'static str>,
}

/// Returns the tag of the bytes before it.
fn tag(key: [u8; 16], bytes: &[u8]) -> [u8; 8] {
    let half = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| key[at + i]));
    let mut hasher = SipHasher::new_with_keys(half(0), half(8));
    hasher.write(bytes);
    hasher.finish().to_be_bytes()
}

/// Returns the number in the eight bytes at an offset of an untagged frame.
fn number(frame: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|i| frame[at + i]))
}

impl Node {
    /// Returns the expected result of a frame at a time, and records its facts. One rule may be left
    /// out, to check that this is noticed.
    pub fn step(&mut self, frame: &[u8], now_ns: u64, without: Option<Rule>) -> Expected {
        let unrelated = Expected { action: Action::Pass, bytes: frame.to_vec(), counter: None };
        let (vlan, mut bare, tags) = match without_tags(frame) {
            Ok(parts) => parts,
            Err(Cell::Unverified(_)) => return Expected { action: Action::Drop, ..unrelated },
            Err(_) => return unrelated,
        };
        let is_here = vlan == self.vlan;
        let checks = |rule| without != Some(rule);
        if bare[12..14] != [0x88, 0xb5] || !vlan.is_empty() && !is_here {
            return unrelated;
        }
        if bare.len() < 18 || checks(Rule::Magic) && bare[14..18] != *b"VPW1" {
            return unrelated;
        }
        let refused =
            |counter| Expected { action: Action::Drop, bytes: frame.to_vec(), counter: Some(counter) };
        if bare.len() < 70 {
            return if checks(Rule::Length) { refused("refused_length") } else { unrelated };
        }
        // The interface below a VLAN device has no address and no peers here.
        let own = self.own.filter(|_| is_here);
        if checks(Rule::Destination) && own.is_none_or(|own| bare[..6] != own) {
            return Expected { counter: Some("other_passed"), ..unrelated };
        }
        let (kind, key) = (bare[18], bare[19]);
        let [holder, wid, sent_ns] = [22, 30, 46].map(|at| number(&bare, at));
        let slot_of = |id| self.index.get(&id).copied().filter(|_| is_here);
        let is_own = |id, own| id != 0 && id == own;
        // Type, whether it is for this node, the peer, and whether the peer is checked first.
        let (is_target, peer, peer_first) = match kind {
            1 => (is_own(holder, self.session), Some(slot_of(wid)), false),
            2 => (is_own(wid, self.wid), Some(slot_of(holder)), true),
            4 | 5 => (true, Some(slot_of(holder)), false),
            8 => (holder != 0, None, false),
            _ if checks(Rule::Type) => return refused("refused_type"),
            _ => return unrelated,
        };
        let mut both =
            [(Rule::Target, is_target, "refused_target"), (Rule::Peer, peer != Some(None), "refused_peer")];
        if peer_first {
            both.reverse();
        }
        for (rule, is_met, counter) in both {
            if checks(rule) && !is_met {
                return refused(counter);
            }
        }
        let slot = peer.flatten().unwrap_or(0);
        let Some(key) = self.keys.get(&key).copied() else {
            return if checks(Rule::Key) { refused("refused_key") } else { unrelated };
        };
        if checks(Rule::Tag) && tag(key, &bare[14..62]) != bare[62..70] {
            return refused("refused_tag");
        }
        if kind == 2 && checks(Rule::Time) && sent_ns > now_ns {
            return refused("refused_time");
        }
        let [answered, received, pinged] = self.seen.entry(slot).or_default();
        let newest = if kind == 1 { pinged } else { answered };
        let is_new = !checks(Rule::New) || sent_ns > *newest;
        if matches!(kind, 1 | 2) && is_new {
            *newest = (*newest).max(sent_ns);
            *received = (*received).max(now_ns);
        }
        match kind {
            1 => {
                let counter = if is_new { "ping_answered" } else { "ping_repeated" };
                bare[..12].rotate_left(6);
                bare[18] = 2;
                bare[20..22].fill(0);
                bare[38..46].fill(0);
                bare[54..62].copy_from_slice(&now_ns.to_be_bytes());
                let tag = tag(key, &bare[14..62]);
                bare[62..70].copy_from_slice(&tag);
                bare.splice(12..12, tags);
                Expected { action: Action::Send, bytes: bare, counter: Some(counter) }
            }
            2 if is_new => refused("echo_received"),
            2 => refused("refused_repeated"),
            4 => Expected { counter: Some("vote_request_passed"), ..unrelated },
            5 => Expected { counter: Some("vote_passed"), ..unrelated },
            _ if !is_own(holder, self.session) => Expected { counter: Some("ended_passed"), ..unrelated },
            _ => {
                self.ended = holder;
                self.notices += 1;
                refused("ended_received")
            }
        }
    }

    /// Returns a node with peers and keys, in a VLAN or not.
    pub fn random(rng: &mut Rng) -> Self {
        let mut mac = [0; 6];
        rng.fill(&mut mac[1..]);
        let vlan = match rng.u8(..4) {
            0 => vec![(false, rng.u16(1..0x1000))],
            1 => vec![(true, rng.u16(1..0x1000)), (false, rng.u16(1..0x1000))],
            _ => Vec::new(),
        };
        let rarely = |rng: &mut Rng, other: u64| if rng.u8(..8) == 0 { 0 } else { other };
        let (session, wid) = (rng.u64(1..), rng.u64(1..));
        let keys = (0..rng.u8(1..=3)).map(|_| (rng.u8(1..), rng.u128(..).to_le_bytes()));
        // Two keys of one place: the later one counts.
        let keys: BTreeMap<u8, _> = keys.map(|(id, key)| (id % 4, (id, key))).collect();
        let index = (0..6).map(|_| (rng.u64(1..), rng.u32(..512))).collect();
        Self {
            vlan,
            own: (rng.u8(..8) != 0).then_some(mac),
            session: rarely(rng, session),
            wid: rarely(rng, wid),
            keys: keys.into_values().collect(),
            index,
            seen: BTreeMap::new(),
            ended: 0,
            notices: 0,
        }
    }

    /// Returns a random frame that aims at the rules. `now_ns` is about the time at which it will come.
    pub fn frame(&self, rng: &mut Rng, now_ns: u64) -> Vec<u8> {
        let usually = |rng: &mut Rng| rng.u8(..12) != 0;
        let peers: Vec<u64> = self.index.keys().copied().collect();
        let peer = |rng: &mut Rng| if usually(rng) { peers[rng.usize(..peers.len())] } else { rng.u64(..) };
        let own = |rng: &mut Rng, own: u64| if usually(rng) { own } else { [0, rng.u64(..)][rng.usize(..2)] };
        let kind = if usually(rng) { [1, 2, 4, 5, 8][rng.usize(..5)] } else { rng.u8(..10) };
        let (holder, wid) = match kind {
            1 | 8 => (own(rng, self.session), peer(rng)),
            2 => (peer(rng), own(rng, self.wid)),
            _ => (peer(rng), peer(rng)),
        };
        let keys: Vec<u8> = self.keys.keys().copied().collect();
        let key = if usually(rng) { keys[rng.usize(..keys.len())] } else { rng.u8(..) };
        let sent_ns = match rng.u8(..12) {
            0 => now_ns + (1 << 40),
            1 => rng.u64(..),
            _ => now_ns.saturating_sub(rng.u64(..1 << 32)),
        };
        let mut frame = if usually(rng) { self.own.unwrap_or([2; 6]) } else { [0xff; 6] }.to_vec();
        frame.extend([2, 0, 0, 0, 0, rng.u8(..)]);
        frame.extend([0x88, 0xb5]);
        frame.extend(if usually(rng) { *b"VPW1" } else { *b"VPW2" });
        frame.extend([kind, key, if usually(rng) { 0 } else { rng.u8(..) }, 0]);
        for field in [holder, wid, if usually(rng) { 0 } else { rng.u64(..) }, sent_ns, 0] {
            frame.extend(field.to_be_bytes());
        }
        let with = self.keys.get(&key).copied().unwrap_or([0; 16]);
        let mut tag = tag(with, &frame[14..]);
        if !usually(rng) {
            tag[rng.usize(..8)] ^= 1 << rng.u8(..8);
        }
        frame.extend(tag);
        match rng.u8(..16) {
            0 => frame.truncate(rng.usize(14..70)),
            1 => frame.extend([0; 20]),
            _ => {}
        }
        let vlan = if usually(rng) { self.vlan.clone() } else { vec![(false, rng.u16(..0x1000))] };
        for (is_service, id) in vlan.into_iter().rev() {
            let [high, low] = id.to_be_bytes();
            let ethertype = if is_service { [0x88, 0xa8] } else { [0x81, 0x00] };
            frame.splice(12..12, [ethertype[0], ethertype[1], high | rng.u8(..8) << 5, low]);
        }
        frame
    }
}
