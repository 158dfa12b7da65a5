//! The API server's store goes back to an older state, as with a restored
//! backup. No watch shows that, and versions go back too.

use std::time::Duration;

use super::{api::Api, world::*};
use crate::{
    ownership::{Entry, Event, Wire},
    records::{ClaimNote, ClaimRecord, ClaimState, Demand},
};

/// Returns a world in which a has got the VIP from b, in epoch
/// 2. The store was saved while b had it.
fn moved_here() -> (World, Api) {
    let mut world = World::living("a", &["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    let saved = world.save();
    world.claim(offered("b", "a"), 2);
    world.answer();
    assert!(world.holds());
    world.after(REST);
    (world, saved)
}

/// Passes `duration`, in which the API server does not answer.
fn cut_off(world: &mut World, duration: Duration) {
    let end = world.now + duration;
    while world.now < end {
        world.after(ms(50));
        while !world.is_idle() {
            world.lose();
        }
    }
}

/// Passes `duration`, in which every request is answered at once. Returns the lines.
fn answered(world: &mut World, duration: Duration) -> Vec<String> {
    let end = world.now + duration;
    let mut lines = Vec::new();
    while world.now < end {
        lines.extend(world.after(ms(50)));
        while !world.is_idle() {
            lines.extend(world.answer());
        }
    }
    lines.retain(|line| !line.starts_with("lease deadline") && !line.starts_with("write lease of a"));
    lines
}

#[test]
fn a_lease_that_is_older_than_the_last_renewal_has_everything_listed_and_every_held_claim_read() {
    let (world, saved) = moved_here();
    let mut world = world.by_hand();
    world.restore(&saved);
    let lines = answered(&mut world, RENEWAL);
    let expected = ["read lease of a", "tell: the store went back", "list anew", "read claim"];
    assert_eq!(lines[..4], expected);
}

#[test]
fn a_vip_that_moved_here_since_is_answered_on_and_its_claim_written_again_in_a_later_epoch() {
    for (description, away) in
        [("the lease deadline is valid", ms(500)), ("the lease deadline has passed", ms(20_000))]
    {
        let (world, saved) = moved_here();
        let mut world = world.by_hand();
        cut_off(&mut world, away);
        world.restore(&saved);
        let lines = answered(&mut world, REST);
        assert!(!lines.iter().any(|line| line.starts_with("entry foreign")), "{description}: {lines:?}");
        assert!(world.holds(), "{description}");
        assert_eq!(world.entry(), Some(Entry::Held), "{description}");
        assert_eq!(world.claimed().state, held("a"), "{description}");
        assert!(world.claimed().epoch.0 > 2, "{description}: {:?}", world.claimed());
        assert_eq!(answered(&mut world, REST), [""; 0], "{description}");
    }
}

#[test]
fn a_vip_that_moved_away_since_is_left_to_its_new_holder() {
    let mut world = World::holding(&["b"]);
    let saved = world.save();
    assert_eq!(world.wish("b")[0].split(" for ").next(), Some("entry handover b"));
    world.answer();
    world.claim(held("b"), 2);
    world.after(REST);
    world.restore(&saved);
    // The list shows the old claim. Node b has until then to repair it.
    world.watch_shows(VIP);
    let lines = answered(&mut world, REST.saturating_sub(ms(100)));
    assert!(!lines.contains(&"entry held".to_owned()), "{lines:?}");
    world.claim(held("b"), 3);
    assert_eq!(answered(&mut world, REST * 4), [""; 0]);
    assert_eq!(world.entry(), Some(Entry::Foreign { mac: mac("b") }));
}

#[test]
fn a_vip_whose_service_is_back_is_taken_by_the_node_that_its_claim_names() {
    let mut world = World::holding(&["b"]);
    let saved = world.save();
    assert_eq!(world.notify(Event::Demand(VIP, None)), ["no entry", "delete claim"]);
    world.answer();
    world.after(REST);
    world.restore(&saved);
    world.watch_shows(VIP);
    world.want();
    answered(&mut world, REST + RENEWAL);
    assert!(world.holds());
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_session_of_an_earlier_life_in_an_older_lease_is_not_another_agent() {
    let mut world = World::holding(&["b"]).by_hand();
    let saved = world.save();
    world.store_lease(lease("a", None, &[session("a", 1)]));
    answered(&mut world, REST * 2);
    assert_eq!(world.entry(), Some(Entry::Held), "in a new session");
    world.restore(&saved);
    let lines = answered(&mut world, REST * 2);
    assert!(lines.contains(&"tell: the store went back".to_owned()), "{lines:?}");
    assert!(!world.is_over(), "{lines:?}");
    assert!(world.stored_lease("a").ended.contains(&session("a", 1)));
    assert_eq!(world.entry(), Some(Entry::Held));
}

#[test]
fn a_node_whose_lease_is_not_in_the_older_state_goes_on_in_its_session() {
    for (description, away) in
        [("the lease deadline is valid", ms(500)), ("the lease deadline has passed", ms(20_000))]
    {
        let mut world = World::holding(&["b"]).by_hand();
        cut_off(&mut world, away);
        world.forget_lease("a");
        let lines = answered(&mut world, REST);
        assert!(lines.contains(&"list anew".to_owned()), "{description}: {lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("entry foreign")), "{description}: {lines:?}");
        assert_eq!(world.stored_lease("a").session, Some(session("a", 1)), "{description}");
    }
}

#[test]
fn a_claim_that_is_another_each_time_it_is_read_is_read_and_written_at_a_pace_that_slows_down() {
    let mut world = World::holding(&["b"]);
    let mut requests = 0;
    for _ in 0..200 {
        let record = ClaimRecord { state: held("b"), ..world.claimed().clone() };
        world.store_record(record);
        world.watch_shows(VIP);
        while !world.is_idle() {
            world.answer();
            requests += 1;
        }
        world.after(ms(50));
    }
    assert!((6..=24).contains(&requests), "{requests} requests in 10 s");
    assert!(world.holds());
}

#[test]
fn a_claim_that_was_put_right_says_why_the_vip_is_here_as_before() {
    let edits: [fn(&mut World) -> Vec<String>; 3] = [
        |world| world.claim(ClaimState::Blank, 1),
        |world| {
            let record = world.claimed().clone();
            world.store_record(ClaimRecord { state: held("b"), note: ClaimNote::default(), ..record });
            world.see_claim()
        },
        |world| {
            world.erase_claim();
            world.see_claim()
        },
    ];
    for edit in edits {
        let mut world = World::holding(&["b"]);
        edit(&mut world);
        world.answer();
        assert_eq!(world.claimed().note.cause, "a test");
    }
}

#[test]
fn peers_are_said_when_all_leases_have_been_listed_and_not_before() {
    let mut world = World::start("a", World::pinned("a", &[(VIP, Entry::Held)]));
    world.lease(lease("a", Some(session("a", 1)), &[]));
    world.introduce(&["b", "c"]);
    assert!(world.peers().is_empty(), "{:?}", world.peers());
    world.sync();
    assert_eq!(world.peers(), &[mac("b"), mac("c")].into());
}

#[test]
fn an_offer_that_was_over_when_the_store_went_back_is_left_to_the_holder_since() {
    for (us, since) in [("a", "c"), ("a", "b"), ("b", "c")] {
        let description = format!("{us} reads it, and {since} has the VIP");
        let others: Vec<_> = ["a", "b", "c"].into_iter().filter(|node| *node != us).collect();
        let mut world = World::living(us, &others);
        world.claim(held("c"), 1);
        world.want();
        world.after(REST);
        world.store_claim(offered("b", "a"), 2);
        let saved = world.save();
        world.claim(held(since), 3);
        world.after(REST * 2);
        world.restore(&saved);
        world.watch_shows(VIP);
        let lines = answered(&mut world, REST.saturating_sub(ms(100)));
        assert!(!lines.iter().any(|line| line.starts_with("write claim")), "{description}: {lines:?}");
        world.claim(held(since), 4);
        assert_eq!(answered(&mut world, REST * 4), [""; 0], "{description}");
        assert_eq!(world.entry(), Some(Entry::Foreign { mac: mac(since) }), "{description}");
    }
}

#[test]
fn a_claim_without_a_holder_when_the_store_went_back_is_left_to_the_holder_since() {
    for epoch in [0, 1] {
        let mut world = World::living("a", &["b"]);
        world.store_claim(ClaimState::Released, epoch);
        let saved = world.save();
        world.claim(held("b"), epoch + 1);
        world.notify(Event::Demand(VIP, Some(Demand { force: true, ..demand() })));
        world.after(REST * 2);
        world.restore(&saved);
        world.watch_shows(VIP);
        // The watch shows the same claim once more.
        world.watch_shows(VIP);
        let lines = answered(&mut world, REST.saturating_sub(ms(100)));
        assert!(!lines.iter().any(|line| line.starts_with("write claim")), "epoch {epoch}: {lines:?}");
    }
}

#[test]
fn a_claim_that_was_read_often_lately_is_read_at_once_when_the_store_went_back() {
    let (world, saved) = moved_here();
    let mut world = world.by_hand();
    for _ in 0..10 {
        world.notify(Event::Wire { vip: VIP, received: Wire::Contested { mac: mac("b") } });
        answered(&mut world, ms(5_000));
    }
    world.restore(&saved);
    answered(&mut world, RENEWAL + ms(100));
    assert!(world.claimed().epoch.0 > 2, "{:?}", world.claimed());
}
