//! Random worlds and frames that aim at the cells of the tables.

mod addresses;
mod arp;
mod nd;
mod worlds;

use fastrand::Rng;

use self::{addresses::pick, worlds::vlan};
use super::world::{Protocol, World};

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
