//! Disputes: the wire contradicts the engine. The engine reads the claim, and believes it.

use super::world::*;
use crate::ownership::{Event, Wire};

fn contested() -> Event {
    Event::Wire { vip: VIP, heard: Wire::Contested { mac: mac("b") } }
}

fn yielded() -> Event {
    Event::Wire { vip: VIP, heard: Wire::Yielded { mac: mac("b") } }
}

/// Passes five seconds in which none of this node's requests reaches the API server.
fn lapse(world: &mut World) {
    for _ in 0..100 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(world.fence().deadline < world.now, "the fence has lapsed");
}

#[test]
fn a_holder_that_is_contested_reads_the_claim_and_announces_again_if_it_is_its_own() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.tell(contested()), ["read claim"]);
    assert_eq!(world.answer(), ["entry held", "announce"]);
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

#[test]
fn a_holder_that_is_contested_believes_the_claim_when_it_names_the_other() {
    let mut world = World::holding(&["b"]);
    world.store_claim(held("b"), 2);
    assert_eq!(world.tell(contested()), ["read claim"]);
    assert_eq!(world.answer(), ["entry foreign b"]);
    assert!(!world.holds());
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

#[test]
fn a_contest_that_repeats_while_the_claim_is_read_asks_for_nothing_more() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.tell(contested()), ["read claim"]);
    assert_eq!(world.tell(contested()), [""; 0]);
}

#[test]
fn a_contest_about_what_is_not_held_is_of_no_interest() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    assert_eq!(world.tell(contested()), [""; 0]);
    assert_eq!(world.tell(yielded()), [""; 0]);
}

#[test]
fn what_was_yielded_is_taken_back_when_the_claim_is_ours_and_the_fence_is_valid() {
    let mut world = World::holding(&["b"]).by_hand();
    lapse(&mut world);
    let lines = world.tell(yielded());
    assert!(lines.contains(&"read claim".to_owned()), "{lines:?}");
    let mut lines = Vec::new();
    while !world.is_idle() {
        let more = world.answer();
        lines.extend(more);
    }
    if world.fence().deadline < world.now {
        assert!(!lines.contains(&"entry held".to_owned()), "not before the fence is valid: {lines:?}");
    }
    let mut world = world.automatic();
    lines.extend(world.after(RENEWAL * 2));
    while !world.is_idle() {
        lines.extend(world.answer());
    }
    lines.retain(|line| line.starts_with("entry") || line == "announce");
    assert_eq!(lines, ["entry held", "announce"]);
    assert!(world.holds());
}

#[test]
fn what_was_yielded_while_the_fence_was_valid_again_is_taken_back_at_once() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.tell(yielded()), ["read claim"]);
    assert_eq!(world.answer(), ["entry held", "announce"]);
}

#[test]
fn what_was_yielded_to_the_one_that_the_claim_names_stays_there() {
    let mut world = World::holding(&["b"]).by_hand();
    lapse(&mut world);
    world.store_claim(held("b"), 2);
    world.store_lease(lease("a", None, &[session("a", 1)]));
    world.tell(yielded());
    let mut lines = Vec::new();
    for _ in 0..40 {
        while !world.is_idle() {
            lines.extend(world.answer());
        }
        lines.extend(world.after(ms(50)));
    }
    assert!(lines.contains(&"entry foreign b".to_owned()), "{lines:?}");
    assert!(!lines.contains(&"entry held".to_owned()), "{lines:?}");
    assert!(!world.holds());
}
