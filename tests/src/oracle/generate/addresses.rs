//! Addresses, and the senders and destinations of frames.

use std::net::IpAddr;

use fastrand::Rng;

use crate::oracle::world::{Addr, Entry, Mac, Protocol, World};

pub(super) const BROADCAST: Mac = [0xff; 6];

/// Returns an address that an interface can have.
pub(super) fn unicast(rng: &mut Rng) -> Mac {
    let mut mac: Mac = std::array::from_fn(|_| rng.u8(..));
    mac[0] = mac[0] & 0xfc | 0x02;
    mac
}

pub(super) fn addr(rng: &mut Rng, protocol: Protocol) -> Addr {
    match protocol {
        Protocol::Arp => IpAddr::from(rng.u32(1..).to_be_bytes()),
        Protocol::Nd => {
            let mut addr = rng.u128(..).to_be_bytes();
            addr[0] = [0x20, 0xfd, 0xfe][rng.usize(..3)];
            IpAddr::from(addr)
        }
    }
}

pub(super) fn bytes(addr: Addr) -> Vec<u8> {
    match addr {
        Addr::V4(addr) => addr.octets().to_vec(),
        Addr::V6(addr) => addr.octets().to_vec(),
    }
}

/// Returns an address whose filter bit is in the word of another's, or which has its solicited-node
/// group, or any.
pub(super) fn near(rng: &mut Rng, addr: Addr, protocol: Protocol) -> Addr {
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

pub(super) fn pick<T: Copy>(rng: &mut Rng, from: &[T]) -> Option<T> {
    (!from.is_empty()).then(|| from[rng.usize(..from.len())])
}

/// Returns the sender of a claim.
pub(super) fn claimant(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
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
pub(super) fn asker(rng: &mut Rng, world: &World, entry: &Entry) -> Mac {
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
pub(super) fn destination(rng: &mut Rng, world: &World, entry: &Entry, all: Mac) -> Mac {
    match rng.u8(..20) {
        0..10 => all,
        10..14 => world.own.unwrap_or(all),
        14..17 => entry.mac,
        17 => [0x01, 0, 0x5e, 0, 0, 0xfb],
        _ => unicast(rng),
    }
}
