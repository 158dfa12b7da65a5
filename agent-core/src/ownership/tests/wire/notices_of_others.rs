//! Expiry notices for another node's session: its VIPs are taken although no watch shows the end.

use super::*;
use crate::ownership::Outcome;

const READ: &str = "read lease of b";

fn notified_of(world: &mut World, node: &str) -> Vec<String> {
    world.notify(Event::Detected(Finding::Expired { session: session(node, 1) }))
}

/// Lets the Lease of b list its session as ended. The watch does not show it.
fn end_unseen(world: &mut World) {
    let over = LeaseRecord { session: None, ended: vec![session("b", 1)], ..world.stored_lease("b") };
    world.store_lease(over);
}

#[test]
fn a_taker_reads_the_lease_at_once_and_takes_the_vip() {
    // It is no voter, and has no contact with b.
    let mut world = watching("c d", &["b", "c", "d"]);
    end_unseen(&mut world);
    assert_eq!(notified_of(&mut world, "b"), [READ]);
    assert_eq!(world.avoided, ["b"], "the node may run an API server");
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
    world.answer();
    assert!(world.holds());
}

#[test]
fn the_api_server_of_a_node_is_avoided_also_if_the_watch_shows_its_end_first() {
    let mut world = watching("c d", &["b", "c", "d"]);
    assert_eq!(world.end("b"), ["write claim: held by a1, epoch 2"]);
    assert_eq!(world.avoided, ["b"]);
    assert_eq!(notified_of(&mut world, "b"), [""; 0], "the end is known");

    let mut world = watching("c d", &["b", "c", "d"]);
    let gone = LeaseRecord { session: None, leaving: true, ..world.stored_lease("b") };
    world.lease(gone);
    assert!(world.avoided.is_empty(), "it has ended its session itself, and lives");
}

#[test]
fn a_notice_without_an_ended_session_takes_nothing_and_makes_no_flood_of_requests() {
    let mut world = watching("c d", &["b", "c", "d"]);
    let mut requests = 0;
    for _ in 0..100 {
        notified_of(&mut world, "b");
        while !world.is_idle() {
            requests += 1;
            assert_eq!(world.answer(), [""; 0], "b lives");
        }
        world.after(ms(10));
    }
    assert!(requests <= 4 + 2, "{requests} requests in 1 s: one for each 250 ms, and renewals");
    assert!(!world.holds());
}

#[test]
fn a_notice_is_left_alone_if_it_states_nothing_new() {
    let mut world = watching("a c", &["b", "c"]);
    assert_eq!(notified_of(&mut world, "z"), [""; 0], "the node is not known");
    assert_eq!(
        notified_of(&mut world, "a"),
        [""; 0],
        "it is this node's session, of which its program knows"
    );
    assert_eq!(suspect(&mut world, "b"), [READ]);
    assert_eq!(notified_of(&mut world, "b"), [""; 0], "this node's own request is under way");
    world.answer();
    world.answer();
    assert_eq!(notified_of(&mut world, "b"), [""; 0], "the end is known");
}

#[test]
fn a_read_without_an_answer_leaves_the_end_to_the_watch() {
    let mut world = watching("c d", &["b", "c", "d"]);
    end_unseen(&mut world);
    assert_eq!(notified_of(&mut world, "b"), [READ]);
    world.take_request();
    let outcome = Outcome::Unknown;
    world.notify(Event::LeaseRead { node: "b".into(), outcome });
    assert_eq!(world.end("b"), ["write claim: held by a1, epoch 2"]);
}
