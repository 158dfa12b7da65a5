//! Group pre-join: the node that receives the solicitations for a VIP before it holds it.

use std::net::{IpAddr, Ipv6Addr};

use super::world::*;
use crate::{
    ownership::Event,
    records::{ClaimState, Demand},
};

const VIP_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10));

/// Returns a world in which b holds the VIP, and then `next` comes first.
fn held_by_b(vip: IpAddr, next: &str) -> (World, Vec<String>) {
    let mut world = World::living("a", &["b", "c"]);
    for name in ["a", "b", "c"] {
        let labels = [(if name == next { "best" } else { "other" }.to_owned(), String::new())].into();
        world.notify(Event::Node(crate::records::NodeRecord { labels, ..node(name) }));
    }
    world.claim_of(vip, held("b"), 1);
    let demand = Demand { preferred: Some(selector("best")), ..demand() };
    let lines = world.notify(Event::Demand(vip, Some(demand)));
    (world, lines)
}

fn receives(lines: &[String]) -> Vec<&str> {
    lines.iter().filter(|line| line.contains("receives")).map(String::as_str).collect()
}

#[test]
fn the_first_that_would_take_a_vip_receives_its_questions_ahead() {
    let (_, lines) = held_by_b(VIP_V6, "a");
    assert_eq!(receives(&lines), ["receives for 2001:db8::10: true"]);
    let (_, lines) = held_by_b(VIP_V6, "c");
    assert_eq!(receives(&lines), [""; 0], "another node comes first");
    let (_, lines) = held_by_b(VIP, "a");
    assert_eq!(receives(&lines), [""; 0], "every host receives the questions of IPv4");
}

#[test]
fn a_node_that_is_no_longer_first_stops_receiving() {
    let unlabelled = |world: &mut World| world.notify(Event::Node(node("a")));
    let best = |world: &mut World| {
        let labels = [("best".to_owned(), String::new())].into();
        world.notify(Event::Node(crate::records::NodeRecord { labels, ..node("c") }))
    };
    let (mut world, _) = held_by_b(VIP_V6, "a");
    let mut lines = unlabelled(&mut world);
    lines.append(&mut best(&mut world));
    assert_eq!(receives(&lines), ["receives for 2001:db8::10: false"]);

    let (mut world, _) = held_by_b(VIP_V6, "a");
    assert_eq!(
        receives(&world.claim_of(VIP_V6, ClaimState::Released, 1)),
        ["receives for 2001:db8::10: false"]
    );

    let (mut world, _) = held_by_b(VIP_V6, "a");
    assert_eq!(receives(&world.notify(Event::Demand(VIP_V6, None))), ["receives for 2001:db8::10: false"]);
}
