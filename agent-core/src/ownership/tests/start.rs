//! Start of a process: it decides nothing before it knows everything.
//! Pinned entries go on only in their own session.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{Defence, LeaseDeadline, MacAddr, Policy, Role, VipEntry, VipKey};

use super::world::*;
use crate::{
    base::time::Monotonic,
    ownership::{Entry, Event, Found},
    records::Session,
};

/// Returns a world in which a has started with the pins of its first
/// session, which held the VIP, and b lives.
fn restarted(lease_of_a: Option<crate::records::LeaseRecord>) -> World {
    let mut world = World::start("a", World::pinned("a", &[(VIP, Entry::Held)])).by_hand();
    if let Some(lease) = lease_of_a {
        world.lease(lease);
    }
    world.introduce(&["b"]);
    world.claim(held("a"), 1);
    world.want();
    world
}

/// Returns true if a line stops answering for the VIP, or requests its claim.
fn changes_something(lines: &[String]) -> bool {
    lines.iter().any(|line| {
        line.starts_with("no entry") || line.starts_with("entry foreign") || line.contains(" claim")
    })
}

fn position(lines: &[String], beginning: &str) -> usize {
    lines
        .iter()
        .position(|line| line.starts_with(beginning))
        .unwrap_or_else(|| panic!("{beginning} in {lines:?}"))
}

#[test]
fn nothing_is_decided_before_everything_has_been_listed() {
    let mut world = World::start("a", Found::default()).by_hand();
    world.introduce(&["b"]);
    assert_eq!(world.claim(held("b"), 1), [""; 0]);
    assert_eq!(world.want(), [""; 0]);
    assert_eq!(world.notify(Event::Demand(VIP_2, Some(demand()))), [""; 0]);
    assert_eq!(world.end("b"), [""; 0]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn before_everything_has_been_listed_the_found_lease_deadline_is_neither_moved_nor_left_to_end() {
    let mut world = World::start("a", World::pinned("a", &[(VIP, Entry::Held)]));
    let found = World::pinned("a", &[]);
    assert_eq!(world.after(ms(10_000)), [""; 0]);
    assert_eq!(
        (world.lease_deadline().session, world.lease_deadline().deadline),
        (found.session, found.deadline)
    );
    assert!(
        world.lease_deadline().grace_until + RENEWAL >= world.now + HOLD_FOR,
        "{:?} at {:?}",
        world.lease_deadline(),
        world.now
    );
}

#[test]
fn a_node_without_a_lease_begins_a_new_session() {
    let mut world = World::start("a", Found::default()).by_hand();
    world.introduce(&[]);
    assert_eq!(world.sync(), ["create lease of a: new, ended none, 4s"]);
}

#[test]
fn a_session_that_is_pinned_and_in_the_lease_goes_on_and_nothing_is_written_but_the_lease() {
    let mut world = restarted(Some(lease("a", Some(session("a", 1)), &[])));
    let lines = world.sync();
    position(&lines, "write lease of a: a1, ended none, 4s");
    assert!(!changes_something(&lines), "{lines:?}");
    let lines = world.answer();
    assert!(!changes_something(&lines), "{lines:?}");
    assert!(world.holds());
}

#[test]
fn what_is_found_held_while_the_lease_deadline_is_valid_is_ours_and_a_claim_that_names_another_is_repaired() {
    let mut world = restarted(Some(lease("a", Some(session("a", 1)), &[])));
    world.claim(held("b"), 2);
    let mut lines = world.sync();
    lines.extend(world.answer());
    position(&lines, "write claim: held by a1, epoch 2");
    assert!(!lines.contains(&"entry foreign b".to_owned()), "{lines:?}");
    assert!(world.holds());
}

#[test]
fn an_entry_that_is_found_held_is_dropped_when_the_lease_deadline_has_passed_and_the_claim_names_another() {
    let mut world = restarted(Some(lease("a", Some(session("a", 1)), &[])));
    world.after(LEASE);
    world.claim(held("b"), 2);
    let lines = world.sync();
    assert!(lines.contains(&"entry foreign b".to_owned()), "{lines:?}");
    assert!(!world.holds());
}

#[test]
fn an_entry_that_is_found_without_claim_or_service_is_removed() {
    let mut world = World::start("a", World::pinned("a", &[(VIP, Entry::Held)]));
    world.lease(lease("a", Some(session("a", 1)), &[]));
    world.introduce(&[]);
    assert_eq!(world.sync(), ["no entry"]);
}

#[test]
fn another_session_that_is_renewed_means_another_agent_and_this_one_keeps_out() {
    let mut world = restarted(Some(lease("a", Some(session("a", 9)), &[])));
    assert_eq!(world.sync(), [""; 0]);
    world.after(ms(900));
    let lines = world.renew("a");
    assert_eq!(lines, ["entry foreign ?", "tell: not alone, a9"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
    assert!(!world.holds());
}

#[test]
fn another_session_that_is_silent_for_two_renewals_is_ended_by_the_new_one() {
    let mut world = World::start("a", Found::default()).by_hand();
    world.lease(lease("a", Some(session("a", 9)), &[]));
    world.introduce(&[]);
    assert_eq!(world.sync(), [""; 0]);
    let lines = world.timeline(RENEWAL * 2);
    assert_eq!(lines[0], "2.000 write lease of a: new, ended a9, 4s");
}

#[test]
fn another_session_that_is_renewed_just_as_it_is_ended_is_left_alone() {
    let mut world = World::start("a", Found::default()).by_hand();
    world.lease(lease("a", Some(session("a", 9)), &[]));
    world.introduce(&[]);
    world.sync();
    world.after(RENEWAL * 2);
    world.store_lease(lease("a", Some(session("a", 9)), &[]));
    assert_eq!(world.answer(), ["read lease of a"], "a conflict");
    assert_eq!(world.answer(), ["tell: not alone, a9"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn what_an_ended_session_held_is_let_go_of_before_the_new_session_is_written() {
    let mut world = restarted(Some(lease("a", None, &[session("a", 1)])));
    let lines = world.sync();
    let entry = position(&lines, "entry foreign");
    let write = position(&lines, "write lease of a: new, ended a1, 4s");
    assert!(entry < write, "{lines:?}");
    assert!(!world.holds());
}

#[test]
fn a_lease_that_is_missing_or_blank_is_put_right_in_the_session_that_is_pinned() {
    let mut world = restarted(None);
    let lines = world.sync();
    position(&lines, "create lease of a: a1, ended none, 4s");
    assert!(!changes_something(&lines), "{lines:?}");

    let mut world = restarted(Some(lease("a", None, &[])));
    let lines = world.sync();
    position(&lines, "write lease of a: a1, ended none, 4s");
    assert!(!changes_something(&lines), "{lines:?}");
    world.answer();
    assert!(world.holds());
}

#[test]
fn a_claim_of_an_own_session_that_ended_long_ago_is_free() {
    let mut world = World::start("a", Found::default());
    // The Lease remembers the latest sessions only.
    world.lease(lease("a", None, &[session("a", 9)]));
    world.introduce(&[]);
    world.claim(held("a"), 3);
    world.want();
    world.sync();
    let lines = world.answer();
    assert!(lines.iter().any(|line| line == "entry held"), "{lines:?}");
}

/// Description; each entry of the VIP with its interface, and true if it was yielded; what is found.
type Row = (&'static str, &'static [(u32, Role, bool)], Option<Entry>, bool);

#[test]
fn the_pins_are_what_answers_what_another_node_has_and_what_was_yielded() {
    let at = |seconds| Monotonic::default() + Duration::from_secs(seconds);
    let (own, other) = (mac("a"), mac("b"));
    let handover = Entry::Handover { mac: other, until: at(5) };
    let rows: [Row; 7] = [
        ("held", &[(3, Role::Held, false)], Some(Entry::Held), false),
        ("handed over", &[(3, Role::Handover, false)], Some(handover), false),
        ("another has it", &[(3, Role::Foreign, false)], Some(Entry::Foreign { mac: other }), false),
        ("another has it, not known which", &[(0, Role::Foreign, false)], None, false),
        ("yielded", &[(3, Role::Held, true)], None, true),
        (
            "held, and silent elsewhere",
            &[(3, Role::Held, false), (4, Role::Foreign, false)],
            Some(Entry::Held),
            false,
        ),
        (
            "the same, in the other order",
            &[(2, Role::Foreign, false), (3, Role::Held, false)],
            Some(Entry::Held),
            false,
        ),
    ];
    for (what, entries, expected, is_yielded) in rows {
        let entry = |(ifindex, role, is_yielded): &(u32, Role, bool)| {
            let mac = match (role, ifindex) {
                (Role::Held, _) => own,
                (_, 0) => MacAddr::ZERO,
                (Role::Handover | Role::Foreign, _) => other,
            };
            let entry =
                VipEntry { mac: mac.0, generation: 1, role: *role, slot: 0, until_ns: at(5).as_nanos() };
            (VipKey::new(*ifindex, VIP), entry, *is_yielded)
        };
        for (policy, answers_until) in [(Policy::Hold, 20), (Policy::Stop, 10)] {
            let lease_deadline = LeaseDeadline {
                deadline_ns: at(10).as_nanos(),
                grace_until_ns: at(20).as_nanos(),
                yields_settled: 1,
                session: 7,
                notices_settled: 3,
                policy,
                defence: Defence::Off,
            };
            let found = Found {
                session: Session::from_number(7),
                deadline: at(10),
                answers_until: at(answers_until),
                entries: expected.map(|entry| BTreeMap::from([(VIP, entry)])).unwrap_or_default(),
                yielded: is_yielded.then_some(VIP).into_iter().collect(),
                notices_settled: 3,
            };
            assert_eq!(Found::of(&lease_deadline, entries.iter().map(entry)), found, "{what}, {policy:?}");
        }
    }
}
