//! The failure detector in the engine, as node a sees it.
//!
//! The mistakes that are near at hand, and where a test finds them (`liveness::monitor::tests` too):
//!
//! - signs of life that are none: unsolicited, old or repeated frames (`judging`);
//! - a monitor that stood still suspects every node when it wakes (`judging`);
//! - one monitor, or one dead interface, moves everything (`choosing`, `planning`, `voting`);
//! - one lost frame costs a write (`own`, `choosing`);
//! - an expired node with a dead interface takes its VIPs again (`contact`);
//! - one dead interface of several moves all VIPs, or none (`judging`, `contact`);
//! - the first announcement is dropped by a holder that does not know its end (`planning`, `ending`);
//! - a conflict or an answer comes, and the session is expired all the same (`ending`);
//! - one false expiry notice counts for ever, or a true one is settled (`notified`);
//! - each node pings each other one (`planning`);
//! - an agent that restarts moves something: no kernel state lapses, and the voters stay
//!   (`choosing`).

use super::world::*;
use crate::{
    liveness::{Answers, ExpiryNotice, Finding, Path, Scale},
    ownership::{Event, LeaseOnly, Settings},
    records::{KeyId, LeaseRecord, Mode, Offer, Wid},
};

mod choosing;
mod contact;
mod deleted;
mod ending;
mod notices_of_others;
mod notified;
mod planning;

fn wid(node: &str) -> Wid {
    Wid::from_number(u64::from(node.as_bytes()[0]) << 32).expect("a number that is not zero")
}

fn path(node: &str) -> Path {
    Path { interface: named("eth0"), mac: mac(node) }
}

fn wids(nodes: &str) -> Vec<Wid> {
    nodes.split_terminator(' ').map(wid).collect()
}

/// Returns the letters of monitors.
fn names(wids: &[Wid]) -> String {
    let name = |wid: &Wid| char::from(u8::try_from(wid.number() >> 32).expect("a letter")).to_string();
    wids.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// Returns the offer of a node that invites all of these as monitors, with the voters `set`.
fn offer(node: &str, invited: &str, set: &str) -> Offer {
    let set = wids(set);
    Offer {
        wid: wid(node),
        mode: if set.is_empty() { Mode::Off } else { Mode::Notice },
        round: 1,
        invited: wids(invited),
        need: match set.len() {
            0 => 0,
            1 | 2 => 1,
            _ => 2,
        },
        set,
        keys: vec![KeyId(1)],
    }
}

/// Returns a world in which a lives among others, all with a key. No node answers for a VIP yet.
fn beside(others: &[&'static str]) -> World {
    let mut world = World::living_with(&wired(), "a", others);
    world.notify(Event::WireKeys(vec![KeyId(1)]));
    world.notify(Event::WireSelf(Some(wid("a"))));
    for other in others {
        say(&mut world, other, offer(other, "a", ""));
    }
    meet(&mut world, true, true);
    world.after(RENEWAL * 2);
    world
}

fn wired() -> Settings {
    Settings { wire: Some(Scale::One), ..settings("a") }
}

/// Lets a node write its offer.
fn say(world: &mut World, node: &str, offer: Offer) -> Vec<String> {
    world.lease(LeaseRecord { wire: Some(offer), ..world.stored_lease(node) })
}

/// Notifies the engine of the contact of its interface, where peers have answered before.
fn meet(world: &mut World, received: bool, answered: bool) -> Vec<String> {
    meet_with(world, received, if answered { Answers::Lately } else { Answers::NoLonger })
}

fn meet_with(world: &mut World, received: bool, answers: Answers) -> Vec<String> {
    world.notify(Event::Detected(Finding::Contact { interface: named("eth0"), received, answers }))
}

fn pinged(world: &mut World, by: &str, lately: bool) -> Vec<String> {
    world.notify(Event::Detected(Finding::Pinged { by: wid(by), lately }))
}

/// Returns the offer in the Lease of a.
fn said(world: &World) -> Offer {
    world.stored_lease("a").wire.expect("an offer")
}

/// Returns a world in which a holds the VIP, and all others ping it.
fn holding(others: &[&'static str]) -> World {
    let mut world = beside(others);
    for other in others {
        pinged(&mut world, other, true);
    }
    world.want();
    while !world.is_idle() {
        world.answer();
    }
    assert!(world.holds());
    world.after(RENEWAL * 3);
    world
}

/// Returns a world in which b holds the VIP, and a and these others are its set.
fn watching(set: &str, others: &[&'static str]) -> World {
    let mut world = beside(others);
    say(&mut world, "b", offer("b", set, set));
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    world
}

fn suspect(world: &mut World, node: &str) -> Vec<String> {
    world.notify(Event::Detected(Finding::Unresponsive { session: session(node, 1), round: 1 }))
}

fn answers(world: &mut World, node: &str) -> Vec<String> {
    world.notify(Event::Detected(Finding::Answers { session: session(node, 1) }))
}
