//! Repairs of objects that were edited by hand. The owner repairs its
//! object at once, and all other nodes wait for that.

use super::world::*;
use crate::{
    ownership::{Entry, Event, Fault},
    records::{ClaimState, LeaseRecord},
};

const REPAIRED: [&str; 2] = ["tell: repaired 192.0.2.10, edited by hand", "write claim: held by a1, epoch 1"];

#[test]
fn a_claim_that_was_edited_is_put_right_by_its_holder_at_once() {
    let edits = [
        ("blanked", ClaimState::Blank),
        ("released", ClaimState::Released),
        ("given to another", held("b")),
        ("given to a node that does not live", ClaimState::Held(holder("x", 1))),
        ("given to our next life", ClaimState::Held(holder("a", 2))),
        ("offered by another", offered("b", "c")),
    ];
    for (description, state) in edits {
        let mut world = World::holding(&["b"]);
        assert_eq!(world.claim(state, 1), REPAIRED, "{description}");
        assert_eq!(world.answer(), [""; 0], "{description}: the entry has never changed");
        assert!(world.holds(), "{description}");
        assert_eq!(world.entry(), Some(Entry::Held), "{description}");
        assert_eq!(world.after(ms(20_000)), [""; 0], "{description}");
    }
}

#[test]
fn the_epoch_only_grows_whatever_a_user_has_edited() {
    let mut world = World::holding(&["b"]);
    assert_eq!(
        world.claim(ClaimState::Blank, 7),
        ["tell: repaired 192.0.2.10, edited by hand", "write claim: held by a1, epoch 7"]
    );
    world.answer();
    for (description, state, epoch) in [("blanked", ClaimState::Blank, 8), ("still ours", held("a"), 9)] {
        let lines = world.claim(state, 0);
        let fault = format!("tell: repaired 192.0.2.10, {}", Fault::Older);
        assert_eq!(lines, [fault, format!("write claim: held by a1, epoch {epoch}")], "{description}");
        assert_eq!(world.answer(), [""; 0], "{description}");
    }
}

#[test]
fn a_claim_that_a_user_deletes_is_deleted_and_made_again_while_it_is_answered_on() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.ask_to_delete(), ["delete claim"]);
    assert_eq!(world.answer(), ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]);
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.entry(), Some(Entry::Held));
    assert!(world.holds());
}

#[test]
fn what_is_seen_of_an_object_while_it_is_deleted_is_older_than_its_end() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.ask_to_delete(), ["delete claim"]);
    assert_eq!(world.watch_shows(VIP), [""; 0]);
    assert_eq!(world.answer(), ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]);
}

#[test]
fn a_claim_that_is_let_go_of_is_no_new_one() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(Event::Demand(VIP, None)), ["no entry", "delete claim"]);
    // The finalizer is removed first. Then the object is gone.
    world.store_record(world.claimed().clone());
    world.watch_shows(VIP);
    world.notify(Event::ClaimGone(VIP));
    world.erase_claim();
    world.answer();
    assert!(world.engine.view(world.now).vips.is_empty());
}

#[test]
fn a_claim_that_a_user_deletes_is_left_to_its_holder() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    assert_eq!(world.ask_to_delete(), [""; 0]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
    assert_eq!(world.entry(), Some(Entry::Foreign { mac: mac("b") }));
}

#[test]
fn a_claim_that_its_holder_has_deleted_as_it_was_asked_to_is_left_to_it_to_make_again() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    world.ask_to_delete();
    world.erase_claim();
    assert_eq!(world.see_claim(), ["entry foreign ?"]);
    assert_eq!(world.timeline(REST), ["4.500 create claim: held by a1, epoch 1"]);
}

#[test]
fn a_claim_that_is_gone_at_once_is_made_again_while_it_is_answered_on() {
    let mut world = World::holding(&["b"]);
    world.erase_claim();
    assert_eq!(
        world.see_claim(),
        ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]
    );
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_claim_that_is_made_again_begins_at_the_first_epoch() {
    let mut world = World::holding(&["b"]);
    world.claim(ClaimState::Blank, 7);
    world.answer();
    world.erase_claim();
    assert_eq!(
        world.see_claim(),
        ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]
    );
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(ms(20_000)), [""; 0], "the earlier epoch is no reason for another repair");
    assert!(world.holds());
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_claim_that_was_made_again_is_its_holders_whether_or_not_its_end_was_seen() {
    for is_seen in [true, false] {
        let mut world = World::living("a", &["b"]);
        world.claim(held("b"), 7);
        world.want();
        world.after(REST);
        if is_seen {
            world.erase_claim();
            world.see_claim();
            world.after(ms(500));
        }
        world.claim(held("b"), 1);
        assert_eq!(world.after(ms(60_000)), [""; 0], "{is_seen}");
        assert_eq!(world.entry(), Some(Entry::Foreign { mac: mac("b") }), "{is_seen}");
    }
}

#[test]
fn a_claim_that_vanishes_under_a_write_is_made_again_at_once() {
    let mut world = World::holding(&["b"]);
    world.wish("b");
    world.erase_claim();
    world.see_claim();
    assert_eq!(world.answer(), ["entry held", "read claim"], "the offer has missed");
    assert_eq!(world.answer(), ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]);
}

#[test]
fn a_lease_that_a_user_has_deleted_is_made_again_and_nothing_moves() {
    let mut world = World::holding(&["b"]).by_hand();
    let lease_deadline = world.lease_deadline();
    assert_eq!(world.delete_lease("a"), ["read lease of a"]);
    let lines = world.answer();
    let again = "create lease of a: a1, ended none, 4s";
    assert_eq!(lines, ["tell: repaired a, missing", "list anew", again, "read claim"]);
    world.answer();
    assert!(world.lease_deadline().deadline > lease_deadline.deadline);
    assert!(world.holds());
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_deletion_of_the_lease_that_only_a_renewal_shows_is_repaired_too() {
    let mut world = World::holding(&["b"]).by_hand();
    world.forget_lease("a");
    while world.is_idle() {
        world.after(ms(50));
    }
    let lines = world.answer();
    let again = "create lease of a: a1, ended none, 4s";
    assert_eq!(lines, ["tell: repaired a, missing", "list anew", again, "read claim"]);
    world.answer();
    assert!(world.holds());
}

#[test]
fn a_lease_that_a_user_has_blanked_is_put_right_and_nothing_moves() {
    let mut world = World::holding(&["b"]).by_hand();
    assert_eq!(world.lease(lease("a", None, &[])), ["read lease of a"]);
    assert_eq!(world.answer(), ["tell: repaired a, edited by hand", "write lease of a: a1, ended none, 4s"]);
    world.answer();
    assert!(world.holds());
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_claim_that_a_user_has_edited_to_name_this_node_is_not_believed_before_its_holder_could_repair_it() {
    // This process has not written the claim. Node b goes on answering until it sees the claim.
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST * 2);
    let lines = world.claim(held("a"), 1);
    assert!(!lines.iter().any(|line| line.contains("write")), "{lines:?}");
    assert!(!world.holds());
    let lines = world.after(just_before(REST));
    assert!(!lines.iter().any(|line| line.contains("write")), "{lines:?}");
    assert_eq!(world.after(ms(1)), ["write claim: held by a1, epoch 2"], "no node has");
}

#[test]
fn an_edit_that_names_this_node_waits_only_for_the_holder_that_it_displaced() {
    let mut world = World::living("a", &["b", "c"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST * 2);
    // The agent of c is restarting, and c has not had the VIP.
    world.lease(LeaseRecord { duration: RESTART_LEASE, ..world.stored_lease("c") });
    world.kill("b");
    world.claim(held("a"), 1);
    let lines = world.after(just_before(REST));
    assert!(!lines.iter().any(|line| line.contains("claim")), "{lines:?}");
    // No claim names b any more, but b is expired all the same.
    let lines = world.after(ms(1));
    assert_eq!(lines, ["write lease of b: no session, ended b1, 4s", "write claim: held by a1, epoch 2"]);
}

#[test]
fn a_blank_claim_that_a_user_deletes_is_left_to_its_possible_holder_for_as_long_as_ever() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST * 2);
    world.lease(LeaseRecord { duration: RESTART_LEASE, ..world.stored_lease("b") });
    world.kill("b");
    world.claim(ClaimState::Blank, 1);
    assert_eq!(world.ask_to_delete(), [""; 0]);
    let deleted = |lines: &[String]| lines.iter().any(|line| line.ends_with("delete claim"));
    assert!(!deleted(&world.after(just_before(RESTART_LEASE + MARGIN))));
    assert!(deleted(&world.after(ms(1_000))));
}

#[test]
fn an_own_offer_that_a_user_deletes_is_taken_back_first_without_a_gap() {
    let mut world = World::holding(&["b"]);
    world.wish("b");
    world.answer();
    assert_eq!(world.ask_to_delete(), [""; 0]);
    assert!(matches!(world.entry(), Some(Entry::Handover { .. })), "{:?}", world.entry());
    assert_eq!(world.after(LEASE / 2), ["write claim: held by a1, epoch 3"]);
    assert_eq!(world.answer(), ["entry held", "delete claim"]);
}

#[test]
fn an_object_that_is_there_again_and_again_is_deleted_at_a_calm_pace() {
    let mut world = World::holding(&["b"]);
    world.ask_to_delete();
    world.answer();
    world.answer();
    assert_eq!(world.ask_to_delete(), ["delete claim"]);
    assert_eq!(world.answer(), [""; 0]);
    let repaired = ["1.000 tell: repaired 192.0.2.10, missing", "1.000 create claim: held by a1, epoch 1"];
    assert_eq!(world.timeline(ms(1_000)), repaired);
    assert!(world.holds());
}
