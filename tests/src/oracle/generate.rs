//! Random worlds and frames that aim at the cells of the tables.

use fastrand::Rng;

use super::world::{Addr, Defence, Entry, Mac, Role, World};

const VIPS: usize = 24;
const PEERS: usize = 3;
const BROADCAST: Mac = [0xff; 6];

/// Returns an address that an interface can have.
fn unicast(rng: &mut Rng) -> Mac {
    let mut mac: Mac = std::array::from_fn(|_| rng.u8(..));
    mac[0] = mac[0] & 0xfc | 0x02;
    mac
}

fn addr(rng: &mut Rng) -> Addr {
    rng.u32(1..).to_be_bytes()
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
        let mut slots: Vec<u32> = (0..2 * VIPS).map(|_| rng.u32(..8_192)).collect();
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
            entries: std::collections::BTreeMap::new(),
            elsewhere: Vec::new(),
            yields,
            settled,
        };
        let net = addr(rng);
        for _ in 0..VIPS {
            let Some(slot) = slots.pop() else { break };
            // Neighbours share words of the filter. Others do not.
            let vip = if rng.bool() { [net[0], net[1], net[2], rng.u8(..)] } else { addr(rng) };
            let entry = world.entry(rng, own, slot);
            match rng.u8(..8) {
                0 => world.elsewhere.push((vip, entry)),
                _ => drop(world.entries.entry(vip).or_insert(entry)),
            }
        }
        // The same VIP is foreign on the node's other interfaces.
        if let Some(vip) = world.entries.keys().next().copied()
            && let Some(slot) = slots.pop()
        {
            let entry = world.entry(rng, own, slot);
            world.elsewhere.push((vip, entry));
        }
        world.elsewhere.sort_by_key(|(vip, _)| *vip);
        world.elsewhere.dedup_by_key(|(vip, _)| *vip);
        world
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

/// Returns a random frame, which mostly meets a cell.
pub fn frame(rng: &mut Rng, world: &World) -> Vec<u8> {
    let aimed = aimed(rng, world);
    match rng.u8(..100) {
        0..82 => tagged(rng, &world.vlan, aimed),
        82..90 => {
            let tagged = tagged(rng, &world.vlan, aimed);
            mutated(rng, tagged)
        }
        90..93 => noise(rng),
        93..97 => {
            let other = if rng.bool() { Vec::new() } else { vlan(rng) };
            tagged(rng, &other, aimed)
        }
        _ => of_another_type(rng, aimed),
    }
}

fn mutated(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<u8> {
    match rng.u8(..4) {
        0 => frame.truncate(rng.usize(14..=frame.len())),
        // The byte is in the ARP header.
        1 => frame[rng.usize(12..22)] = rng.u8(..),
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
    if rng.bool() {
        frame[12..14].copy_from_slice(&[8, 6]);
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

fn of_another_type(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<u8> {
    let other = [[0x08, 0x00], [0x86, 0xdd], [0x88, 0xcc], [0x80, 0x35]];
    frame[12..14].copy_from_slice(&other[rng.usize(..other.len())]);
    frame
}

fn aimed(rng: &mut Rng, world: &World) -> Vec<u8> {
    let vips: Vec<(Addr, Entry)> = world.entries.iter().map(|(vip, entry)| (*vip, *entry)).collect();
    let strange = |rng: &mut Rng| match world.elsewhere.first() {
        Some((vip, _)) if rng.u8(..8) == 0 => *vip,
        _ => addr(rng),
    };
    let Some((vip, entry)) = pick(rng, &vips).filter(|_| rng.u8(..20) != 0) else {
        let (oper, sha) = (rng.u16(1..=2), unicast(rng));
        let (spa, tpa) = (strange(rng), strange(rng));
        return arp(rng, BROADCAST, oper, sha, spa, tpa);
    };
    let other = if rng.bool() { pick(rng, &vips).map(|(vip, _)| vip) } else { None };
    let other = other.unwrap_or_else(|| strange(rng));
    let destination = destination(rng, world, &entry);
    match rng.u8(..100) {
        // Announcements: gratuitous frames or replies.
        0..30 => {
            let (oper, sha) = (rng.u16(1..=2), claimant(rng, world, &entry));
            arp(rng, destination, oper, sha, vip, vip)
        }
        30..40 => {
            let sha = claimant(rng, world, &entry);
            arp(rng, destination, 2, sha, vip, other)
        }
        // Requests by the VIP.
        40..55 => {
            let sha = claimant(rng, world, &entry);
            arp(rng, destination, 1, sha, vip, other)
        }
        // Requests for the VIP.
        _ => {
            let spa = if rng.u8(..8) == 0 { [0; 4] } else { strange(rng) };
            let sha = asker(rng, world, &entry);
            arp(rng, destination, 1, sha, spa, vip)
        }
    }
}

/// Returns the sha of a claim.
fn claimant(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
    let sha = match rng.u8(..100) {
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
    sha.unwrap_or_else(|| unicast(rng))
}

/// Returns the sha of a request.
fn asker(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
    let sha = match rng.u8(..100) {
        0..8 => Some(entry.mac),
        8..22 => world.own,
        22..33 => Some([0; 6]),
        33..38 => Some(BROADCAST),
        38..43 => Some([0x01, 0, 0x5e, 0, 0, 0xfb]),
        43..48 => pick(rng, &world.peers),
        _ => None,
    };
    sha.unwrap_or_else(|| unicast(rng))
}

fn destination(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
    match rng.u8(..20) {
        0..10 => BROADCAST,
        10..14 => world.own.unwrap_or(BROADCAST),
        14..17 => entry.mac,
        17 => [0x01, 0, 0x5e, 0, 0, 0xfb],
        _ => unicast(rng),
    }
}

fn arp(rng: &mut Rng, dst: Mac, oper: u16, sha: Mac, spa: Addr, tpa: Addr) -> Vec<u8> {
    let source = if rng.u8(..5) == 0 { unicast(rng) } else { sha };
    let tha = [[0; 6], sha, BROADCAST, unicast(rng)][rng.usize(..4)];
    let mut frame = Vec::with_capacity(160);
    frame.extend_from_slice(&dst);
    frame.extend_from_slice(&source);
    let htype = if rng.u8(..5) == 0 { 6 } else { 1 };
    frame.extend_from_slice(&[8, 6, 0, htype, 8, 0, 6, 4]);
    frame.extend_from_slice(&oper.to_be_bytes());
    frame.extend_from_slice(&sha);
    frame.extend_from_slice(&spa);
    frame.extend_from_slice(&tha);
    frame.extend_from_slice(&tpa);
    let padding = [0, 18, 18, rng.usize(..100)][rng.usize(..4)];
    frame.extend((0..padding).map(|_| rng.u8(..)));
    frame
}
