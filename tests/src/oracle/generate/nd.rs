//! Frames of neighbour discovery about a VIP, with options in all orders and faults of every kind.

use fastrand::Rng;

use super::addresses::{asker, bytes, claimant, destination, pick, unicast};
use crate::oracle::{
    nd::{checksum, set_checksum, solicited_node},
    world::{Addr, Entry, Mac, Protocol, World},
};

const ALL_NODES: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL_ROUTERS: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// A message before it is written.
struct Draft {
    kind: u8,
    source: Addr,
    destination: Addr,
    flags: u8,
    /// The target, and the destination of a redirect.
    addresses: Vec<Addr>,
    /// The type of the option that names the sender.
    own_type: u8,
    sender: Mac,
    is_named: bool,
}

/// Returns a frame about a VIP, or about none.
pub(super) fn aimed(rng: &mut Rng, world: &World, aim: Option<(Addr, Entry)>, other: Addr) -> Vec<u8> {
    let (vip, entry) = aim.unwrap_or_else(|| (other, world.entry(rng, [2; 6], 0)));
    draft(rng, world, vip, &entry, other).write(rng, world, &entry)
}

fn draft(rng: &mut Rng, world: &World, vip: Addr, entry: &Entry, other: Addr) -> Draft {
    let strange = world.strange(rng, Protocol::Nd);
    let (all_nodes, all_routers) = (Addr::from(ALL_NODES), Addr::from(ALL_ROUTERS));
    let by_vip = Draft {
        kind: 135,
        source: vip,
        destination: solicited_node(other),
        flags: 0,
        addresses: vec![other],
        own_type: 1,
        sender: claimant(rng, world, entry),
        is_named: rng.u8(..8) != 0,
    };
    match rng.u8(..100) {
        0..32 => Draft {
            kind: 136,
            source: if rng.u8(..4) == 0 { strange } else { vip },
            destination: [all_nodes, all_nodes, all_routers, other][rng.usize(..4)],
            flags: [0x20, 0x20, 0x20, 0, 0, 0x60, 0xa0, rng.u8(..)][rng.usize(..8)],
            addresses: vec![vip],
            own_type: 2,
            ..by_vip
        },
        32..42 => Draft {
            kind: 137,
            source: strange,
            destination: [all_nodes, other, vip][rng.usize(..3)],
            addresses: if rng.bool() { vec![vip, other] } else { vec![other, vip] },
            own_type: 2,
            ..by_vip
        },
        42..46 => Draft {
            kind: 133,
            source: if rng.u8(..8) == 0 { Addr::from([0; 16]) } else { vip },
            destination: all_routers,
            addresses: Vec::new(),
            ..by_vip
        },
        46..58 => by_vip,
        _ => {
            let is_probe = rng.u8(..7) == 0;
            let destination = match rng.u8(..20) {
                _ if is_probe && rng.u8(..8) != 0 => solicited_node(vip),
                0..8 => solicited_node(vip),
                8..17 => vip,
                17 => all_nodes,
                _ => strange,
            };
            Draft {
                source: if is_probe { Addr::from([0; 16]) } else { strange },
                destination,
                addresses: vec![vip],
                sender: asker(rng, world, entry),
                is_named: if is_probe { rng.u8(..8) == 0 } else { rng.u8(..5) < 3 },
                ..by_vip
            }
        }
    }
}

impl Draft {
    fn write(mut self, rng: &mut Rng, world: &World, entry: &Entry) -> Vec<u8> {
        if rng.u8(..60) == 0
            && let Some(target) = self.addresses.first_mut()
        {
            *target = Addr::from(ALL_NODES);
        }
        if rng.u8(..60) == 0 {
            self.source = Addr::from(ALL_ROUTERS);
        }
        let options = self.options(rng).concat();
        let group = match bytes(self.destination)[..] {
            [0xff, .., a, b, c, d] => [0x33, 0x33, a, b, c, d],
            _ => [0xff; 6],
        };
        let mut frame = destination(rng, world, entry, group).to_vec();
        let is_by_sender = !self.is_named || rng.u8(..3) != 0;
        frame.extend(if is_by_sender { self.sender } else { unicast(rng) });
        let body = [self.addresses.iter().flat_map(|addr| bytes(*addr)).collect(), options].concat();
        let len = u16::try_from(8 + body.len()).expect("invariant: it is short").to_be_bytes();
        frame.extend([0x86, 0xdd, 0x60 | rng.u8(..16), rng.u8(..), rng.u8(..), rng.u8(..)]);
        frame.extend([&len[..], &[58, 255], &bytes(self.source), &bytes(self.destination)].concat());
        frame.extend([self.kind, 0, 0, 0, self.flags, 0, 0, 0]);
        frame.extend(&body);
        if rng.u8(..16) == 0 {
            frame[59..62].copy_from_slice(&[rng.u8(..), rng.u8(..), rng.u8(..)]);
        }
        sum(rng, &mut frame);
        let padding = [0, 0, 4, rng.usize(..40)][rng.usize(..4)];
        frame.extend((0..padding).map(|_| rng.u8(..)));
        spoil(rng, &mut frame);
        frame
    }

    /// Returns options in a random order, now and then with what they should not have.
    fn options(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mac = |of_type: u8, mac: Mac| [&[of_type, 1][..], &mac].concat();
        let mut options = Vec::new();
        if self.is_named {
            options.push(mac(self.own_type, self.sender));
        }
        if self.kind == 135 && rng.u8(..3) == 0 {
            options.push(mac(14, unicast(rng)));
        }
        if rng.u8(..4) == 0 {
            for _ in 0..rng.usize(1..4) {
                let of_type = pick(rng, &[3, 4, 5, 14, 14, 200]).unwrap_or_default();
                options.push(any(rng, of_type, 1, 4));
            }
        }
        match rng.u8(..100) {
            0..3 => options.push(mac(self.own_type, self.sender)),
            3..5 => options.push(mac(self.own_type, unicast(rng))),
            // The type that belongs to other messages.
            5..8 => options.push(mac(3 - self.own_type, unicast(rng))),
            8..10 => {
                let of_type = rng.u8(1..3);
                options.push(any(rng, of_type, 2, 4));
            }
            10..14 => {
                for _ in 0..rng.usize(11..20) {
                    let of_type = [14, 200][rng.usize(..2)];
                    options.push(any(rng, of_type, 1, 2));
                }
            }
            // Around the length up to which checksums count.
            14..17 => options.push(any(rng, 200, 50, 64)),
            17..19 => options.push([&[200, 0][..], &unicast(rng)].concat()),
            19..21 => options.push([&[200, rng.u8(2..)][..], &unicast(rng)].concat()),
            _ => {}
        }
        rng.shuffle(&mut options);
        options
    }
}

/// Returns an option of a random size and content.
fn any(rng: &mut Rng, of_type: u8, least: u8, below: u8) -> Vec<u8> {
    let units = rng.u8(least..below);
    [of_type, units].into_iter().chain((2..8 * usize::from(units)).map(|_| rng.u8(..))).collect()
}

/// Sets a checksum, which is mostly right.
fn sum(rng: &mut Rng, frame: &mut [u8]) {
    if rng.u8(..16) == 0 && frame.len() > 62 {
        // The last bytes make the right checksum zero.
        let last = frame.len() - 2;
        frame[last..].fill(0);
        let rest = u16::try_from(checksum(frame) % 0xffff).expect("invariant: it has 16 bits");
        frame[last..].copy_from_slice(&rest.to_be_bytes());
    }
    let error = if rng.u8(..12) == 0 { u32::from(rng.u16(..)) } else { 0 };
    set_checksum(frame, error);
    if frame[56..58] == [0, 0] && rng.bool() {
        // The other zero.
        frame[56..58].fill(0xff);
    }
}

/// Breaks a rule of the header, now and then.
fn spoil(rng: &mut Rng, frame: &mut Vec<u8>) {
    match rng.u8(..100) {
        0..2 => frame[21] = [0, 1, 64, 254][rng.usize(..4)],
        2..4 => frame[55] = rng.u8(1..),
        4 => frame[19] = frame[19].wrapping_add(rng.u8(..)),
        5 => frame[18] = rng.u8(..),
        6 => frame[19] = frame[19].wrapping_sub(8 * rng.u8(..5)),
        7 => {
            let len = rng.usize(54..=frame.len());
            frame.truncate(len);
        }
        _ => {}
    }
}

/// Puts extension headers before the message, and now and then cuts the frame.
pub(super) fn hide(rng: &mut Rng, frame: &mut Vec<u8>) {
    for _ in 0..[1, 1, 2, rng.usize(1..8)][rng.usize(..4)] {
        let kind = [0, 43, 44, 60][rng.usize(..4)];
        let next = std::mem::replace(&mut frame[20], kind);
        let units = [1, 1, rng.u8(1..9)][rng.usize(..3)];
        let header = if kind == 44 {
            let offset = if rng.u8(..4) == 0 { rng.u8(..) << 3 } else { 0 };
            vec![next, rng.u8(..), 0, offset | rng.u8(..2), 0, 0, 0, rng.u8(..)]
        } else {
            let content = (2..8 * usize::from(units)).map(|_| rng.u8(..));
            [next, units - 1].into_iter().chain(content).collect()
        };
        frame.splice(54.min(frame.len())..54.min(frame.len()), header);
    }
    match rng.u8(..16) {
        0 => frame.truncate(rng.usize(54..=frame.len())),
        1 => frame[21] = [1, 64, 254][rng.usize(..3)],
        2 => frame[14] = rng.u8(..),
        _ => {}
    }
}

/// Makes the frame one of IPv6 that is not read.
pub(super) fn make_unrelated(rng: &mut Rng, frame: &mut Vec<u8>) {
    match rng.u8(..4) {
        0 => frame[14] = rng.u8(..6) << 4,
        // TCP, UDP, no next header, and extension headers of which the message makes other ones.
        1 => frame[20] = [6, 17, 59, 0, 43, 60][rng.usize(..6)],
        2 => {
            let types = [128, 129, 130, 131, 132, 134, 138, 143];
            if let Some(first) = frame.get_mut(54) {
                *first = types[rng.usize(..types.len())];
            }
        }
        _ => frame.truncate(rng.usize(14..56)),
    }
}
