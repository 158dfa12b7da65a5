//! Random worlds and frames that aim at the cells of the tables.

mod arp;
mod nd;

use std::{collections::BTreeMap, net::IpAddr};

use fastrand::Rng;

use super::{
    Protocol,
    world::{Addr, Defence, Entry, Mac, Role, World},
};

/// Number of VIPs of a family.
const VIPS: usize = 16;
const PEERS: usize = 3;
const BROADCAST: Mac = [0xff; 6];

/// Returns an address that an interface can have.
fn unicast(rng: &mut Rng) -> Mac {
    let mut mac: Mac = std::array::from_fn(|_| rng.u8(..));
    mac[0] = mac[0] & 0xfc | 0x02;
    mac
}

fn addr(rng: &mut Rng, protocol: Protocol) -> Addr {
    match protocol {
        Protocol::Arp => IpAddr::from(rng.u32(1..).to_be_bytes()),
        Protocol::Nd => {
            let mut addr = rng.u128(..).to_be_bytes();
            addr[0] = [0x20, 0xfd, 0xfe][rng.usize(..3)];
            IpAddr::from(addr)
        }
    }
}

/// Returns the bytes of an address.
fn bytes(addr: Addr) -> Vec<u8> {
    match addr {
        Addr::V4(addr) => addr.octets().to_vec(),
        Addr::V6(addr) => addr.octets().to_vec(),
    }
}

/// Returns an address whose filter bit is in the word of another's, or which has its solicited-node
/// group, or any.
fn near(rng: &mut Rng, addr: Addr, protocol: Protocol) -> Addr {
    match (addr, rng.u8(..4)) {
        (IpAddr::V4(addr), 0 | 1) => {
            let [a, b, c, _] = addr.octets();
            IpAddr::from([a, b, c, rng.u8(..)])
        }
        (IpAddr::V6(addr), 0) => {
            let mut addr = addr.octets();
            addr[15] = rng.u8(..);
            IpAddr::from(addr)
        }
        (IpAddr::V6(addr), 1) => {
            let mut addr = addr.octets();
            addr[7] = rng.u8(..);
            IpAddr::from(addr)
        }
        _ => self::addr(rng, protocol),
    }
}

fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| from[rng.usize(..from.len())])
}

impl World {
    /// Returns a random world.
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
    fn vips(&self, protocol: Protocol) -> impl Iterator<Item = (Addr, Entry)> {
        let entries = self.entries.iter().map(|(vip, entry)| (*vip, *entry));
        entries.filter(move |(vip, _)| vip.is_ipv6() == (protocol == Protocol::Nd))
    }

    /// Returns an address that is no VIP of the segment, as a rule.
    fn strange(&self, rng: &mut Rng, protocol: Protocol) -> Addr {
        let mut elsewhere = self.elsewhere.iter().map(|(vip, _)| *vip);
        match elsewhere.find(|vip| vip.is_ipv6() == (protocol == Protocol::Nd)) {
            Some(vip) if rng.u8(..8) == 0 => vip,
            _ => addr(rng, protocol),
        }
    }

    fn entry(&self, rng: &mut Rng, own: Mac, slot: u32) -> Entry {
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

/// Returns a random frame of either protocol, which mostly meets a cell.
pub fn frame(rng: &mut Rng, world: &World) -> Vec<u8> {
    let protocol = if rng.bool() { Protocol::Arp } else { Protocol::Nd };
    let aimed = aimed(rng, world, protocol);
    match rng.u8(..100) {
        0..82 => tagged(rng, &world.vlan, aimed),
        82..90 => {
            let tagged = tagged(rng, &world.vlan, aimed);
            mutated(rng, protocol, tagged)
        }
        90..93 => noise(rng),
        93..97 => {
            let other = if rng.bool() { Vec::new() } else { vlan(rng) };
            tagged(rng, &other, aimed)
        }
        _ => of_another_type(rng, protocol, aimed),
    }
}

fn aimed(rng: &mut Rng, world: &World, protocol: Protocol) -> Vec<u8> {
    let vips: Vec<_> = world.vips(protocol).collect();
    let aim = pick(rng, &vips).filter(|_| rng.u8(..20) != 0);
    let other = if rng.bool() { pick(rng, &vips).map(|(vip, _)| vip) } else { None };
    let other = other.filter(|_| aim.is_some()).unwrap_or_else(|| world.strange(rng, protocol));
    match protocol {
        Protocol::Arp => arp::aimed(rng, world, aim, other),
        Protocol::Nd => nd::aimed(rng, world, aim, other),
    }
}

fn mutated(rng: &mut Rng, protocol: Protocol, mut frame: Vec<u8>) -> Vec<u8> {
    let headers = match protocol {
        Protocol::Arp => 12..22,
        Protocol::Nd => 12..frame.len().min(62),
    };
    match rng.u8(..4) {
        0 => frame.truncate(rng.usize(14..=frame.len())),
        1 => frame[rng.usize(headers)] = rng.u8(..),
        2 => {
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(..frame.len());
                frame[at] ^= 1 << rng.u8(..8);
            }
        }
        _ => {
            let at = rng.usize(..frame.len());
            frame[at] = rng.u8(..);
        }
    }
    frame
}

fn noise(rng: &mut Rng) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..rng.usize(14..200)).map(|_| rng.u8(..)).collect();
    match rng.u8(..4) {
        0 | 1 => frame[12..14].copy_from_slice(&[8, 6]),
        2 if frame.len() > 55 => {
            frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            frame[20..22].copy_from_slice(&[58, 255]);
            frame[54..56].copy_from_slice(&[rng.u8(132..139), 0]);
        }
        _ => {}
    }
    frame
}

/// Returns the tags of a segment: of every other none.
fn vlan(rng: &mut Rng) -> Vec<(bool, u16)> {
    let tags = [0, 0, 1, 2][rng.usize(..4)];
    (0..tags).map(|_| (rng.bool(), rng.u16(1..4_095))).collect()
}

/// Adds the tags of a segment, and tags of VLAN 0 up to three in all. More than two are not read.
fn tagged(rng: &mut Rng, vlan: &[(bool, u16)], mut frame: Vec<u8>) -> Vec<u8> {
    let mut tags = vlan.to_vec();
    while tags.len() < 3 && rng.u8(..8) == 0 {
        tags.insert(rng.usize(..=tags.len()), (rng.bool(), 0));
    }
    for (service, id) in tags.into_iter().rev() {
        let [high, low] = (id | rng.u16(..16) << 12).to_be_bytes();
        let [first, second] = if service { [0x88, 0xa8] } else { [0x81, 0x00] };
        frame.splice(12..12, [first, second, high, low]);
    }
    frame
}

fn of_another_type(rng: &mut Rng, protocol: Protocol, mut frame: Vec<u8>) -> Vec<u8> {
    if protocol == Protocol::Nd {
        match rng.u8(..4) {
            0 | 1 => {
                nd::hide(rng, &mut frame);
                return frame;
            }
            2 => {
                nd::make_unrelated(rng, &mut frame);
                return frame;
            }
            _ => {}
        }
    }
    let other = [[0x08, 0x00], [0x86, 0xdd], [0x88, 0xcc], [0x80, 0x35]];
    frame[12..14].copy_from_slice(&other[rng.usize(..other.len())]);
    frame
}

/// Returns the sender of a claim.
fn claimant(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
    let sender = match rng.u8(..100) {
        0..25 => Some(entry.mac),
        25..30 => entry.record.map(|(mac, _)| mac),
        30..60 => pick(rng, &world.peers),
        60..70 => world.own,
        70..74 => Some([0; 6]),
        74..78 => Some(BROADCAST),
        78..82 => Some([0x01, 0, 0x5e, 0, 0, 0xfb]),
        82..86 => pick(rng, &world.peers_elsewhere),
        _ => None,
    };
    sender.unwrap_or_else(|| unicast(rng))
}

/// Returns the sender of a request.
fn asker(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
    let sender = match rng.u8(..100) {
        0..8 => Some(entry.mac),
        8..22 => world.own,
        22..33 => Some([0; 6]),
        33..38 => Some(BROADCAST),
        38..43 => Some([0x01, 0, 0x5e, 0, 0, 0xfb]),
        43..48 => pick(rng, &world.peers),
        _ => None,
    };
    sender.unwrap_or_else(|| unicast(rng))
}

/// Returns an Ethernet destination: that for `all`, or another.
fn destination(rng: &mut Rng, world: &World, entry: &Entry, all: Mac) -> Mac {
    match rng.u8(..20) {
        0..10 => all,
        10..14 => world.own.unwrap_or(all),
        14..17 => entry.mac,
        17 => [0x01, 0, 0x5e, 0, 0, 0xfb],
        _ => unicast(rng),
    }
}
