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
    assert!(world.avoided.is_empty(), "the notice alone proves nothing");
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
    assert_eq!(world.avoided, ["b"], "the node may run an API server");
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

    let (over, lease) = (vec![session("b", 1)], world.stored_lease("b"));
    for (what, session, leaving) in
        [("its last Lease", None, true), ("another session", Some(session("b", 2)), false)]
    {
        let mut world = watching("c d", &["b", "c", "d"]);
        world.lease(LeaseRecord { session, leaving, ended: over.clone(), ..lease.clone() });
        assert!(world.avoided.is_empty(), "{what}");
    }
}

#[test]
fn a_notice_without_an_ended_session_takes_nothing_and_makes_no_flood_of_requests() {
    let mut world = watching("c d", &["b", "c", "d"]);
    let mut requests = 0;
    for _ in 0..1_000 {
        notified_of(&mut world, "b");
        while !world.is_idle() {
            requests += 1;
            assert_eq!(world.answer(), [""; 0], "b lives");
        }
        world.after(ms(10));
    }
    assert!(
        requests <= 6 + 11,
        "{requests} requests in 10 s: renewals, and reads at longer and longer pauses"
    );
    assert!(world.avoided.is_empty());
    assert!(!world.holds());
}

#[test]
fn false_notices_delay_no_expiry() {
    let mut world = watching("a c", &["b", "c"]);
    assert_eq!(notified_of(&mut world, "b"), [READ]);
    assert_eq!(suspect(&mut world, "b"), [""; 0], "the read serves both");
    assert_eq!(world.answer(), ["write lease of b: no session, ended b1, 4s"]);

    let mut world = watching("a c", &["b", "c"]);
    notified_of(&mut world, "b");
    assert_eq!(world.answer(), [""; 0], "it is false");
    assert_eq!(suspect(&mut world, "b"), [READ], "at once");

    let mut world = watching("c d", &["b", "c", "d"]);
    world.kill("b");
    let mut lines = Vec::new();
    for _ in 0..50 {
        notified_of(&mut world, "b");
        while !world.is_idle() {
            lines.extend(world.answer());
        }
        lines.extend(world.after(ms(100)));
    }
    assert!(lines.contains(&"write lease of b: no session, ended b1, 4s".to_owned()), "{lines:?}");
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
