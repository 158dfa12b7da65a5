//! ARP frames about a VIP.

use fastrand::Rng;

use super::addresses::{BROADCAST, asker, bytes, claimant, destination, unicast};
use crate::oracle::world::{Addr, Entry, Mac, Protocol, World};

/// Returns a frame about a VIP, or about none.
pub(super) fn aimed(rng: &mut Rng, world: &World, aim: Option<(Addr, Entry)>, other: Addr) -> Vec<u8> {
    let strange = |rng: &mut Rng| world.strange(rng, Protocol::Arp);
    let Some((vip, entry)) = aim else {
        let (oper, sha, spa) = (rng.u16(1..=2), unicast(rng), strange(rng));
        return arp(rng, BROADCAST, oper, sha, spa, other);
    };
    let destination = destination(rng, world, &entry, BROADCAST);
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
            let spa = if rng.u8(..8) == 0 { Addr::from([0; 4]) } else { strange(rng) };
            let sha = asker(rng, world, &entry);
            arp(rng, destination, 1, sha, spa, vip)
        }
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
    frame.extend(bytes(spa));
    frame.extend_from_slice(&tha);
    frame.extend(bytes(tpa));
    let padding = [0, 18, 18, rng.usize(..100)][rng.usize(..4)];
    frame.extend((0..padding).map(|_| rng.u8(..)));
    frame
}
