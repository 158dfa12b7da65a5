//! Random contents of the maps.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::addresses::{addr, near, pick, unicast};
use crate::oracle::world::{Addr, Defence, Entry, Mac, Protocol, Role, World};

/// Number of VIPs of a family.
const VIPS: usize = 16;
const PEERS: usize = 3;

impl World {
    pub fn random(rng: &mut Rng) -> Self {
        let own = unicast(rng);
        let peers: Vec<Mac> = (0..PEERS).map(|_| unicast(rng)).collect();
        let yields = rng.u64(..100);
        let settled = if rng.bool() { yields } else { rng.u64(..=yields) };
        let mut slots: Vec<u32> = (0..4 * VIPS).map(|_| rng.u32(..8_192)).collect();
        slots.sort_unstable();
        slots.dedup();
        rng.shuffle(&mut slots);
        let mut world = Self {
            deadline_passed: rng.u8(..4) != 0,
            hold_passed: rng.u8(..3) == 0,
            hold: rng.u8(..4) != 0,
            defence: if rng.u8(..4) == 0 { Defence::Off } else { Defence::Match },
            vlan: vlan(rng),
            own: (rng.u8(..8) != 0).then_some(own),
            peers_elsewhere: vec![unicast(rng)],
            peers,
            entries: BTreeMap::new(),
            elsewhere: Vec::new(),
            yields,
            settled,
        };
        for protocol in [Protocol::Arp, Protocol::Nd] {
            let net = addr(rng, protocol);
            for _ in 0..VIPS {
                let Some(slot) = slots.pop() else { break };
                let (vip, entry) = (near(rng, net, protocol), world.entry(rng, own, slot));
                match rng.u8(..8) {
                    0 => world.elsewhere.push((vip, entry)),
                    _ => drop(world.entries.entry(vip).or_insert(entry)),
                }
            }
            // The same VIP is foreign on the node's other interfaces.
            let first = world.vips(protocol).next();
            if let Some((vip, _)) = first
                && let Some(slot) = slots.pop()
            {
                let entry = world.entry(rng, own, slot);
                world.elsewhere.push((vip, entry));
            }
        }
        world.elsewhere.sort_by_key(|(vip, _)| *vip);
        world.elsewhere.dedup_by_key(|(vip, _)| *vip);
        world
    }

    /// Returns the VIPs of a protocol's family on the segment.
    pub(super) fn vips(&self, protocol: Protocol) -> impl Iterator<Item = (Addr, Entry)> {
        let entries = self.entries.iter().map(|(vip, entry)| (*vip, *entry));
        entries.filter(move |(vip, _)| vip.is_ipv6() == (protocol == Protocol::Nd))
    }

    /// Returns an address that is no VIP of the segment, as a rule.
    pub(super) fn strange(&self, rng: &mut Rng, protocol: Protocol) -> Addr {
        let mut elsewhere = self.elsewhere.iter().map(|(vip, _)| *vip);
        match elsewhere.find(|vip| vip.is_ipv6() == (protocol == Protocol::Nd)) {
            Some(vip) if rng.u8(..8) == 0 => vip,
            _ => addr(rng, protocol),
        }
    }

    pub(super) fn entry(&self, rng: &mut Rng, own: Mac, slot: u32) -> Entry {
        let role = [Role::Held, Role::Held, Role::Handover, Role::Handover, Role::Foreign][rng.usize(..5)];
        let successor = pick(rng, &self.peers).filter(|_| rng.bool());
        let other = successor.unwrap_or_else(|| unicast(rng));
        let mac = match role {
            Role::Held if rng.u8(..8) == 0 => unicast(rng),
            Role::Held => own,
            Role::Foreign if rng.bool() => [0; 6],
            Role::Foreign | Role::Handover => other,
        };
        let generation = rng.u16(1..);
        let record = match rng.u8(..8) {
            // Settled yields have been written into their entries, so
            // no record has the entry's generation.
            0 if self.yields != self.settled => Some((unicast(rng), generation)),
            1 => Some((unicast(rng), generation.wrapping_add(1).max(1))),
            _ => None,
        };
        let record = record.filter(|(_, recorded)| *recorded != generation || self.yields != self.settled);
        Entry { role, mac, ended: rng.u8(..6) == 0, generation, slot, record }
    }
}

/// Returns the tags of a segment: of every other none.
pub(super) fn vlan(rng: &mut Rng) -> Vec<(bool, u16)> {
    let tags = [0, 0, 1, 2][rng.usize(..4)];
    (0..tags).map(|_| (rng.bool(), rng.u16(1..4_095))).collect()
}
