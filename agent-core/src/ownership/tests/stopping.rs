//! End of a process. A restart moves nothing, a node that leaves hands
//! everything over, and an uninstall leaves nothing.

use std::net::IpAddr;

use super::world::*;
use crate::{
    ownership::{Entry, Event, Found, StopReason},
    records::LeaseRecord,
};

#[test]
fn a_restart_writes_a_longer_lease_then_moves_the_lease_deadline_and_nothing_else() {
    let mut world = World::holding(&["b"]).by_hand();
    let lines = world.notify(Event::Stop(StopReason::Restart));
    assert_eq!(lines, ["write lease of a: a1, ended none, 60s"]);
    let sent = world.now;
    let lines = world.answer();
    assert_eq!(lines.last().map(String::as_str), Some("stopped"));
    assert!(lines.iter().all(|line| line.starts_with("lease deadline") || line == "stopped"), "{lines:?}");
    assert_eq!(world.entry(), Some(Entry::Held));
    // The clocks differ by 1 % each way. The lease deadline passes before others may expire.
    let lease_deadline = world.lease_deadline().deadline.saturating_since(sent);
    assert!(lease_deadline > RESTART_LEASE * 9 / 10, "{lease_deadline:?}");
    assert!(lease_deadline * 101 / 100 < (RESTART_LEASE + MARGIN) * 99 / 100, "{lease_deadline:?}");
}

#[test]
fn a_restart_with_a_renewal_under_way_waits_for_it() {
    let mut world = World::holding(&["b"]).by_hand();
    while world.is_idle() {
        world.after(ms(50));
    }
    assert_eq!(world.notify(Event::Stop(StopReason::Restart)), [""; 0]);
    let lines = world.answer();
    assert_eq!(lines.last().map(String::as_str), Some("write lease of a: a1, ended none, 60s"));
    assert_eq!(world.answer().last().map(String::as_str), Some("stopped"));
}

#[test]
fn a_restart_does_not_wait_long_for_an_api_server_that_is_away() {
    let mut world = World::holding(&["b"]).by_hand();
    world.notify(Event::Stop(StopReason::Restart));
    let mut lines = Vec::new();
    for _ in 0..80 {
        lines.extend(world.after(ms(50)));
        while !world.is_idle() {
            world.lose();
        }
    }
    assert!(lines.contains(&"stopped".to_owned()), "{lines:?}");
    assert_eq!(world.entry(), Some(Entry::Held));
}

/// Returns a world in which a holds the VIP and b follows. The test answers b's renewals.
fn following() -> World {
    let mut world = World::living("b", &["a"]).by_hand();
    world.claim(held("a"), 1);
    world.want();
    world.after(REST * 2);
    while !world.is_idle() {
        world.answer();
    }
    world
}

#[test]
fn a_restart_waits_for_a_claim_that_is_being_written() {
    let mut world = following();
    let lines = world.claim(offered("a", "b"), 2);
    assert_eq!(lines.last().map(String::as_str), Some("write claim: held by b1, epoch 2"));
    let accepting = world.take_request();
    world.notify(Event::Stop(StopReason::Restart));
    let lines = world.answer();
    assert!(!lines.contains(&"stopped".to_owned()), "the Lease alone is not enough: {lines:?}");
    world.put_back(accepting);
    let lines = world.answer();
    assert!(lines.contains(&"entry held".to_owned()), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("stopped"));
}

#[test]
fn a_restart_begins_nothing_new() {
    let mut world = following();
    world.notify(Event::Stop(StopReason::Restart));
    let lines = world.claim(offered("a", "b"), 2);
    assert!(!lines.iter().any(|line| line.contains("write claim")), "{lines:?}");
}

#[test]
fn a_node_that_leaves_hands_over_then_ends_its_session() {
    let mut world = World::holding(&["b"]);
    assert_eq!(
        world.notify(Event::Stop(StopReason::Leave)),
        ["entry handover b for 4.275s", "write claim: offered to b1 by a1, epoch 2"]
    );
    assert_eq!(world.answer(), [""; 0]);
    assert_eq!(world.after(ms(500)), [""; 0], "the session lives until the successor has accepted");
    let lines = world.claim(held("b"), 2);
    assert_eq!(lines, ["write lease of a: no session, ended a1, 4s"]);
    assert_eq!(world.answer(), ["stopped"]);
}

#[test]
fn a_node_that_leaves_hands_over_all_of_its_vips() {
    let mut world = World::holding_all(&["b"], &[VIP, VIP_2, VIP_3]);
    let lines = [world.notify(Event::Stop(StopReason::Leave)), world.after(ms(100))].concat();
    assert_eq!(lines.iter().filter(|line| line.contains("offered to b1")).count(), 3, "{lines:?}");
}

#[test]
fn a_node_that_leaves_offers_no_more_vips_at_once_than_may_depend_on_the_api_server() {
    let vips: Vec<IpAddr> = (10..60).map(|last| IpAddr::from([192, 0, 2, last])).collect();
    let mut world = World::holding_all(&["b"], &vips).by_hand();
    let offers = |lines: &[String]| lines.iter().filter(|line| line.contains("offered to b1")).count();
    let lines = [world.notify(Event::Stop(StopReason::Leave)), world.after(ms(500))].concat();
    assert_eq!(offers(&lines), 32, "{lines:?}");
    assert_eq!(offers(&world.after(ms(500))), 0, "as long as no answer comes");
    let mut all = 32;
    for _ in 0..200 {
        while !world.is_idle() {
            all += offers(&world.answer());
        }
        all += offers(&world.after(ms(10)));
    }
    assert_eq!(all, vips.len());
}

#[test]
fn a_node_that_leaves_lets_go_of_vips_that_no_node_can_take() {
    let mut world = World::holding(&[]);
    let lines = world.notify(Event::Stop(StopReason::Leave));
    assert_eq!(lines, ["entry foreign ?", "write claim: released, epoch 1"]);
    assert_eq!(world.answer(), ["write lease of a: no session, ended a1, 4s"]);
    assert_eq!(world.answer(), ["stopped"]);
}

#[test]
fn a_node_that_leaves_takes_nothing_and_accepts_nothing() {
    let mut world = World::living("b", &["a"]);
    world.claim(held("a"), 1);
    world.want();
    world.after(REST * 2);
    world.notify(Event::Stop(StopReason::Leave));
    let lines = [world.claim(offered("a", "b"), 2), world.after(ms(1_500))].concat();
    assert!(!lines.iter().any(|line| line.contains("held by b1")), "{lines:?}");
}

#[test]
fn a_node_that_leaves_does_not_wait_for_ever() {
    let mut world = World::holding(&["b"]);
    world.notify(Event::Stop(StopReason::Leave));
    let lines = world.timeline(ms(60_000));
    assert_eq!(lines.iter().filter(|line| line.ends_with("stopped")).count(), 1, "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("20.000 stopped"));
}

#[test]
fn an_uninstall_withdraws_then_deletes_then_ends_the_session() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.notify(Event::Stop(StopReason::Uninstall)), ["no entry", "delete claim"]);
    assert_eq!(world.answer(), ["write lease of a: no session, ended a1, 4s"]);
    assert_eq!(world.answer(), ["stopped"]);
}

/// Returns a world in which Vipward is being removed, and b holds the VIP.
fn removing() -> World {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    assert_eq!(world.notify(Event::Stop(StopReason::Uninstall)), ["no entry"]);
    world
}

#[test]
fn an_uninstall_leaves_a_claim_to_its_holder_and_ends_when_it_is_gone() {
    let mut world = removing();
    assert_eq!(world.after(ms(500)), [""; 0]);
    world.erase_claim();
    assert_eq!(world.see_claim(), ["write lease of a: no session, ended a1, 4s"]);
    assert_eq!(world.answer(), ["stopped"]);
}

#[test]
fn an_uninstall_deletes_the_claims_of_the_dead() {
    let mut world = removing();
    world.kill("b");
    assert_eq!(world.after(REST), ["write lease of b: no session, ended b1, 4s"]);
    assert_eq!(world.answer(), ["delete claim"]);
    assert_eq!(world.answer(), ["write lease of a: no session, ended a1, 4s"]);
    assert_eq!(world.answer(), ["stopped"]);
}

#[test]
fn an_uninstall_leaves_alone_what_a_living_node_offers_to_a_dead_one() {
    let mut world = World::living("a", &["b", "c"]);
    world.claim(offered("b", "c"), 2);
    world.want();
    world.after(REST);
    world.notify(Event::Stop(StopReason::Uninstall));
    let lines = world.end("c");
    assert!(!lines.contains(&"delete claim".to_owned()), "{lines:?}");
}

#[test]
fn an_uninstall_deletes_what_it_has_offered_to_a_node_that_goes_away_too() {
    let mut world = World::holding(&["b"]);
    world.wish("b");
    world.answer();
    assert_eq!(world.notify(Event::Stop(StopReason::Uninstall)), ["no entry"]);
    let leaving = LeaseRecord { leaving: true, ..world.stored_lease("b") };
    assert!(world.lease(leaving).contains(&"delete claim".to_owned()));
}

#[test]
fn an_uninstall_deletes_an_offer_that_is_not_accepted_in_time() {
    let mut world = World::holding(&["b"]);
    world.wish("b");
    world.answer();
    assert_eq!(world.notify(Event::Stop(StopReason::Uninstall)), ["no entry"]);
    let deletes = |lines: &[String]| lines.iter().any(|line| line.ends_with("delete claim"));
    assert!(!deletes(&world.after((LEASE / 2).saturating_sub(ms(200)))), "the successor may accept");
    assert!(deletes(&world.after(ms(400))));
}

#[test]
fn an_uninstall_does_not_wait_for_ever_for_a_node_that_lives() {
    let lines = removing().timeline(ms(60_000));
    assert_eq!(lines, ["10.000 stopped"]);
}

#[test]
fn an_uninstall_withdraws_even_what_has_no_object_any_more() {
    let mut world = World::holding(&["b"]);
    // The resource definition was deleted first, and with it every object.
    world.erase_claim();
    world.see_claim();
    world.miss();
    let lines = world.notify(Event::Stop(StopReason::Uninstall));
    let lines = [lines, world.miss_all()].concat();
    assert!(lines.contains(&"no entry".to_owned()), "{lines:?}");
    assert_eq!(world.entry(), None);
}

#[test]
fn a_process_that_has_decided_nothing_yet_ends_at_once() {
    for reason in [StopReason::Restart, StopReason::Leave, StopReason::Uninstall] {
        let mut world = World::start("a", World::pinned("a", &[(VIP, Entry::Held)]));
        assert_eq!(world.notify(Event::Stop(reason)), ["stopped"], "{reason:?}");
        let mut world = World::start("a", Found::default());
        assert_eq!(world.notify(Event::Stop(reason)), ["stopped"], "{reason:?}");
    }
}
