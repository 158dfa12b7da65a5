//! An unresponsive node's session expires, the node is notified, and it begins another session.

use super::*;
use crate::{ownership::Outcome, records::NodeRecord};

const READ: &str = "read lease of b";
const EXPIRE: &str = "write lease of b: no session, ended b1, 4s";

#[test]
fn a_suspects_lease_is_read_its_session_ended_and_its_vip_taken() {
    let mut world = watching("a c", &["b", "c"]);
    assert_eq!(suspect(&mut world, "b"), [READ]);
    assert_eq!(world.avoided, ["b"], "the node may run an API server");
    assert_eq!(world.answer(), [EXPIRE]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
    let held = ["tell b of the end of b1", "entry held", "tell: held, from b"];
    assert_eq!(world.answer(), held, "the former holder is notified before the entry");
    let counts = world.engine.wire_counts();
    assert_eq!((counts.expired_by_wire, counts.expired_by_lease), (1, 0));
}

#[test]
fn a_better_candidate_that_may_be_dead_too_has_its_turn_for_200_ms() {
    let mut world = watching("a c", &["b", "c"]);
    let first = NodeRecord { labels: [(FIRST.to_owned(), String::new())].into(), ..node("c") };
    world.notify(Event::Node(first));
    world.notify(Event::Node(node("a")));
    suspect(&mut world, "b");
    assert_eq!(world.answer(), [EXPIRE]);
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.timeline(ms(600)), ["0.200 write claim: held by a1, epoch 2"]);
}

#[test]
fn each_member_waits_20_ms_longer_than_the_one_before_it() {
    for (set, after) in [("a c d", "0.000"), ("c a d", "0.020"), ("c d a", "0.040")] {
        let mut world = watching(set, &["b", "c", "d"]);
        let mut lines: Vec<String> =
            suspect(&mut world, "b").into_iter().map(|line| format!("0.000 {line}")).collect();
        lines.extend(world.timeline(ms(100)));
        assert_eq!(lines, [format!("{after} {READ}")], "{set}");
    }
}

#[test]
fn when_the_thread_that_pings_has_ended_no_suspicion_of_it_ends_a_session() {
    for (what, is_read) in [("before the turn", false), ("while the Lease is read", true)] {
        let mut world = watching(if is_read { "a c" } else { "c a" }, &["b", "c"]);
        assert_eq!(suspect(&mut world, "b").contains(&READ.to_owned()), is_read, "{what}");
        world.notify(Event::WireSelf(None));
        let mut lines = Vec::new();
        for _ in 0..4 {
            while !world.is_idle() {
                lines.extend(world.answer());
            }
            lines.extend(world.after(ms(100)));
        }
        assert!(!lines.contains(&EXPIRE.to_owned()), "{what}: {lines:?}");
        assert_eq!(world.engine.wire_counts().expired_by_wire, 0, "{what}");
    }
}

#[test]
fn a_read_that_says_otherwise_ends_nothing() {
    type Change = fn(LeaseRecord) -> LeaseRecord;
    let rows: [(&str, Change); 6] = [
        ("another session", |lease| LeaseRecord { session: Some(session("b", 2)), ..lease }),
        ("ended already", |lease| LeaseRecord { ended: vec![session("b", 1)], session: None, ..lease }),
        ("mode off", |lease| LeaseRecord { wire: Some(offer("b", "a c", "")), ..lease }),
        ("other members", |lease| LeaseRecord { wire: Some(offer("b", "a c", "c d")), ..lease }),
        ("another set than the one that agrees", |lease| {
            let wire = Some(Offer { round: 2, ..offer("b", "a d", "a d") });
            LeaseRecord { wire, ..lease }
        }),
        ("no offer", |lease| LeaseRecord { wire: None, ..lease }),
    ];
    for (what, change) in rows {
        let mut world = watching("a c", &["b", "c"]);
        assert_eq!(suspect(&mut world, "b"), [READ]);
        world.store_lease(change(world.stored_lease("b")));
        let lines = world.answer();
        assert!(!lines.iter().any(|line| line.contains("write lease of b")), "{what}: {lines:?}");
    }
}

#[test]
fn an_answer_that_the_watch_has_overtaken_brings_no_ended_session_back() {
    let mut world = watching("a c", &["b", "c"]);
    suspect(&mut world, "b");
    let read = world.take_request();
    let before = world.stored_lease("b");
    assert_eq!(world.end("b"), ["write claim: held by a1, epoch 2"]);
    let name = before.node.clone();
    world.notify(Event::LeaseRead { node: name.clone(), outcome: Outcome::Done(before.clone()) });
    assert!(world.plan().peers.iter().all(|peer| peer.node != name), "the read of {read:?}");

    let mut world = watching("a c", &["b", "c"]);
    suspect(&mut world, "b");
    world.answer();
    let written = world.take_request();
    world.end("b");
    let ended = world.stored_lease("b");
    world.lease(LeaseRecord { session: Some(session("b", 2)), wire: before.wire, ..ended.clone() });
    world.notify(Event::LeaseWritten { node: name.clone(), outcome: Outcome::Done(ended) });
    let known = world.plan().peers.iter().find(|peer| peer.node == name).map(|peer| peer.session);
    assert_eq!(known, Some(session("b", 2)), "the answer to {written:?}");
}

#[test]
fn a_node_that_answers_before_the_write_is_left_alone() {
    let mut world = watching("c a", &["b", "c"]);
    assert_eq!(suspect(&mut world, "b"), [""; 0]);
    world.after(ms(10));
    answers(&mut world, "b");
    assert_eq!(world.after(ms(500)), [""; 0], "before the read");

    let mut world = watching("a c", &["b", "c"]);
    assert_eq!(suspect(&mut world, "b"), [READ]);
    answers(&mut world, "b");
    assert_eq!(world.answer(), [""; 0], "before the write");
    assert_eq!(suspect(&mut world, "b"), [READ], "unresponsive again");
}

#[test]
fn a_conflict_begins_with_the_monitor_again() {
    let mut world = watching("a c", &["b", "c"]);
    suspect(&mut world, "b");
    world.answer();
    world.store_lease(world.stored_lease("b"));
    assert_eq!(world.answer(), [READ]);
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(ms(900)), [""; 0], "nothing is tried again by itself");
    assert_eq!(suspect(&mut world, "b"), [READ]);
    assert_eq!(world.answer(), [EXPIRE]);
}

#[test]
fn without_the_api_server_nothing_is_ended() {
    let mut world = watching("a c", &["b", "c"]);
    suspect(&mut world, "b");
    assert_eq!(world.lose(), [""; 0]);
    assert_eq!(world.after(ms(500)), [""; 0]);
    assert_eq!(suspect(&mut world, "b"), [READ], "the monitor finds it unresponsive again");
    world.answer();
    assert_eq!(world.refuse(), [""; 0]);
    suspect(&mut world, "b");
    assert_eq!(world.timeline(ms(5_000)), [format!("5.000 {READ}")], "a refusal is not repeated at once");
}

#[test]
fn a_node_whose_own_lease_deadline_has_passed_ends_nothing() {
    let mut world = watching("a c", &["b", "c"]).by_hand();
    while world.lease_deadline().deadline > world.now {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(!suspect(&mut world, "b").contains(&READ.to_owned()));
}

#[test]
fn one_request_about_a_node_is_under_way_at_a_time() {
    let mut world = watching("a c", &["b", "c"]);
    assert_eq!(suspect(&mut world, "b"), [READ]);
    assert_eq!(suspect(&mut world, "b"), [""; 0]);
    assert_eq!(world.answer(), [EXPIRE]);
    assert_eq!(suspect(&mut world, "b"), [""; 0]);
}

#[test]
fn findings_about_unknown_sessions_and_nodes_that_are_not_watched_do_nothing() {
    let mut world = watching("c d", &["b", "c", "d"]);
    assert_eq!(suspect(&mut world, "b"), [""; 0]);
    assert_eq!(suspect(&mut world, "z"), [""; 0]);
    assert_eq!(world.after(ms(500)), [""; 0]);
}

#[test]
fn an_expired_lease_still_ends_the_session_of_a_node_that_no_monitor_missed() {
    let mut world = watching("a c", &["b", "c"]);
    world.kill("b");
    assert_eq!(world.after(just_before(REST)), [""; 0]);
    assert!(world.after(ms(501)).contains(&EXPIRE.to_owned()));
    world.answer();
    assert_eq!(world.engine.wire_counts().expired_by_lease, 1);
}

#[test]
fn a_claim_rests_after_a_expiring_by_wire_too() {
    let mut world = beside(&["b", "c"]);
    say(&mut world, "b", offer("b", "a c", "a c"));
    // b takes the VIP, and dies a second later.
    world.claim(held("b"), 1);
    world.want();
    world.after(RENEWAL);
    suspect(&mut world, "b");
    while world.stored_lease("b").session.is_some() {
        world.answer();
    }
    let lines = world.timeline(REST);
    assert_eq!(lines, ["3.500 write claim: held by a1, epoch 2"]);
}

#[test]
fn the_former_holder_is_notified_only_if_it_takes_part() {
    let mut world = watching("a c", &["b", "c"]);
    let ended =
        LeaseRecord { session: None, ended: vec![session("b", 1)], wire: None, ..world.stored_lease("b") };
    assert_eq!(world.lease(ended), ["write claim: held by a1, epoch 2"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from b"]);
}
