//! Expiring: the end of the session of a node that has not renewed for so long that its lease
//! deadline must have passed.

use std::net::IpAddr;

use super::world::*;
use crate::{
    ownership::{Event, Probed, Settings},
    records::{ClaimState, LeaseRecord},
};

const EXPIRE_B: &str = "write lease of b: no session, ended b1, 4s";

/// Returns a world in which a lives and watches, and b holds the VIP.
fn watching() -> World {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    world
}

#[test]
fn a_node_is_expired_when_its_lease_has_stood_unchanged_for_lease_and_margin() {
    let mut world = watching();
    world.kill("b");
    assert_eq!(world.timeline(just_before(REST)), [""; 0]);
    assert_eq!(world.timeline(ms(1)), [format!("0.001 {EXPIRE_B}")]);
}

#[test]
fn a_node_that_renews_is_never_expired() {
    let mut world = watching();
    assert_eq!(world.after(ms(600_000)), [""; 0]);
    for _ in 0..10 {
        world.kill("b");
        assert_eq!(world.after(just_before(REST)), [""; 0], "each renewal starts the clock again");
    }
}

#[test]
fn a_node_that_no_claim_names_is_left_alone() {
    let mut world = World::holding(&["b"]);
    world.kill("b");
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn expiring_frees_the_vip_and_the_next_holder_takes_it() {
    let mut world = watching();
    world.kill("b");
    world.after(REST);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from b"]);
}

#[test]
fn one_write_frees_all_vips_of_a_node() {
    let mut world = watching();
    for vip in [VIP_2, VIP_3] {
        world.claim_of(vip, held("b"), 1);
        world.notify(Event::Demand(vip, Some(demand())));
    }
    world.after(REST);
    world.kill("b");
    assert_eq!(world.after(REST), [EXPIRE_B]);
    assert_eq!(
        world.answer(),
        [
            "write claim: held by a1, epoch 2",
            "write claim: held by a1, epoch 2 (192.0.2.11)",
            "write claim: held by a1, epoch 2 (192.0.2.12)",
        ]
    );
}

#[test]
fn a_conflict_means_that_the_node_lives_and_the_clock_starts_again() {
    let mut world = watching();
    world.kill("b");
    world.after(REST);
    // The watch is behind.
    world.store_lease(world.stored_lease("b"));
    assert_eq!(world.answer(), ["read lease of b"]);
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.timeline(REST), [format!("4.500 {EXPIRE_B}")]);
}

#[test]
fn the_clock_starts_again_when_the_own_lease_deadline_passed_meanwhile() {
    let mut world = watching().by_hand();
    world.kill("b");
    // For a long time none of this node's renewals succeeds.
    for _ in 0..200 {
        let lines = world.after(ms(50));
        assert!(!lines.contains(&EXPIRE_B.to_owned()), "{lines:?}");
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(world.lease_deadline().deadline < world.now, "the lease deadline has passed");
    while world.is_idle() {
        world.after(ms(10));
    }
    while !world.is_idle() {
        world.answer();
    }
    assert!(world.lease_deadline().deadline > world.now, "the lease deadline is valid again");
    let mut world = world.automatic();
    assert_eq!(world.timeline(REST), [format!("4.500 {EXPIRE_B}")]);
}

#[test]
fn a_lease_that_was_lengthened_for_a_restart_is_respected() {
    let mut world = watching();
    let left = world.stored_lease("b");
    world.kill("b");
    world.lease(LeaseRecord { duration: RESTART_LEASE, ..left });
    assert_eq!(world.timeline(ms(60_499)), [""; 0]);
    assert_eq!(world.after(ms(1)), ["write lease of b: no session, ended b1, 60s"]);
}

#[test]
fn of_many_claimed_sessions_at_most_eight_are_ended_in_a_write() {
    let mut world = watching();
    for life in 2..=12 {
        let vip = IpAddr::from([192, 0, 2, 100 + life]);
        world.claim_of(vip, ClaimState::Held(holder("b", life)), 1);
        world.notify(Event::Demand(vip, Some(demand())));
    }
    world.kill("b");
    let lines = world.after(REST);
    let [write] = &lines[..] else { panic!("{lines:?}") };
    let ended = write.strip_prefix("write lease of b: no session, ended ").expect("an expiry");
    let ended: Vec<_> = ended.trim_end_matches(", 4s").split(' ').collect();
    assert!(ended.len() <= 8 && ended.contains(&"b1"), "{ended:?}");
}

#[test]
fn a_missing_lease_is_created_with_the_sessions_that_are_over() {
    let mut world = watching();
    world.kill("b");
    world.after(RENEWAL);
    world.delete_lease("b");
    assert_eq!(world.timeline(REST), ["4.500 create lease of b: no session, ended b1, 4s"]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
}

/// The Lease that was seen before it was gone, if any; if the Node is there; if the VIP is probed; and
/// the seconds until the session is ended. The program of a node whose agent restarts answers for up to
/// 57 s, and only a probe can find it.
#[test]
fn a_node_without_a_lease_has_the_time_of_its_last_one_and_a_node_that_never_was_has_the_shortest() {
    let rows = [
        (Some(LEASE), true, true, "4.500"),
        (Some(LEASE), false, true, "4.500"),
        (Some(RESTART_LEASE), true, true, "60.500"),
        (Some(RESTART_LEASE), false, true, "60.500"),
        (None, true, true, "60.500"),
        (None, false, true, "4.500"),
        (None, true, false, "60.500"),
        (None, false, false, "60.500"),
    ];
    for (seen, has_node, is_probed, after) in rows {
        let probing = is_probed.then_some(ms(700));
        let mut world = World::living_with(&Settings { probing, ..settings("a") }, "a", &["c"]);
        if has_node {
            world.notify(Event::Node(node("b")));
        }
        if let Some(duration) = seen {
            world.lease(LeaseRecord { duration, ..lease("b", Some(session("b", 1)), &[]) });
        }
        world.claim(held("b"), 7);
        world.want();
        world.delete_lease("b");
        let lines = world.timeline(RESTART_LEASE + REST);
        let expired = format!("{after} create lease of b: no session, ended b1, 4s");
        assert_eq!(lines, [expired], "seen {seen:?}, Node {has_node}, probed {is_probed}");
    }
}

/// A restored claim may be of another cluster, whose node still answers.
#[test]
fn the_vip_of_a_node_that_was_never_seen_is_probed() {
    let (free, in_use) = (Probed::Free, Probed::InUse { mac: mac("b"), by_peer: false });
    let take = "write claim: held by a1, epoch 8";
    for (has_lived, probed, taken) in [(true, in_use, true), (false, in_use, false), (false, free, true)] {
        let mut world =
            World::living_with(&Settings { probing: Some(ms(700)), ..settings("a") }, "a", &["c"]);
        world.want();
        if has_lived {
            world.lease(lease("b", Some(session("b", 1)), &[]));
        }
        world.claim(held("b"), 7);
        world.delete_lease("b");
        world.after(REST);
        let mut lines = world.answer();
        lines.extend(world.after(ms(700)));
        lines.extend(world.notify(Event::Probed { vip: VIP, probed }));
        lines.extend(world.after(REST));
        assert_eq!(lines.contains(&take.to_owned()), taken, "lived {has_lived}, {probed:?}: {lines:?}");
    }
}

#[test]
fn a_missing_lease_that_its_owner_has_created_again_is_a_conflict() {
    let mut world = watching();
    world.kill("b");
    world.delete_lease("b");
    world.after(REST);
    world.store_lease(lease("b", Some(session("b", 1)), &[]));
    assert_eq!(world.answer(), ["read lease of b"]);
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(just_before(REST)), [""; 0]);
}

#[test]
fn a_blank_lease_gives_its_owner_lease_and_margin() {
    let mut world = watching();
    world.kill("b");
    world.after(ms(2_000));
    assert_eq!(world.lease(lease("b", None, &[])), [""; 0]);
    assert_eq!(world.timeline(REST), [format!("4.500 {EXPIRE_B}")]);
}

#[test]
fn a_session_that_the_lease_no_longer_carries_is_over_when_another_stands_there_for_lease_and_margin() {
    let mut world = watching();
    // The session is not listed as ended: a user may have edited the Lease.
    assert_eq!(world.lease(lease("b", Some(session("b", 2)), &[])), [""; 0]);
    // A write at the version that was seen ends the session. It leaves the other session as it is.
    let lines = world.timeline(REST + ms(10));
    assert_eq!(lines, ["4.500 write lease of b: b2, ended b1, 4s"]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);
}

#[test]
fn a_session_that_was_edited_away_and_put_back_is_not_over() {
    let mut world = watching();
    let good = world.stored_lease("b");
    world.lease(lease("b", Some(session("b", 2)), &[]));
    world.after(REST.saturating_sub(ms(100)));
    world.lease(good);
    assert_eq!(world.after(REST * 2), [""; 0]);
}

#[test]
fn an_expiry_whose_fate_is_unknown_is_read_at_once_and_retried_if_it_was_not_written() {
    let mut world = watching();
    world.kill("b");
    world.after(REST);
    assert_eq!(world.lose_answer(), ["read lease of b"], "it was written, or another node's was");
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 2"]);

    let mut world = watching();
    world.kill("b");
    world.after(REST);
    assert_eq!(world.lose(), ["read lease of b"]);
    assert_eq!(world.lose(), [""; 0], "the API server is out of reach: no storm of requests");
    assert_eq!(world.timeline(ms(250)), [format!("0.250 {EXPIRE_B}")]);
}

#[test]
fn a_refused_expiry_is_retried() {
    let mut world = watching();
    world.kill("b");
    world.after(REST);
    assert_eq!(world.refuse(), [""; 0]);
    assert_eq!(world.timeline(ms(5_000)), [format!("5.000 {EXPIRE_B}")]);
}

#[test]
fn candidates_expire_one_after_the_other() {
    let mut turns: Vec<String> = ["a", "c", "d"]
        .into_iter()
        .flat_map(|us| {
            let mut others = vec!["a", "b", "c", "d"];
            others.retain(|other| *other != us);
            let mut world = World::living(us, &others);
            world.claim(held("b"), 1);
            world.want();
            world.after(REST);
            world.kill("b");
            world.timeline(REST + ms(2_000))
        })
        .collect();
    turns.sort();
    assert_eq!(
        turns,
        [format!("4.500 {EXPIRE_B}"), format!("5.000 {EXPIRE_B}"), format!("5.500 {EXPIRE_B}")]
    );
}
