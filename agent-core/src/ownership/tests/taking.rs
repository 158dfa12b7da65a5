//! Taking: this process holds a VIP by its own successful write, which it
//! makes only if no other node can have the VIP.

use super::world::*;
use crate::{
    ownership::{Entry, Event},
    records::{ClaimRecord, ClaimState},
};

/// Returns a world in which a lives next to b, and the VIP's claim has rested.
fn facing(state: ClaimState, epoch: u64) -> World {
    let mut world = World::living("a", &["b"]);
    world.claim(state, epoch);
    world.want();
    world.after(REST * 2);
    world
}

/// Returns a world with a new VIP. The claim that creates it has just been sent.
fn creating() -> World {
    let mut world = World::living("a", &["b"]);
    assert_eq!(world.want(), ["entry foreign ?", "create claim: held by a1, epoch 1"]);
    world
}

#[test]
fn a_new_vip_is_held_when_its_claim_has_been_written() {
    let mut world = creating();
    assert!(!world.holds());
    assert_eq!(world.answer(), ["entry held", "tell: held, from no node"]);
    assert!(world.holds());
    assert_eq!(world.after(REST * 4), [""; 0]);
}

#[test]
fn a_vip_that_another_holds_is_foreign_and_left_alone() {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 3);
    assert_eq!(world.want(), ["entry foreign b"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn a_vip_whose_holder_has_ended_is_taken_in_the_next_epoch() {
    let mut world = facing(held("b"), 3);
    assert_eq!(world.end("b"), ["write claim: held by a1, epoch 4"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from b"]);
}

#[test]
fn a_vip_that_was_released_is_taken_in_the_next_epoch() {
    let mut world = facing(held("b"), 3);
    let lines = world.claim(ClaimState::Released, 3);
    assert_eq!(lines, ["entry foreign ?", "write claim: held by a1, epoch 4"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from no node"]);
}

#[test]
fn a_blank_claim_is_taken_only_after_its_owner_has_had_lease_and_margin() {
    let mut world = facing(held("b"), 3);
    world.claim(ClaimState::Blank, 3);
    assert_eq!(world.timeline(REST), ["4.500 write claim: held by a1, epoch 4"]);
}

#[test]
fn a_blank_claim_that_is_put_right_in_time_is_left_alone() {
    let mut world = facing(held("b"), 3);
    world.claim(ClaimState::Blank, 3);
    world.after(just_before(REST));
    assert_eq!(world.claim(held("b"), 3), ["entry foreign b"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn a_claim_that_vanished_while_it_was_held_is_created_only_after_lease_and_margin() {
    let mut world = facing(held("b"), 3);
    world.erase_claim();
    assert_eq!(world.see_claim(), ["entry foreign ?"]);
    let lines = world.timeline(REST);
    assert_eq!(lines, ["4.500 create claim: held by a1, epoch 1"]);
}

#[test]
fn no_node_takes_a_claim_that_rests_after_a_change_of_holder() {
    let mut world = World::living("a", &["b", "c"]);
    world.claim(held("c"), 3);
    world.want();
    world.after(REST * 2);
    world.claim(held("b"), 4);
    world.after(ms(1_000));
    assert_eq!(world.end("b"), [""; 0]);
    assert_eq!(world.timeline(REST), ["3.500 write claim: held by a1, epoch 5"]);
}

#[test]
fn a_node_takes_no_vip_over_with_a_mac_that_the_others_may_not_know() {
    let mut world = facing(held("b"), 3);
    world.notify(Event::Interfaces(changed_interface("a", |interface| interface.mac = mac("z"))));
    world.end("b");
    world.after(ms(1_000));
    // The MAC has stood in the Lease for a second at most.
    let lines = world.timeline(REST);
    assert_eq!(lines, ["3.500 write claim: held by a1 at z, epoch 4"]);
}

#[test]
fn a_new_vip_is_taken_even_with_a_new_mac() {
    let mut world = World::living("a", &[]);
    world.notify(Event::Interfaces(changed_interface("a", |interface| interface.mac = mac("z"))));
    let lines = world.want();
    assert_eq!(lines, ["entry foreign ?", "create claim: held by a1 at z, epoch 1"]);
}

#[test]
fn candidates_act_one_after_the_other() {
    let mut turns: Vec<String> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|us| {
            let mut others = vec!["a", "b", "c"];
            others.retain(|other| *other != us);
            let mut world = World::living(us, &others);
            world.want_so(crate::records::Demand { preferred: None, ..demand() });
            let mut lines = if world.is_idle() { Vec::new() } else { vec![format!("0.000 {us}")] };
            let later = world.timeline(ms(2_000)).into_iter();
            lines.extend(later.map(|line| format!("{} {us}", &line[..5])));
            lines
        })
        .collect();
    turns.sort();
    let times: Vec<&str> = turns.iter().map(|turn| &turn[..5]).collect();
    assert_eq!(times, ["0.000", "0.500", "1.000"], "{turns:?}");
}

#[test]
fn the_one_that_loses_the_race_reads_who_has_won_and_believes_it() {
    let mut world = creating();
    world.store_claim(held("b"), 1);
    assert_eq!(world.answer(), ["read claim"], "a conflict");
    assert_eq!(world.answer(), ["entry foreign b"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn a_claim_whose_fate_is_unknown_is_read_and_held_only_by_a_write_that_is_known_to_have_succeeded() {
    let mut world = creating();
    assert_eq!(world.lose_answer(), ["read claim"]);
    assert_eq!(world.answer(), ["write claim: held by a1, epoch 1"]);
    assert!(!world.holds());
    assert_eq!(world.answer(), ["entry held", "tell: held, from no node"]);
}

#[test]
fn a_claim_that_got_lost_is_written_again() {
    let mut world = creating();
    assert_eq!(world.lose(), ["read claim"]);
    assert_eq!(world.answer(), ["create claim: held by a1, epoch 1"]);
}

#[test]
fn a_read_that_got_lost_is_repeated_soon() {
    let mut world = creating();
    world.lose();
    assert_eq!(world.lose(), [""; 0]);
    assert_eq!(world.timeline(ms(250)), ["0.250 read claim"]);
}

#[test]
fn a_claim_that_is_refused_is_reported_and_written_again_later() {
    let mut world = creating();
    assert_eq!(world.refuse(), [""; 0]);
    assert_eq!(world.timeline(ms(5_000)), ["5.000 create claim: held by a1, epoch 1"]);
}

#[test]
fn a_result_that_comes_when_the_lease_deadline_has_passed_makes_nothing_held() {
    let mut world = creating().by_hand();
    let write = world.take_request();
    for _ in 0..100 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(world.lease_deadline().deadline < world.now, "the lease deadline has passed");
    world.put_back(write);
    assert_eq!(world.answer(), [""; 0]);
    assert!(!world.holds());
    let mut world = world.automatic();
    let lines = world.after(RENEWAL);
    assert_eq!(lines, ["write claim: held by a1, epoch 1"], "once the lease deadline is valid again");
    world.answer();
    assert!(world.holds());
}

#[test]
fn nothing_is_taken_while_the_lease_deadline_has_passed() {
    let mut world = facing(held("b"), 3).by_hand();
    for _ in 0..100 {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
    world.end("b");
    let lines = world.after(ms(100));
    assert!(!lines.iter().any(|line| line.contains("claim")), "{lines:?}");
}

#[test]
fn an_address_that_no_service_wants_any_more_is_deleted_and_has_no_entry() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(Event::Demand(VIP, None)), ["no entry", "delete claim"]);
    assert!(!world.holds());
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn an_address_whose_deletion_was_refused_is_taken_back_when_it_is_wanted_again() {
    let mut world = World::holding(&["b"]);
    world.notify(Event::Demand(VIP, None));
    assert_eq!(world.refuse(), [""; 0]);
    world.want();
    let lines = world.after(ms(5_100));
    assert!(world.holds() || lines.iter().any(|line| line.contains("held by a")), "{lines:?}");
}

#[test]
fn an_address_whose_release_was_refused_is_taken_back_when_the_node_may_hold_it_again() {
    let mut world = World::holding(&["b"]);
    let nowhere = crate::records::Demand {
        reach: crate::records::Reach::On(crate::records::Local::default()),
        ..demand()
    };
    assert!(world.want_so(nowhere).iter().any(|line| line.contains("released")));
    world.refuse();
    world.want();
    let lines = world.after(ms(5_100));
    assert!(world.holds() || lines.iter().any(|line| line.contains("held by a")), "{lines:?}");
}

#[test]
fn a_watch_that_is_behind_what_was_written_is_not_believed() {
    let mut world = creating();
    world.answer();
    let old = ClaimRecord { version: "1".into(), state: held("b"), ..world.claimed().clone() };
    assert_eq!(world.notify(Event::Claim(old)), ["read claim"]);
    assert_eq!(world.entry(), Some(Entry::Held));
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.entry(), Some(Entry::Held));
    assert!(world.holds());
}

#[test]
fn an_object_kind_that_is_not_there_is_asked_for_at_a_calm_pace() {
    let mut world = creating();
    let requests = world.miss_for_10_s();
    assert!((2..=100).contains(&requests), "{requests} requests in 10 s");
}

#[test]
fn the_macs_of_the_others_are_notified_to_the_program() {
    let mut world = World::living("a", &["b", "c"]);
    assert_eq!(*world.peers(), [mac("b"), mac("c")].into());
    world.delete_lease("c");
    assert_eq!(*world.peers(), [mac("b")].into());
}
