//! The offer in a node's Lease: its monitors, and whether they may expire its session.

use super::*;

#[test]
fn the_number_of_other_nodes_decides_how_many_voters_count() {
    let rows: [(&[&'static str], usize, usize, usize); 5] = [
        (&["b"], 1, 1, 1),
        (&["b", "c"], 2, 1, 2),
        (&["b", "c", "d"], 3, 2, 2),
        (&["b", "c", "d", "e"], 3, 2, 2),
        (&["b", "c", "d", "e", "f"], 3, 2, 2),
    ];
    for (others, m, need, quorum) in rows {
        let said = said(&holding(others));
        assert_eq!(said.mode, Mode::Notice, "beside {others:?}");
        assert_eq!((said.set.len(), said.need, said.quorum()), (m, need, quorum), "beside {others:?}");
        assert_eq!(said.invited.len(), others.len().min(4), "beside {others:?}");
        assert!(said.set.iter().all(|wid| said.invited.contains(wid)));
    }
}

#[test]
fn what_is_missing_keeps_the_mode_off() {
    type Change = fn(&mut World);
    let rows: [(&str, LeaseOnly, Change); 6] = [
        ("no key", LeaseOnly::NoKey, |world| drop(world.notify(Event::WireKeys(Vec::new())))),
        ("no thread that pings", LeaseOnly::NoThread, |world| drop(world.notify(Event::WireSelf(None)))),
        ("another has another key", LeaseOnly::NoCommonKey, |world| {
            say(world, "c", Offer { keys: vec![KeyId(2)], ..offer("c", "a", "") });
        }),
        ("no VIP", LeaseOnly::NoVip, |world| {
            world.notify(Event::Demand(VIP, None));
            while !world.is_idle() {
                world.answer();
            }
            world.after(REST);
        }),
        ("one of two others takes no part", LeaseOnly::TooFew, |world| {
            let lease = LeaseRecord { wire: None, ..world.stored_lease("c") };
            world.lease(lease);
        }),
        ("the others leave", LeaseOnly::Alone, |world| {
            for other in ["b", "c"] {
                let lease = LeaseRecord { session: None, ..world.stored_lease(other) };
                world.lease(lease);
            }
        }),
    ];
    for (what, quiet, change) in rows {
        let mut world = holding(&["b", "c"]);
        assert_eq!(said(&world).mode, Mode::Notice);
        let view = |world: &World| world.engine.wire_view(world.now).expect("a view");
        assert_eq!(view(&world).quiet, None, "before: {what}");
        change(&mut world);
        world.after(RENEWAL * 2);
        let mode = world.stored_lease("a").wire.map_or(Mode::Off, |offer| offer.mode);
        assert_eq!(mode, Mode::Off, "{what}");
        assert_eq!(view(&world).quiet, Some(quiet), "{what}");
    }
}

#[test]
fn a_node_without_the_option_or_under_stop_takes_no_part() {
    let stop = Settings { policy: vipward_common::Policy::Stop, ..wired() };
    for settings in [settings("a"), stop] {
        let mut world = World::living_with(&settings, "a", &["b"]);
        world.notify(Event::WireKeys(vec![KeyId(1)]));
        world.notify(Event::WireSelf(Some(wid("a"))));
        say(&mut world, "b", offer("b", "a", "a"));
        assert_eq!(meet(&mut world, false, false), [""; 0]);
        world.claim(held("b"), 1);
        world.want();
        world.after(REST);
        assert_eq!(suspect(&mut world, "b"), [""; 0]);
        assert_eq!(world.after(ms(500)), [""; 0]);
        assert_eq!(world.stored_lease("a").wire, None);
        assert_eq!(*world.plan(), crate::liveness::Plan::default());
        assert_eq!(world.engine.wire_view(world.now), None);
    }
}

#[test]
fn a_new_session_begins_with_the_mode_off_in_the_write_that_makes_it() {
    let mut world = holding(&["b", "c"]);
    assert_eq!(said(&world).mode, Mode::Notice);
    let ended = LeaseRecord { session: None, ended: vec![session("a", 1)], ..world.stored_lease("a") };
    world.lease(ended);
    world.answer();
    let stored = world.stored_lease("a");
    assert!(stored.session.is_some_and(|new| new != session("a", 1)), "{stored:?}");
    assert_eq!(said(&world).mode, Mode::Off);
}

#[test]
fn the_last_write_of_a_session_withdraws_the_invitations() {
    let mut world = beside(&["b", "c"]);
    assert_eq!(names(&said(&world).invited).len(), 3);
    let lines = world.notify(Event::Stop(crate::ownership::StopReason::Leave));
    assert_eq!(lines, ["write lease of a: no session, ended a1, 4s"]);
    world.answer();
    assert_eq!(world.stored_lease("a").wire, None);
}

#[test]
fn an_only_monitor_that_stops_pinging_is_left_at_once_and_counts_again_after_2_s() {
    let mut world = holding(&["b"]);
    world.after(ms(300));
    let round = said(&world).round;
    pinged(&mut world, "b", false);
    assert_eq!((said(&world).mode, said(&world).round), (Mode::Off, round + 1), "at once");
    pinged(&mut world, "b", true);
    world.after(ms(1_900));
    assert_eq!(said(&world).mode, Mode::Off);
    world.after(RENEWAL + ms(100));
    assert_eq!((said(&world).mode, said(&world).round), (Mode::Notice, round + 2));
}

#[test]
fn what_was_known_of_an_only_monitor_ends_with_its_session() {
    let mut world = holding(&["b"]);
    world.lease(LeaseRecord { session: None, ended: vec![session("b", 1)], ..world.stored_lease("b") });
    world.lease(LeaseRecord { session: Some(session("b", 2)), ..world.stored_lease("b") });
    world.after(RENEWAL * 4);
    assert_eq!(said(&world).mode, Mode::Off, "it has not pinged in its new session");
    pinged(&mut world, "b", true);
    world.after(RENEWAL * 4);
    assert_eq!(said(&world).mode, Mode::Notice);
}

#[test]
fn one_of_several_monitors_that_stops_pinging_changes_nothing_unless_another_can_replace_it() {
    let mut world = holding(&["b", "c"]);
    let before = said(&world);
    pinged(&mut world, "b", false);
    world.after(RENEWAL * 2);
    assert_eq!(said(&world), before, "there is no other");

    let mut world = holding(&["b", "c", "d", "e"]);
    let before = said(&world);
    let gone = names(&before.set[..1]);
    pinged(&mut world, &gone, false);
    world.after(RENEWAL);
    let after = said(&world);
    assert!(!after.set.contains(&wid(&gone)), "{after:?}");
    assert_eq!((after.set[..2].to_vec(), after.round), (before.set[1..].to_vec(), before.round + 1));
    pinged(&mut world, &gone, true);
    world.after(RENEWAL * 5);
    assert_eq!(said(&world), after, "the set stays as it is");
}

#[test]
fn a_monitor_whose_agent_restarts_still_counts_until_its_lease_expires() {
    let mut world = holding(&["b", "c"]);
    let before = said(&world);
    let left = LeaseRecord { duration: RESTART_LEASE, ..world.stored_lease("b") };
    world.kill("b");
    world.lease(left);
    world.after(ms(30_000));
    assert_eq!(said(&world), before);
    world.after(ms(31_500));
    let alone = said(&world);
    assert_eq!((names(&alone.set), alone.need, alone.round), ("c".to_owned(), 1, before.round + 1));
}

#[test]
fn the_configuration_goes_on_after_a_restart_of_the_agent() {
    let world = holding(&["b", "c"]);
    let before = said(&world);
    let mut next =
        World::start_with(&wired(), "a", World::pinned("a", &[(VIP, crate::ownership::Entry::Held)]));
    next.introduce(&["b", "c"]);
    for node in ["a", "b", "c"] {
        next.lease(world.stored_lease(node));
    }
    next.claim(held("a"), 1);
    next.notify(Event::Demand(VIP, Some(demand())));
    next.notify(Event::WireKeys(vec![KeyId(1)]));
    next.notify(Event::WireSelf(Some(wid("a"))));
    next.sync();
    next.after(RENEWAL * 2);
    assert_eq!(said(&next), before);
}

#[test]
fn the_key_in_use_is_the_newest_that_all_living_nodes_of_the_segment_accept() {
    let mut world = beside(&["b", "c"]);
    assert_eq!(world.plan().key, Some(KeyId(1)));
    world.notify(Event::WireKeys(vec![KeyId(1), KeyId(2)]));
    say(&mut world, "b", Offer { keys: vec![KeyId(1), KeyId(2)], ..offer("b", "a", "") });
    world.after(RENEWAL);
    assert_eq!(world.plan().key, Some(KeyId(1)), "c does not have it");
    assert_eq!(said(&world).keys, [KeyId(1), KeyId(2)]);
    say(&mut world, "c", Offer { keys: vec![KeyId(1), KeyId(2)], ..offer("c", "a", "") });
    assert_eq!(world.plan().key, Some(KeyId(2)));
    say(&mut world, "c", Offer { keys: vec![KeyId(1)], ..offer("c", "a", "") });
    world.kill("c");
    world.after(REST + RENEWAL);
    assert_eq!(world.plan().key, Some(KeyId(2)), "c is dead");
}

#[test]
fn two_false_moves_in_ten_minutes_leave_only_the_lease_for_an_hour() {
    let mut world = holding(&["b", "c"]);
    let falsely = |world: &mut World| {
        let current = world.stored_lease("a");
        let ended = [current.ended.clone(), current.session.into_iter().collect()].concat();
        let lines = world.lease(LeaseRecord { session: None, ended, ..current });
        assert_eq!(lines, ["read lease of a"]);
        let mut lines = world.answer();
        while !world.is_idle() {
            world.answer();
        }
        lines.extend(world.after(RENEWAL * 4));
        while !world.is_idle() {
            world.answer();
        }
        world.after(RENEWAL * 2);
        lines.retain(|line| line.starts_with("tell: slow"));
        lines
    };
    assert_eq!(falsely(&mut world), [""; 0]);
    assert_eq!(said(&world).mode, Mode::Notice, "once is no pattern");
    assert_eq!(falsely(&mut world), ["tell: slow after 2, for 3600s"]);
    assert_eq!(said(&world).mode, Mode::Off);
    assert_eq!(world.engine.wire_counts().false_moves, 2);
    world.after(ms(3_590_000));
    assert_eq!(said(&world).mode, Mode::Off);
    world.after(ms(20_000));
    assert_eq!(said(&world).mode, Mode::Notice);
}

#[test]
fn an_end_without_contact_is_no_false_move() {
    let mut world = holding(&["b", "c"]);
    let ended = LeaseRecord { session: None, ended: vec![session("a", 1)], ..world.stored_lease("a") };
    world.lease(ended);
    world.answer();
    // The last answer from before counts for a moment more.
    world.after(ms(700));
    meet(&mut world, true, false);
    world.after(RENEWAL);
    assert_eq!(world.engine.wire_counts().false_moves, 0);
}

#[test]
fn a_reason_has_one_name_in_all_outputs() {
    for quiet in LeaseOnly::ALL {
        assert_eq!(serde_json::to_value(quiet).expect("JSON"), quiet.name());
    }
}
