//! The lease deadline: only renewals that have succeeded move it.

use std::time::Duration;

use super::world::*;
use crate::ownership::Entry;

/// Returns a world in which a holds the VIP, and its next renewal has just been sent.
fn renewing() -> World {
    let mut world = World::holding(&["b"]).by_hand();
    wait_for_renewal(&mut world);
    world
}

/// Passes time until a renewal is under way.
fn wait_for_renewal(world: &mut World) {
    while world.is_idle() {
        world.after(ms(50));
    }
}

/// Way in which a request fails.
type Failure = fn(&mut World) -> Vec<String>;

fn without_deadline(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| !line.starts_with("lease deadline")).collect()
}

/// Passes `duration`, in which every renewal gets lost. Returns the lines.
fn cut_off(world: &mut World, duration: Duration) -> Vec<String> {
    let end = world.now + duration;
    let mut lines = Vec::new();
    while world.now < end {
        lines.extend(world.after(ms(50)));
        while !world.is_idle() {
            lines.extend(world.lose());
        }
    }
    lines
        .retain(|line| !line.starts_with("lease deadline") && line != "write lease of a: a1, ended none, 4s");
    lines
}

#[test]
fn the_lease_deadline_is_counted_from_when_the_renewal_was_sent() {
    let mut world = renewing();
    let sent = world.now;
    world.after(ms(300));
    world.answer();
    assert_eq!(world.lease_deadline().deadline, sent + (LEASE.saturating_sub(MARGIN + CLOCK_LATE)));
    assert_eq!(world.lease_deadline().session, Some(session("a", 1)));
}

#[test]
fn the_next_renewal_leaves_one_renewal_after_the_last_one() {
    let mut world = renewing();
    world.after(ms(300));
    world.answer();
    let lines = world.timeline(ms(700));
    assert!(lines.contains(&"0.700 write lease of a: a1, ended none, 4s".to_owned()), "{lines:?}");
}

#[test]
fn a_renewal_that_has_not_succeeded_does_not_move_the_lease_deadline() {
    let failures: [(&str, Failure); 4] = [
        ("the request got lost", World::lose),
        ("the answer got lost", World::lose_answer),
        ("it was refused", World::refuse),
        ("another node has written", |world| {
            world.store_lease(world.stored_lease("a"));
            world.answer()
        }),
    ];
    for (description, fail) in failures {
        let mut world = renewing();
        let deadline = world.lease_deadline().deadline;
        fail(&mut world);
        assert_eq!(world.lease_deadline().deadline, deadline, "{description}");
        world.after(ms(100));
        assert_eq!(world.lease_deadline().deadline, deadline, "{description}");
        assert!(world.holds(), "{description}");
    }
}

#[test]
fn a_live_agent_keeps_moving_the_end_of_the_grace_period_while_the_api_server_is_away() {
    let mut world = renewing();
    let deadline = world.lease_deadline().deadline;
    for _ in 0..60 {
        assert_eq!(cut_off(&mut world, RENEWAL), [""; 0]);
        let lease_deadline = world.lease_deadline();
        assert_eq!(lease_deadline.deadline, deadline);
        assert!(
            lease_deadline.grace_until + RENEWAL * 2 >= world.now + HOLD_FOR,
            "{lease_deadline:?} at {:?}",
            world.now
        );
    }
    assert!(world.holds());
}

#[test]
fn a_renewal_whose_fate_is_unknown_is_sent_again_soon() {
    let mut world = renewing();
    assert_eq!(without_deadline(&world.lose()), [""; 0]);
    assert_eq!(without_deadline(&world.after(ms(250))), ["write lease of a: a1, ended none, 4s"]);
}

#[test]
fn a_renewal_that_was_made_unknown_to_us_goes_on_without_a_gap() {
    let mut world = renewing();
    world.lose_answer();
    world.after(ms(250));
    assert_eq!(without_deadline(&world.answer()), ["read lease of a"], "a conflict with ourselves");
    assert_eq!(without_deadline(&world.answer()), ["write lease of a: a1, ended none, 4s"]);
    let sent = world.now;
    assert_eq!(without_deadline(&world.answer()), [""; 0]);
    assert_eq!(world.lease_deadline().deadline, sent + (LEASE.saturating_sub(MARGIN + CLOCK_LATE)));
    assert!(world.holds());
}

#[test]
fn a_renewal_that_is_refused_is_reported_and_tried_again() {
    let mut world = renewing();
    assert_eq!(without_deadline(&world.refuse()), [""; 0]);
    assert_eq!(without_deadline(&world.after(RENEWAL)), ["write lease of a: a1, ended none, 4s"]);
    assert!(world.holds());
}

#[test]
fn a_conflict_ends_the_session_when_the_lease_lists_it_as_ended() {
    let mut world = renewing();
    world.store_lease(lease("a", None, &[session("a", 1)]));
    assert_eq!(without_deadline(&world.answer()), ["read lease of a"]);
    assert!(world.holds(), "until it is known");
    let lines = world.answer();
    assert_eq!(
        without_deadline(&lines)[..3],
        ["tell: a1 has ended", "entry foreign a", "write lease of a: new, ended a1, 4s"]
    );
    assert!(!world.holds());
}

#[test]
fn an_end_of_the_session_that_the_watch_shows_first_is_read_before_it_is_believed() {
    let mut world = World::holding(&["b"]).by_hand();
    world.store_lease(lease("a", None, &[session("a", 1)]));
    assert_eq!(without_deadline(&world.see_lease("a")), ["read lease of a"]);
    assert!(world.holds());
    world.answer();
    assert!(!world.holds());
}

#[test]
fn an_end_of_the_session_that_was_seen_stays_although_the_lease_is_gone_before_it_is_read() {
    // Another node has ended the session and taken the VIP, while this one stood still.
    type Change = fn(&mut World);
    let rows: [(&str, Change); 6] = [
        ("the Lease is read as missing", |world| {
            world.see_lease("a");
            world.forget_lease("a");
            world.answer();
        }),
        ("the watch shows that it is gone too", |world| {
            world.see_lease("a");
            world.delete_lease("a");
            world.answer();
        }),
        ("a renewal was under way, and is written as missing", |world| {
            wait_for_renewal(world);
            world.see_lease("a");
            world.forget_lease("a");
            world.answer();
        }),
        ("a renewal was under way, and is written as a conflict", |world| {
            wait_for_renewal(world);
            world.see_lease("a");
            world.answer();
            world.forget_lease("a");
            world.answer();
        }),
        ("the fate of the read is unknown, and the next renewal is written as missing", |world| {
            world.see_lease("a");
            world.lose();
            world.forget_lease("a");
            wait_for_renewal(world);
            world.answer();
        }),
        ("the Lease was gone before, and is made again", |world| {
            let ended = world.stored_lease("a");
            world.delete_lease("a");
            world.answer();
            world.store_lease(ended);
            world.see_lease("a");
            world.forget_lease("a");
            world.answer();
        }),
    ];
    for (what, change) in rows {
        let mut world = World::holding(&["b"]).by_hand();
        world.store_lease(lease("a", None, &[session("a", 1)]));
        world.store_claim(held("b"), 2);
        let before = world.lease_deadline();
        change(&mut world);
        assert!(!world.holds(), "{what}");
        assert_eq!(world.entry(), Some(Entry::Foreign { mac: mac("a") }), "{what}");
        assert_eq!(world.lease_deadline().deadline, before.deadline, "{what}");
        while !world.is_idle() {
            world.answer();
        }
        let written = world.stored_lease("a");
        assert_eq!(written.ended, [session("a", 1)], "{what}");
        assert!(written.session.is_some_and(|other| other != session("a", 1)), "{what}");
    }
}

#[test]
fn a_conflict_with_another_agent_of_our_name_makes_this_one_let_go() {
    let mut world = renewing();
    world.store_lease(lease("a", Some(session("a", 9)), &[]));
    world.answer();
    assert_eq!(without_deadline(&world.answer()), ["entry foreign a", "tell: not alone, a9"]);
    assert!(!world.holds());
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn a_lease_deadline_that_lapsed_may_simply_be_renewed() {
    let mut world = World::holding(&["b"]).by_hand();
    assert_eq!(cut_off(&mut world, ms(20_000)), [""; 0]);
    assert!(world.lease_deadline().deadline < world.now);
    while world.is_idle() {
        world.after(ms(50));
    }
    // A user may have deleted the claim meanwhile, and another node may have created it anew. Until
    // that is known, the VIP is in its grace period.
    assert_eq!(without_deadline(&world.answer()), ["read claim"], "and nothing is said about entries");
    assert!(world.lease_deadline().deadline < world.now);
    assert_eq!(world.answer(), ["entry held", "lease deadline for 3.496s", "announce"]);
    assert!(world.lease_deadline().deadline > world.now);
    assert!(world.holds());
}

#[test]
fn an_answer_that_comes_too_late_leaves_the_lease_deadline_passed() {
    let mut world = renewing();
    world.want_so(demand());
    world.after(LEASE);
    world.answer();
    assert!(world.lease_deadline().deadline <= world.now);
}

#[test]
fn leases_that_cannot_be_made_at_all_are_asked_for_at_a_calm_pace() {
    let mut world = World::start("a", World::pinned("a", &[])).by_hand();
    world.introduce(&[]);
    world.sync();
    let requests = world.miss_for_10_s();
    assert!((2..=20).contains(&requests), "{requests} requests in 10 s");
}

#[test]
fn a_lease_deadline_is_shortened_before_the_lease_is() {
    // The last process has left a lease and a lease deadline of a minute.
    let mut found = World::pinned("a", &[]);
    found.deadline = found.deadline + RESTART_LEASE;
    let mut world = World::start("a", found).by_hand();
    let left = lease("a", Some(session("a", 1)), &[]);
    world.lease(crate::records::LeaseRecord { duration: RESTART_LEASE, ..left });
    world.introduce(&["b"]);
    let lines = world.sync();
    let write =
        lines.iter().position(|line| line == "write lease of a: a1, ended none, 4s").expect("a renewal");
    let lease_deadline = lines[..write].iter().rposition(|line| line == "lease deadline for 3.496s");
    assert!(lease_deadline.is_some(), "{lines:?}");
    // Carried out or not, other nodes count from a lease of 4 s now.
    world.lose_answer();
    assert!(world.lease_deadline().deadline <= world.now + LEASE);
}
