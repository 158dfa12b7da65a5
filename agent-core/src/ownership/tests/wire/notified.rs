//! Expiry notices for this node's session. The Lease decides if one is true: its state after the
//! notice came, not before.

use super::*;
use crate::ownership::{Entry, Found};

const READ: &str = "read lease of a";
const RENEW: &str = "write lease of a: a1, ended none, 4s";

/// Passes the engine the expiry notice with this number for a session.
fn notified(world: &mut World, life: u8, number: u64) -> Vec<String> {
    world.notify(Event::Detected(Finding::Ended(ExpiryNotice { session: session("a", life), number })))
}

/// Lets some time pass in which each request is carried out at once. Returns the lines about
/// notices and sessions.
fn pass(world: &mut World, duration: std::time::Duration) -> Vec<String> {
    let end = world.now + duration;
    let mut lines = Vec::new();
    while world.now < end {
        lines.extend(world.after(ms(10)));
        while !world.is_idle() {
            lines.extend(world.answer());
        }
    }
    lines.retain(|line| line.contains("ended") && line.starts_with("tell"));
    lines
}

/// Lets the Lease of a list its session as ended. The watch does not show it.
fn end_unseen(world: &mut World) {
    let over = LeaseRecord { session: None, ended: vec![session("a", 1)], ..world.stored_lease("a") };
    world.store_lease(over);
}

#[test]
fn a_word_is_settled_by_what_the_lease_says_after_it_came() {
    type Change = fn(&mut World);
    let rows: [(&str, u8, Change, &[&str], u64); 7] = [
        ("the session lives", 1, |_| {}, &["tell: a1 has not ended"], 6),
        ("the session has ended", 1, end_unseen, &["tell: a1 has ended"], 0),
        ("the word is about another session", 9, |_| {}, &[], 0),
        (
            "the Lease is missing: whoever ends a session lists it there",
            1,
            |world| world.forget_lease("a"),
            &["tell: a1 has not ended"],
            6,
        ),
        (
            "the Lease is blank",
            1,
            |world| world.store_lease(LeaseRecord { session: None, ..world.stored_lease("a") }),
            &["tell: a1 has not ended"],
            6,
        ),
        (
            "the Lease carries another session: another agent has this name",
            1,
            |world| {
                let other = LeaseRecord { session: Some(session("a", 2)), ..world.stored_lease("a") };
                world.store_lease(other);
            },
            &[],
            0,
        ),
        (
            "the Lease was written otherwise, and lives",
            1,
            |world| world.store_lease(world.stored_lease("a")),
            &["tell: a1 has not ended"],
            6,
        ),
    ];
    for (what, life, change, lines, settled) in rows {
        let mut world = holding(&["b", "c"]);
        change(&mut world);
        let mut seen = notified(&mut world, life, 5);
        seen.retain(|line| line.starts_with("tell"));
        seen.extend(pass(&mut world, RENEWAL + ms(100)));
        assert_eq!(seen, lines, "{what}");
        assert_eq!(world.lease_deadline().notices_settled, settled, "{what}");
        let counts = world.engine.wire_counts();
        assert_eq!(counts.false_ends, u64::from(settled > 0), "{what}");
        if settled > 0 {
            assert!(world.holds() && said(&world).mode == Mode::Notice, "{what}: once is no pattern");
        }
    }
}

#[test]
fn the_lease_is_read_and_renewed_at_once() {
    let mut world = holding(&["b", "c"]).by_hand();
    assert_eq!(notified(&mut world, 1, 5), [READ]);
    assert_eq!(world.answer(), [RENEW], "a read alone settles nothing");
    assert_eq!(world.lease_deadline().notices_settled, 0);
    world.answer();
    assert_eq!(world.lease_deadline().notices_settled, 6);
    assert!(world.holds());
}

#[test]
fn a_renewal_from_before_the_word_settles_nothing() {
    let mut world = holding(&["b", "c"]).by_hand();
    while world.is_idle() {
        world.after(ms(10));
    }
    assert_eq!(notified(&mut world, 1, 5), [""; 0], "the renewal that is under way comes first");
    world.answer();
    assert_eq!(world.lease_deadline().notices_settled, 0, "the session may have ended after it");
    while world.is_idle() {
        world.after(ms(10));
    }
    world.answer();
    assert_eq!(world.lease_deadline().notices_settled, 6);
}

#[test]
fn a_word_that_comes_while_the_one_before_is_settled_stands() {
    let mut world = holding(&["b", "c"]).by_hand();
    notified(&mut world, 1, 5);
    world.answer();
    notified(&mut world, 1, 6);
    world.answer();
    assert_eq!(world.lease_deadline().notices_settled, 6, "the renewal had been sent before the later word");
    // That one is true.
    end_unseen(&mut world);
    while world.is_idle() {
        world.after(ms(10));
    }
    assert_eq!(world.answer(), [READ]);
    assert!(world.answer().contains(&"tell: a1 has ended".to_owned()));
    assert!(!world.holds());
    assert_eq!(world.lease_deadline().notices_settled, 6);
}

#[test]
fn a_true_word_right_after_a_false_one_is_heeded_within_a_renewal() {
    let mut world = holding(&["b", "c"]);
    notified(&mut world, 1, 5);
    assert_eq!(pass(&mut world, ms(50)), ["tell: a1 has not ended"]);
    end_unseen(&mut world);
    assert_eq!(notified(&mut world, 1, 6), [""; 0], "a flood of words makes no flood of requests");
    assert_eq!(pass(&mut world, RENEWAL), ["tell: a1 has ended"]);
}

#[test]
fn while_the_api_server_is_away_a_word_stands_and_makes_no_flood_of_requests() {
    let mut world = holding(&["b", "c"]).by_hand();
    let mut requests = 0;
    for number in 0..1_000 {
        notified(&mut world, 1, number);
        world.after(ms(10));
        while !world.is_idle() {
            world.lose();
            requests += 1;
        }
    }
    assert!(requests <= 42, "{requests} requests in 10 s");
    assert_eq!(world.lease_deadline().notices_settled, 0);
    assert_eq!(world.engine.wire_counts().false_ends, 0);
}

#[test]
fn a_process_that_starts_settles_a_word_that_it_finds_and_none_that_is_settled() {
    for (found, number, settled, counted) in [(0, 5, 6, 1), (6, 5, 6, 0), (6, 6, 7, 1)] {
        for policy in [vipward_common::Policy::Hold, vipward_common::Policy::Stop] {
            let pinned = World::pinned("a", &[(VIP, Entry::Held)]);
            let settings = Settings { policy, ..wired() };
            let found = Found { notices_settled: found, ..pinned };
            let mut world = World::start_with(&settings, "a", found).by_hand();
            notified(&mut world, 1, number);
            world.lease(lease("a", Some(session("a", 1)), &[]));
            world.introduce(&["b"]);
            world.claim(held("a"), 1);
            world.want();
            world.sync();
            while !world.is_idle() {
                world.answer();
            }
            let what = format!("{policy:?}, word {number}");
            assert_eq!(world.lease_deadline().notices_settled, settled, "{what}");
            assert_eq!(world.engine.wire_counts().false_ends, counted, "{what}");
        }
    }
}

#[test]
fn a_process_that_starts_believes_a_word_that_its_lease_confirms() {
    let mut world = World::start_with(&wired(), "a", World::pinned("a", &[(VIP, Entry::Held)]));
    notified(&mut world, 1, 5);
    world.lease(lease("a", None, &[session("a", 1)]));
    world.introduce(&["b"]);
    world.sync();
    assert!(!world.holds());
    assert_eq!(world.lease_deadline().notices_settled, 0);
    assert_ne!(world.lease_deadline().session, Some(session("a", 1)));
}

#[test]
fn two_false_words_in_ten_minutes_leave_only_the_lease_for_an_hour() {
    let mut world = holding(&["b", "c"]);
    let falsely = |world: &mut World, number| {
        notified(world, 1, number);
        pass(world, RENEWAL * 2)
    };
    assert_eq!(falsely(&mut world, 1), ["tell: a1 has not ended"]);
    world.after(ms(601_000));
    assert_eq!(falsely(&mut world, 2), ["tell: a1 has not ended"], "the first one was long ago");
    assert!(world.heeds() && said(&world).mode == Mode::Notice);
    assert_eq!(falsely(&mut world, 3), ["tell: a1 has not ended, mute for 3600s"]);
    assert!(!world.heeds(), "the program has no key, so that a third word is refused");
    assert_eq!(world.stored_lease("a").wire, None);
    assert!(world.plan().peers.is_empty(), "it pings no node, and is no monitor");
    let view = world.engine.wire_view(world.now).expect("it would take part");
    assert_eq!((view.quiet, world.engine.wire_counts().false_ends), (Some(LeaseOnly::FalseEnds), 3));
    assert!(world.holds(), "the VIP stays");
    world.after(ms(3_590_000));
    assert!(!world.heeds() && world.stored_lease("a").wire.is_none());
    world.after(ms(20_000));
    assert!(world.heeds() && !world.plan().peers.is_empty());
    for peer in ["b", "c"] {
        pinged(&mut world, peer, true);
    }
    world.after(RENEWAL * 3);
    assert_eq!(said(&world).mode, Mode::Notice);
}

#[test]
fn a_node_that_leaves_wire_failover_heeds_frames_until_its_lease_says_so() {
    let mut world = holding(&["b", "c"]).by_hand();
    notified(&mut world, 1, 1);
    world.answer();
    world.answer();
    world.after(RENEWAL * 2);
    while !world.is_idle() {
        world.answer();
    }
    notified(&mut world, 1, 2);
    world.answer();
    let lines = world.answer();
    assert!(lines.contains(&"tell: a1 has not ended, mute for 3600s".to_owned()), "{lines:?}");
    assert!(lines.contains(&RENEW.to_owned()), "{lines:?}");
    assert!(world.heeds() && !world.plan().peers.is_empty(), "others may still end its session");
    world.answer();
    assert!(!world.heeds() && world.plan().peers.is_empty());
}

#[test]
fn a_node_without_a_part_in_wire_failover_heeds_no_frame_once_its_lease_says_so() {
    let stop = Settings { policy: vipward_common::Policy::Stop, ..wired() };
    let off = settings("a");
    for settings in [stop, off] {
        let world = World::living_with(&settings, "a", &["b"]);
        assert!(!world.heeds());
    }
    let mut world = holding(&["b", "c"]);
    assert!(world.heeds());
    world.notify(Event::WireSelf(None));
    pass(&mut world, RENEWAL);
    assert!(!world.heeds(), "its thread has ended");
}
