//! A holder's Lease is deleted: by an operator, or with the machine.

use super::*;
use crate::liveness::Ended;

const READ: &str = "read lease of b";
const CREATE: &str = "create lease of b: no session, ended b1, 4s";
const TAKE: &str = "write claim: held by a1, epoch 2";

/// Returns the seconds until a takes the VIP of b, and answers all requests meanwhile.
fn taken_after(world: &mut World, mut lines: Vec<String>) -> String {
    let begin = world.now;
    for _ in 0..12_000 {
        while !world.is_idle() && !lines.contains(&TAKE.to_owned()) {
            lines.extend(world.answer());
        }
        if lines.contains(&TAKE.to_owned()) {
            return format!("{:.1}", world.now.saturating_since(begin).as_secs_f64());
        }
        lines.extend(world.after(ms(10)));
    }
    "never".to_owned()
}

/// The states of b's Lease, of its Node and of its power, then the time until a answers. In no
/// row two nodes answer: b is off, its lease deadline has passed, or it writes its Lease again.
#[test]
fn a_deleted_lease_neither_proves_nor_delays_a_death() {
    type Change = fn(&mut World) -> Vec<String>;
    // The last two columns: b is off; b answers pings and does not reach the API server.
    let rows: [(&str, Change, &str, &str); 5] = [
        ("stands", |_| Vec::new(), "0.0", "4.5"),
        ("is deleted", |world| world.delete_lease("b"), "0.0", "4.5"),
        (
            "is deleted, and the watch is behind",
            |world| {
                world.forget_lease("b");
                Vec::new()
            },
            "0.0",
            "9.0",
        ),
        (
            "is deleted, and written again",
            |world| {
                let again = world.stored_lease("b");
                world.delete_lease("b");
                world.lease(again)
            },
            "0.0",
            "4.5",
        ),
        (
            "is deleted, and created by c as ended",
            |world| {
                world.delete_lease("b");
                let ended = lease("b", None, &[session("b", 1)]);
                world.lease(LeaseRecord { interfaces: Vec::new(), ..ended })
            },
            "0.0",
            "0.0",
        ),
    ];
    for (what, change, off, cut_off) in rows {
        for has_node in [true, false] {
            for (is_off, after) in [(true, off), (false, cut_off)] {
                let mut world = watching("a c", &["b", "c"]);
                world.kill("b");
                if !has_node {
                    world.notify(Event::NodeGone("b".into()));
                }
                let mut lines = change(&mut world);
                if is_off {
                    lines.extend(suspect(&mut world, "b"));
                }
                let row = format!("the Lease {what}, Node {has_node}, off {is_off}");
                assert_eq!(taken_after(&mut world, lines), after, "{row}");
            }
        }
    }
}

#[test]
fn a_living_node_whose_lease_is_deleted_keeps_its_vips() {
    let mut world = watching("a c", &["b", "c"]);
    let written = world.stored_lease("b");
    world.delete_lease("b");
    assert!(world.plan().peers.iter().any(|peer| peer.node.as_str() == "b"), "it is still pinged");
    // A quorum finds it unresponsive, and it writes its Lease just before the end is recorded.
    assert_eq!(suspect(&mut world, "b"), [READ]);
    assert_eq!(world.answer(), [CREATE]);
    world.store_lease(written);
    assert_eq!(world.answer(), [READ], "a conflict");
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(REST * 2), [""; 0]);
}

#[test]
fn an_absent_lease_ends_no_session_but_the_suspects() {
    let mut world = watching("a c", &["b", "c"]);
    // b lives in another session since. The watch of the Leases is behind, and that of the claims is not.
    world.claim_of(VIP_2, crate::records::ClaimState::Held(holder("b", 2)), 1);
    assert_eq!(suspect(&mut world, "b"), [READ]);
    world.forget_lease("b");
    assert_eq!(world.answer(), [CREATE]);
}

#[test]
fn a_deleted_lease_counts_for_lease_and_margin() {
    let mut world = watching("a c", &["b", "c"]);
    world.notify(Event::Demand(VIP, None));
    world.claim(crate::records::ClaimState::Released, 2);
    world.kill("b");
    world.delete_lease("b");
    let is_pinged = |world: &World| world.plan().peers.iter().any(|peer| peer.node.as_str() == "b");
    world.after(just_before(REST));
    assert!(is_pinged(&world));
    world.after(RENEWAL);
    assert!(!is_pinged(&world), "no claim names it, so no node ends its session");
}

#[test]
fn a_node_is_notified_of_its_end_although_its_lease_was_deleted() {
    let mut world = watching("a c", &["b", "c"]);
    let paths =
        world.plan().peers.iter().find(|peer| peer.node.as_str() == "b").expect("a peer").paths.clone();
    world.kill("b");
    world.delete_lease("b");
    suspect(&mut world, "b");
    assert_eq!(world.answer(), [CREATE]);
    assert_eq!(world.answer(), [TAKE]);
    assert_eq!(world.plan().ended, [Ended { session: session("b", 1), paths, takers: vec![path("c")] }]);
    assert!(world.answer().contains(&"tell b of the end of b1".to_owned()));
    assert!(world.plan().peers.iter().all(|peer| peer.node.as_str() != "b"), "it is pinged no longer");
    world.after(REST + RENEWAL);
    assert_eq!(world.plan().ended, [], "its lease deadline has passed");
}
