//! VIPs of one Service that stay on one node, such as those of both families.

use std::net::IpAddr;

use super::world::*;
use crate::{ownership::Event, records::Demand};

const FOLLOWER: IpAddr = VIP_2;

fn together() -> Demand {
    Demand { together: vec![VIP, FOLLOWER], preferred: None, ..demand() }
}

/// Returns a world in which a holds both, of which each comes first on another node.
fn holding_both() -> World {
    let mut world = World::holding_all(&["b"], &[VIP, FOLLOWER]);
    world.notify(Event::Demand(VIP, Some(together())));
    world.notify(Event::Demand(FOLLOWER, Some(together())));
    world
}

fn move_the_leader(world: &mut World) {
    let lines = world.wish("b");
    world.answer();
    world.claim(held("b"), 2);
    assert!(!world.holds(), "the leader has moved: {lines:?}");
}

#[test]
fn a_vip_goes_where_its_leader_is_held() {
    let mut world = holding_both();
    move_the_leader(&mut world);
    let lines = world.timeline(STABLE_FOR + REST);
    assert!(
        lines.iter().any(|line| line.ends_with("offered to b1 by a1, epoch 2 (192.0.2.11)")),
        "the other follows: {lines:?}"
    );
}

#[test]
fn a_vip_without_a_leader_stays() {
    let mut world = holding_both();
    world.notify(Event::Demand(FOLLOWER, Some(demand())));
    move_the_leader(&mut world);
    world.timeline(STABLE_FOR + REST);
    assert!(world.engine.holds(FOLLOWER));
}

#[test]
fn without_a_holder_of_the_first_the_next_one_leads() {
    // No node holds the first, for example because it is refused.
    let absent: IpAddr = "192.0.2.1".parse().expect("an address");
    let together = || Demand { together: vec![absent, VIP, FOLLOWER], ..together() };
    let mut world = holding_both();
    world.notify(Event::Demand(VIP, Some(together())));
    world.notify(Event::Demand(FOLLOWER, Some(together())));
    move_the_leader(&mut world);
    let lines = world.timeline(STABLE_FOR + REST);
    assert!(lines.iter().any(|line| line.contains("offered to b1 by a1")), "the other follows: {lines:?}");
}

#[test]
fn vips_that_stay_together_have_one_order_of_nodes() {
    let order = |vip: IpAddr, demand: &Demand| {
        let world = World::living("a", &["b", "c", "d", "e"]);
        let candidates = world.engine.nodes.candidates(vip, demand, world.now);
        candidates.into_iter().map(|candidate| candidate.holder.node).collect::<Vec<_>>()
    };
    assert_eq!(order(VIP, &together()), order(FOLLOWER, &together()));
    let alone = Demand { together: Vec::new(), ..together() };
    assert_ne!(order(VIP, &alone), order(FOLLOWER, &alone), "alone, each has its own");
}
