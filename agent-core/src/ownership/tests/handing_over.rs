//! Handing over: make before break, and failures half-way.

use super::world::*;
use crate::{
    ownership::{Entry, Event, Outcome, Wire},
    records::ClaimState,
};

const HANDOVER: &str = "entry handover b for 4.275s";
const OFFER: &str = "write claim: offered to b1 by a1, epoch 2";

/// Returns a world in which a has been cordoned, and has sent its offer to b.
fn offering() -> World {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.cordon("a", true), [HANDOVER, OFFER]);
    world
}

/// Returns a world in which the offer has been written.
fn offered_to_b() -> World {
    let mut world = offering();
    assert_eq!(world.answer(), [""; 0]);
    world
}

fn moved(node: &str) -> Event {
    Event::Wire { vip: VIP, received: Wire::Moved { mac: mac(node) } }
}

/// Returns a world in which b lives and a holds the VIP, which a test then offers to b.
fn successor() -> World {
    let mut world = World::living("b", &["a"]);
    world.claim(held("a"), 1);
    world.want();
    world.after(REST * 2);
    world
}

#[test]
fn the_entry_answers_for_the_successor_before_the_claim_names_it() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.cordon("a", true), [HANDOVER, OFFER]);
}

#[test]
fn a_successor_says_in_the_claim_that_it_knows_before_it_answers() {
    let mut world = successor();
    let lines = world.claim(offered("a", "b"), 2);
    assert_eq!(lines.last().map(String::as_str), Some("write claim: held by b1, epoch 2"));
    assert!(!world.holds());
    assert_eq!(world.answer(), ["entry held", "tell: held, from a"]);
    assert!(world.holds());
}

#[test]
fn the_old_holder_answers_for_the_successor_as_long_as_the_claim_rests_for_sure() {
    let mut world = offered_to_b();
    world.after(ms(400));
    // Other nodes act after lease and margin from the acceptance at the earliest, by their clocks.
    assert_eq!(world.claim(held("b"), 2), [""; 0]);
    world.after(ms(600));
    assert_eq!(world.notify(moved("b")), [""; 0]);
    assert_eq!(world.timeline(ms(20_000)), ["3.275 entry foreign b"]);
}

#[test]
fn the_order_in_which_the_move_is_seen_and_read_does_not_matter() {
    let mut world = offered_to_b();
    world.after(ms(400));
    assert_eq!(world.notify(moved("b")), [""; 0]);
    world.after(ms(600));
    world.claim(held("b"), 2);
    assert_eq!(world.timeline(ms(20_000)), ["3.275 entry foreign b"]);
}

#[test]
fn a_move_that_was_never_seen_on_the_wire_ends_all_the_same() {
    let mut world = offered_to_b();
    world.claim(held("b"), 2);
    assert_eq!(world.timeline(ms(20_000)), ["4.275 entry foreign b"]);
}

#[test]
fn an_announcement_by_a_third_is_no_sign_of_the_successor() {
    let mut world = offered_to_b();
    world.notify(moved("c"));
    assert_eq!(world.timeline(ms(2_000)), ["2.000 write claim: held by a1, epoch 3"]);
}

#[test]
fn an_announcement_without_an_acceptance_is_not_waited_on_for_ever() {
    let mut world = offered_to_b();
    world.after(ms(500));
    world.notify(moved("b"));
    assert_eq!(world.timeline(ms(2_000)), ["2.000 read claim"]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 3"]);
    assert_eq!(world.answer()[0], "entry held");
}

#[test]
fn what_a_successor_does_not_take_in_time_is_taken_back_and_answered_by_itself_only_then() {
    let mut world = offered_to_b();
    assert_eq!(world.timeline(ms(2_000)), ["2.000 write claim: held by a1, epoch 3"]);
    assert_eq!(world.answer()[0], "entry held");
    assert!(world.holds());
}

#[test]
fn a_take_back_that_comes_too_late_finds_the_successor_holding_it() {
    let mut world = offered_to_b();
    world.after(ms(2_000));
    world.store_claim(held("b"), 2);
    assert_eq!(world.answer(), ["read claim"], "a conflict");
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.timeline(ms(20_000)), ["2.275 entry foreign b"]);
}

#[test]
fn a_take_back_whose_fate_is_unknown_is_read_before_anything_is_answered_otherwise() {
    for (is_written, then) in
        [(true, "write claim: held by a1, epoch 3"), (false, "write claim: held by a1, epoch 3")]
    {
        let mut world = offered_to_b();
        world.after(ms(2_000));
        let lines = if is_written { world.lose_answer() } else { world.lose() };
        assert_eq!(lines, ["read claim"], "written: {is_written}");
        assert_eq!(world.answer(), [then], "written: {is_written}");
        assert_eq!(world.answer()[0], "entry held", "written: {is_written}");
    }
}

#[test]
fn an_offer_that_fails_leaves_the_vip_where_it_is() {
    let mut world = offering();
    let note = world.claimed().clone();
    world.store_record(note);
    assert_eq!(world.answer(), ["entry held", "read claim"], "a conflict");
    assert!(world.holds());

    let mut world = offering();
    assert_eq!(world.refuse(), ["entry held"]);
    assert!(world.holds());
    let lines = world.timeline(ms(5_000));
    assert_eq!(lines, [format!("5.000 {HANDOVER}"), format!("5.000 {OFFER}")], "it is tried again");
}

#[test]
fn an_offer_that_fails_after_another_node_has_taken_the_vip_brings_no_answer_back() {
    let rows = [
        ("held by b", held("b"), 2, true),
        ("offered by b to c", offered("b", "c"), 3, true),
        ("released by b", ClaimState::Released, 2, false),
        ("an older claim", held("b"), 1, false),
    ];
    for (what, state, epoch, is_anothers) in rows {
        for is_refused in [false, true] {
            let mut world = offering();
            world.store_claim(state.clone(), epoch);
            assert_eq!(world.notify(Event::Claim(world.claimed().clone())), [""; 0], "{what}: under way");
            let lines = if is_refused { world.refuse() } else { world.answer() };
            assert_eq!(lines.contains(&"entry held".to_owned()), !is_anothers, "{what}: {lines:?}");
            let is_read = lines.contains(&"read claim".to_owned());
            assert_eq!(is_read, is_anothers || !is_refused, "{what}: {lines:?}");
        }
    }
}

#[test]
fn an_offer_whose_fate_is_unknown_is_read_before_it_is_decided_on() {
    // The offer was written, and the handover goes on.
    let mut world = offering();
    assert_eq!(world.lose_answer(), ["read claim"]);
    assert_eq!(world.answer(), [""; 0]);
    world.claim(held("b"), 2);
    assert_eq!(world.after(ms(20_000)), ["entry foreign b"]);

    // The offer was written and accepted, before the answer came: only the read shows it.
    let mut world = offering();
    let offer = world.take_request();
    world.store_claim(held("b"), 2);
    let outcome = Outcome::Unknown;
    assert_eq!(world.notify(Event::ClaimWritten { vip: VIP, outcome }), ["read claim"], "after {offer:?}");
    assert!(matches!(world.entry(), Some(Entry::Handover { mac: to, .. }) if to == mac("b")));
    assert_eq!(world.answer(), [""; 0]);
    assert!(!world.holds());
    assert_eq!(world.timeline(ms(20_000)), ["4.275 entry foreign b"]);

    // The offer was not written. It still could be, unless another write comes before it.
    let mut world = offering();
    assert_eq!(world.lose(), ["read claim"]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 1"]);
    assert_eq!(world.answer()[0], "entry held");
    assert!(world.holds());
}

#[test]
fn an_acceptance_that_comes_too_late_finds_the_vip_taken_back() {
    let mut world = successor();
    world.claim(offered("a", "b"), 2);
    world.store_claim(held("a"), 3);
    assert_eq!(world.answer(), ["read claim"], "a conflict");
    assert_eq!(world.answer(), ["entry foreign a"]);
    assert!(!world.holds());
}

#[test]
fn an_acceptance_whose_fate_is_unknown_is_read_and_written_again() {
    for lose in [World::lose, World::lose_answer] {
        let mut world = successor();
        world.claim(offered("a", "b"), 2);
        assert_eq!(lose(&mut world), ["read claim"]);
        assert_eq!(world.answer(), ["write claim: held by b1, epoch 2"]);
        assert!(!world.holds());
        assert_eq!(world.answer()[0], "entry held");
    }
}

#[test]
fn an_acceptance_whose_answer_comes_when_the_lease_deadline_has_passed_makes_nothing_held() {
    let mut world = successor().by_hand();
    world.claim(offered("a", "b"), 2);
    let write = world.take_request();
    for _ in 0..100 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    world.put_back(write);
    world.answer();
    assert!(!world.holds());
}

#[test]
fn a_successor_that_dies_before_it_has_accepted_gets_nothing() {
    let mut world = offered_to_b();
    world.kill("b");
    assert_eq!(world.timeline(ms(2_000)), ["2.000 write claim: held by a1, epoch 3"]);
}

#[test]
fn a_successor_that_dies_after_it_has_accepted_is_expired_like_any_holder() {
    let mut world = offered_to_b();
    world.claim(held("b"), 2);
    world.notify(moved("b"));
    world.kill("b");
    assert_eq!(
        world.timeline(REST),
        ["4.275 entry foreign b", "4.500 write lease of b: no session, ended b1, 4s"]
    );
    let lines = world.answer();
    assert_eq!(lines.last().map(String::as_str), Some("write claim: held by a1, epoch 3"));
    assert_eq!(world.answer()[0], "entry held");
}

#[test]
fn a_named_successor_that_cannot_hold_it_releases_it_when_no_node_takes_it_back() {
    let mut world = successor();
    world.notify(Event::Interfaces(changed_interface("b", |interface| interface.carrier = false)));
    world.claim(offered("a", "b"), 2);
    world.kill("a");
    assert!(world.is_idle(), "the one who offers it may take it back");
    assert_eq!(world.timeline(REST), ["4.500 write lease of a: no session, ended a1, 4s"]);
    let lines = world.answer();
    assert_eq!(lines, ["entry foreign ?", "write claim: released, epoch 2"]);
}

#[test]
fn nothing_is_offered_while_a_claim_rests() {
    let mut world = World::living("a", &["b"]);
    world.want();
    world.answer();
    assert_eq!(world.cordon("a", true), [""; 0]);
    let lines = world.timeline(REST);
    assert_eq!(lines, [format!("4.500 {HANDOVER}"), format!("4.500 {OFFER}")]);
}

#[test]
fn nothing_is_offered_to_a_mac_that_the_others_may_not_know() {
    let mut world = World::holding(&["b"]);
    let renewed = world.stored_lease("b");
    let interfaces = changed_interface("b", |interface| interface.mac = mac("z"));
    world.lease(crate::records::LeaseRecord { interfaces, ..renewed });
    assert_eq!(world.cordon("a", true), [""; 0]);
    let lines = world.timeline(REST);
    assert_eq!(
        lines,
        ["4.500 entry handover z for 4.275s", "4.500 write claim: offered to b1 at z by a1, epoch 2"]
    );
}

#[test]
fn while_the_fate_of_an_offer_stays_unknown_the_successor_is_answered_for_until_it_may_answer_itself() {
    let mut world = offering().by_hand();
    let began = world.now;
    world.lose_answer();
    for _ in 0..600 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
        let until = began + ms(4_275);
        let expected = if until > world.now {
            Entry::Handover { mac: mac("b"), until }
        } else {
            Entry::Foreign { mac: mac("b") }
        };
        assert_eq!(world.entry(), Some(expected), "at {:?}", world.now);
    }
}

// Tests of a process that starts again in the middle.

/// Returns a world in which a has started again with a pinned entry. The claim is as given.
fn restarted(entry: Entry, state: ClaimState, epoch: u64) -> World {
    let mut world = World::start("a", World::pinned("a", &[(VIP, entry)]));
    world.lease(lease("a", Some(session("a", 1)), &[]));
    world.introduce(&["b"]);
    world.claim(state, epoch);
    world.want();
    world
}

/// Returns a handover that began a second ago.
fn pinned_handover() -> Entry {
    let now = World::start("a", World::pinned("a", &[])).now;
    Entry::Handover { mac: mac("b"), until: now + ms(3_275) }
}

#[test]
fn a_restart_before_the_offer_was_written_takes_the_vip_back() {
    let mut world = restarted(pinned_handover(), held("a"), 1);
    let lines = world.sync();
    assert_eq!(lines.last().map(String::as_str), Some("write claim: held by a1, epoch 1"));
    assert!(!lines.iter().any(|line| line.starts_with("entry foreign")), "{lines:?}");
    assert_eq!(world.answer()[0], "entry held");
}

#[test]
fn a_restart_after_the_offer_was_written_waits_for_the_successor_and_takes_the_vip_back() {
    let mut world = restarted(pinned_handover(), offered("a", "b"), 2);
    let lines = world.sync();
    assert!(!lines.iter().any(|line| line.contains("foreign") || line.contains(" claim")), "{lines:?}");
    let lines = world.timeline(ms(2_000));
    assert_eq!(lines.first().map(String::as_str), Some("1.000 write claim: held by a1, epoch 3"));
    assert_eq!(world.answer()[0], "entry held");
}

#[test]
fn a_restart_after_the_successor_has_accepted_answers_for_it_a_while_longer() {
    let mut world = restarted(pinned_handover(), held("b"), 2);
    let lines = world.sync();
    assert!(!lines.iter().any(|line| line.contains("foreign") || line.contains(" claim")), "{lines:?}");
    // The handover lasts no longer than in the process before.
    assert_eq!(world.timeline(ms(15_000)), ["3.275 entry foreign b"]);
}

#[test]
fn a_restart_whose_session_has_ended_meanwhile_answers_for_no_vip() {
    let mut world = restarted(pinned_handover(), held("b"), 2);
    world.lease(lease("a", None, &[session("a", 1)]));
    let lines = world.sync();
    assert_eq!(lines[0], "entry foreign ?");
}

#[test]
fn a_successor_that_starts_again_before_it_has_accepted_accepts() {
    let mut world = World::start("b", World::pinned("b", &[]));
    world.lease(lease("b", Some(session("b", 1)), &[]));
    world.introduce(&["a"]);
    world.claim(offered("a", "b"), 2);
    world.want();
    let lines = world.sync();
    assert_eq!(lines.last().map(String::as_str), Some("write claim: held by b1, epoch 2"));
    assert_eq!(world.answer()[0], "entry held");
}

#[test]
fn a_successor_that_starts_again_after_it_has_accepted_holds_by_another_write() {
    let mut world = World::start("b", World::pinned("b", &[]));
    world.lease(lease("b", Some(session("b", 1)), &[]));
    world.introduce(&["a"]);
    world.claim(held("b"), 2);
    world.want();
    world.sync();
    let mut lines = world.after(REST);
    lines.retain(|line| line.contains("claim"));
    if !lines.is_empty() || !world.is_idle() {
        assert_eq!(world.answer()[0], "entry held");
    }
    assert!(world.holds());
}

#[test]
fn a_vip_on_an_interface_without_a_carrier_is_released_as_soon_as_another_node_renews_again() {
    let mut world = World::holding(&["b"]);
    world.kill("b");
    world.after(LEASE + ms(100));
    assert_eq!(
        world.notify(Event::Interfaces(changed_interface("a", |interface| interface.carrier = false))),
        [""; 0]
    );
    world.renew("b");
    let lines = world.after(RENEWAL);
    assert!(lines.iter().any(|line| line.starts_with("write claim: released")), "{lines:?}");
}

#[test]
fn an_offer_that_was_not_written_is_taken_back_once_while_the_lease_deadline_has_passed() {
    let mut world = World::holding(&["b"]).by_hand();
    world.notify(Event::NodeGone("a".into()));
    world.after(LEASE);
    assert!(world.lease_deadline().deadline <= world.now, "the lease deadline has passed");
    // A user has edited the claim, so the offer meets a conflict. The Node of a is there again.
    world.store_claim(held("a"), 0);
    world.answer();
    world.notify(Event::Node(node("a")));
    let mut requests = 0;
    while !world.is_idle() && requests < 20 {
        requests += usize::from(world.answer().iter().any(|line| line.contains("write claim")));
    }
    assert!(requests <= 2, "{requests} writes of one claim");
}

#[test]
fn a_watch_that_is_behind_the_offer_leaves_the_handover_alone() {
    let mut world = offering();
    let before = world.claimed().clone();
    world.answer();
    assert_eq!(world.notify(Event::Claim(before)), ["read claim"]);
    assert_eq!(world.answer(), [""; 0]);
    assert!(matches!(world.entry(), Some(Entry::Handover { .. })), "{:?}", world.entry());
}
