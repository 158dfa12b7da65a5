//! Disputes: the wire contradicts the engine. The engine reads the claim, and believes it.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use vipward_common::Policy;

use super::world::*;
use crate::ownership::{Event, Found, Probed, Settings, Wire};

fn contested() -> Event {
    Event::Wire { vip: VIP, received: Wire::Contested { mac: mac("b") } }
}

fn yielded() -> Event {
    Event::Wire { vip: VIP, received: Wire::Yielded { mac: mac("b") } }
}

/// Passes five seconds in which none of this node's requests reaches the API server.
fn lapse(world: &mut World) {
    for _ in 0..100 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(world.lease_deadline().deadline < world.now, "the lease deadline has passed");
}

#[test]
fn a_holder_that_is_contested_reads_the_claim_and_announces_again_if_it_is_its_own() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(contested()), ["read claim"]);
    assert_eq!(world.answer(), ["entry held", "announce"]);
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

#[test]
fn a_holder_that_is_contested_believes_the_claim_when_it_names_the_other() {
    let mut world = World::holding(&["b"]);
    world.store_claim(held("b"), 2);
    assert_eq!(world.notify(contested()), ["read claim"]);
    assert_eq!(world.answer(), ["entry foreign b"]);
    assert!(!world.holds());
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

#[test]
fn a_contest_that_repeats_while_the_claim_is_read_asks_for_nothing_more() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(contested()), ["read claim"]);
    assert_eq!(world.notify(contested()), [""; 0]);
}

#[test]
fn a_yielded_vip_may_be_taken_back_while_no_claim_of_another_node_is_known() {
    let found = || World::pinned("a", &[]);
    let hold = Settings { policy: Policy::Hold, probing: Some(ms(700)), ..settings("a") };
    let may = |world: &World| world.engine.may_take_back(VIP);
    let begun = |settings: &Settings| {
        let mut world = World::living_with(settings, "a", &["b"]);
        world.want();
        world.notify(Event::Probed { vip: VIP, probed: Probed::Free });
        while !world.is_idle() {
            world.answer();
        }
        assert!(world.holds());
        world
    };
    let mut world = begun(&hold);
    world.notify(yielded());
    assert!(may(&world), "its claim has not been read");
    world.answer();
    assert!(may(&world), "its claim names this node");
    world.store_claim(held("b"), 7);
    world.notify(yielded());
    world.answer();
    assert!(!may(&world), "its claim names another node");

    for (what, settings) in [
        ("the policy is stop", Settings { policy: Policy::Stop, ..hold.clone() }),
        ("nothing is probed", Settings { probing: None, ..hold.clone() }),
    ] {
        assert!(!World::start_with(&settings, "a", found()).engine.may_take_back(VIP), "{what}");
    }
    assert!(may(&World::start_with(&hold, "a", found())), "the pins have a session, and nothing was read");
    assert!(!may(&World::start_with(&hold, "a", Found::default())), "the pins have no session");
}

#[test]
fn a_contest_about_what_is_not_held_is_of_no_interest() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    assert_eq!(world.notify(contested()), [""; 0]);
    assert_eq!(world.notify(yielded()), [""; 0]);
}

#[test]
fn what_was_yielded_is_taken_back_when_the_claim_is_ours_and_the_lease_deadline_is_valid() {
    let mut world = World::holding(&["b"]).by_hand();
    lapse(&mut world);
    let lines = world.notify(yielded());
    assert!(lines.contains(&"read claim".to_owned()), "{lines:?}");
    let mut lines = Vec::new();
    while !world.is_idle() {
        let more = world.answer();
        lines.extend(more);
    }
    if world.lease_deadline().deadline < world.now {
        assert!(
            !lines.contains(&"entry held".to_owned()),
            "not before the lease deadline is valid: {lines:?}"
        );
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
fn what_was_yielded_while_the_lease_deadline_was_valid_again_is_taken_back_at_once() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(yielded()), ["read claim"]);
    assert_eq!(world.answer(), ["entry held", "announce"]);
}

#[test]
fn what_was_yielded_to_the_one_that_the_claim_names_stays_there() {
    let mut world = World::holding(&["b"]).by_hand();
    lapse(&mut world);
    world.store_claim(held("b"), 2);
    world.store_lease(lease("a", None, &[session("a", 1)]));
    world.notify(yielded());
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

/// Contests all VIPs every 100 ms for this time, and answers each request at once by `answer`.
/// Returns the times of the reads, in milliseconds, and asserts that no entry stops answering.
fn flood(
    world: &mut World,
    vips: &[IpAddr],
    duration: Duration,
    answer: fn(&mut World) -> Vec<String>,
) -> Vec<(u64, String)> {
    let begin = world.now;
    let mut reads = Vec::new();
    while world.now < begin + duration {
        let mut lines = Vec::new();
        for vip in vips {
            lines
                .extend(world.notify(Event::Wire { vip: *vip, received: Wire::Contested { mac: mac("b") } }));
        }
        lines.extend(world.after(ms(100)));
        while !world.is_idle() {
            lines.extend(answer(world));
        }
        let after = u64::try_from(world.now.saturating_since(begin).as_millis()).expect("a short time");
        for line in lines {
            assert!(!line.starts_with("entry") || line.contains("held"), "{line} after {after} ms");
            reads.extend(line.starts_with("read claim").then_some((after, line)));
        }
    }
    reads
}

fn many(count: u8) -> Vec<IpAddr> {
    (0..count).map(|number| IpAddr::from([192, 0, 2, 10 + number])).collect()
}

#[test]
fn a_flood_of_forged_claims_on_many_vips_makes_a_node_read_five_claims_a_second() {
    let vips = many(100);
    for (what, answer) in [("confirmed", World::answer as fn(&mut World) -> _), ("refused", World::refuse)] {
        let mut world = World::holding_all(&["b"], &vips);
        let reads = flood(&mut world, &vips, Duration::from_secs(20), answer);
        assert!((95..=101).contains(&reads.len()), "{what}: {} reads in 20 s", reads.len());
        let different: BTreeSet<_> = reads.iter().map(|(_, line)| line).collect();
        assert!(different.len() >= 95, "{what}: the VIPs take turns: {} were read", different.len());
    }
}

#[test]
fn a_flood_of_forged_claims_on_one_vip_makes_a_node_read_it_ever_more_rarely() {
    let mut world = World::holding(&["b"]);
    let reads = flood(&mut world, &[VIP], Duration::from_mins(5), World::answer);
    let seconds: Vec<_> = reads.iter().map(|(after, _)| after / 1_000).collect();
    assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
}

#[test]
fn a_changed_claim_is_read_at_once_however_many_forged_claims_came_before() {
    let mut world = World::holding(&["b"]);
    flood(&mut world, &[VIP], Duration::from_secs(20), World::answer);
    world.store_claim(held("b"), 2);
    assert_eq!(world.watch_shows(VIP), ["read claim"]);
    world.answer();
    assert_eq!(world.after(ms(100)), ["entry foreign b"], "when a renewal has succeeded");
}

#[test]
fn a_claim_that_no_watch_shows_is_found_in_spite_of_forged_claims_before() {
    let mut world = World::holding(&["b"]);
    flood(&mut world, &[VIP], Duration::from_secs(20), World::answer);
    world.store_claim(held("b"), 2);
    assert_eq!(world.notify(contested()), [""; 0]);
    assert_eq!(world.after(Duration::from_secs(12)), ["read claim"], "31 s after the first one");
    assert_eq!(world.answer(), ["entry foreign b"]);
}

#[test]
fn a_yield_is_read_at_once_in_spite_of_forged_claims_before() {
    let mut world = World::holding(&["b"]);
    flood(&mut world, &[VIP], Duration::from_secs(20), World::answer);
    assert_eq!(world.notify(yielded()), ["read claim"]);
    assert_eq!(world.answer(), ["entry held", "announce"]);
}
