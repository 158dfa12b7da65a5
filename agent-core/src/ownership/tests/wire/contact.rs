//! Contact with peers decides which nodes may take a VIP, and which must let theirs go.

use super::*;
use crate::ownership::Entry;

/// Description, the other nodes, if frames and answers come, and if a takes.
type Row = (&'static str, &'static [&'static str], (bool, bool), bool);

const RELEASES: [&str; 3] = ["tell: eth0 one-way: true", "entry foreign ?", "write claim: released, epoch 1"];
const TAKE: &str = "write claim: held by a1, epoch 2";

/// Ends the session of b, which held the VIP.
fn end_b(world: &mut World) -> Vec<String> {
    let ended = LeaseRecord { session: None, ended: vec![session("b", 1)], ..world.stored_lease("b") };
    world.lease(ended)
}

/// Returns the interfaces on which a takes no VIP, as reports have them.
fn without_contact(world: &World) -> Vec<String> {
    world.engine.wire_view(world.now).expect("a view").without_contact
}

#[test]
fn a_vip_of_an_ended_session_is_taken_only_with_contact_or_alone() {
    let rows: [Row; 4] = [
        ("a peer answers", &["b", "c"], (true, true), true),
        ("frames come, but no answer", &["b", "c"], (true, false), false),
        ("nothing comes", &["b", "c"], (false, false), false),
        ("no other is left", &["b"], (false, false), true),
    ];
    for (what, others, (received, answered), takes) in rows {
        let mut world = watching("a", others);
        meet(&mut world, received, answered);
        let lines = end_b(&mut world);
        assert_eq!(lines, Some(TAKE.to_owned()).filter(|_| takes).as_slice(), "{what}");
        assert_eq!(without_contact(&world), if takes { &[""; 0][..] } else { &["eth0"] }, "{what}");
        if !takes {
            assert_eq!(world.after(RENEWAL * 3), [""; 0], "{what}");
            assert_eq!(meet(&mut world, true, true), [TAKE], "{what}, and then one answers");
        }
    }
}

#[test]
fn a_peer_that_dies_too_no_longer_matters() {
    let mut world = watching("a", &["b", "c"]);
    meet(&mut world, false, false);
    end_b(&mut world);
    world.kill("c");
    assert_eq!(world.after(just_before(ms(4_000))), [""; 0]);
    assert_eq!(world.after(RENEWAL * 2), [TAKE]);
}

#[test]
fn a_peer_without_carrier_or_without_a_key_does_not_matter() {
    type Change = fn(LeaseRecord) -> LeaseRecord;
    let rows: [(&str, Change); 3] = [
        ("no carrier", |lease| LeaseRecord {
            interfaces: changed_interface("c", |it| it.carrier = false),
            ..lease
        }),
        ("no part", |lease| LeaseRecord { wire: None, ..lease }),
        ("another segment", |lease| LeaseRecord {
            interfaces: changed_interface("c", |it| {
                it.subnets = vec!["203.0.113.0/24".parse().expect("a subnet")];
            }),
            ..lease
        }),
    ];
    for (what, change) in rows {
        let mut world = watching("a", &["b", "c"]);
        meet_with(&mut world, true, Answers::None);
        world.lease(change(world.stored_lease("c")));
        assert_eq!(end_b(&mut world), [TAKE], "{what}");
    }
}

#[test]
fn a_new_vip_needs_contact_and_a_held_one_does_not() {
    let mut world = beside(&["b"]);
    meet(&mut world, false, false);
    assert_eq!(world.want(), ["entry foreign ?"]);
    assert_eq!(meet(&mut world, true, true), ["create claim: held by a1, epoch 1"]);
    world.answer();
    assert!(world.holds());
    meet(&mut world, false, false);
    assert_eq!(world.after(ms(20_000)), [""; 0]);
    assert!(world.holds());
}

#[test]
fn an_offered_or_released_vip_needs_no_contact() {
    let mut world = beside(&["b"]);
    world.claim(held("b"), 1);
    world.want();
    world.after(REST);
    meet(&mut world, false, false);
    assert_eq!(world.claim(offered("b", "a"), 2), ["entry foreign a", "write claim: held by a1, epoch 2"]);

    let mut world = beside(&["b"]);
    world.claim(crate::records::ClaimState::Released, 4);
    world.want();
    meet(&mut world, false, false);
    world.after(REST);
    assert!(world.claimed().epoch.0 == 4 && !world.is_idle());
}

#[test]
fn a_node_that_was_expired_needs_contact_for_its_own_vip_and_one_that_starts_again_does_not() {
    let mut world = holding(&["b"]);
    meet(&mut world, true, false);
    let ended = LeaseRecord { session: None, ended: vec![session("a", 1)], ..world.stored_lease("a") };
    world.lease(ended);
    while !world.is_idle() {
        world.answer();
    }
    assert_eq!(world.after(ms(3_000)), [""; 0], "b may take it");
    assert_eq!(meet(&mut world, true, true), ["write claim: held by new, epoch 2"]);

    let mut world = World::start_with(&wired(), "a", World::pinned("a", &[(VIP, Entry::Held)]));
    world.lease(lease("a", None, &[session("a", 1)]));
    world.introduce(&["b"]);
    say(&mut world, "b", offer("b", "a", ""));
    world.notify(Event::WireKeys(vec![KeyId(1)]));
    world.notify(Event::WireSelf(Some(wid("a"))));
    world.claim(held("a"), 1);
    world.want();
    let mut lines = world.sync();
    for _ in 0..3 {
        lines.extend(world.after(ms(300)));
        while !world.is_idle() {
            lines.extend(world.answer());
        }
    }
    assert!(lines.contains(&"write claim: held by new, epoch 2".to_owned()), "{lines:?}");
}

/// Returns a world in which a holds the VIP, and its interface becomes one-way: no peer answers any longer.
fn one_way(received: bool) -> World {
    let mut world = holding(&["b", "c"]);
    assert_eq!(meet(&mut world, received, false), [""; 0], "they may have died");
    let lines = world.after(RENEWAL);
    assert_eq!(lines[..3], RELEASES, "{lines:?}");
    assert!(!world.holds());
    world
}

/// Returns the carrier of a's interface, as its Lease has it.
fn has_carrier(world: &World) -> bool {
    world.stored_lease("a").interfaces[0].carrier
}

#[test]
fn an_interface_that_receives_none_of_two_living_peers_lets_its_vips_go() {
    let mut world = one_way(false);
    world.after(RENEWAL);
    assert!(!has_carrier(&world), "the others know");
    assert_eq!(world.engine.wire_view(world.now).expect("a view").one_way, ["eth0"]);
    world.answer();
    // A change of its addresses is not the return of its peers.
    world.notify(Event::Interfaces(changed_interface("a", |it| it.gateways = vec![VIP_3])));
    world.after(RENEWAL);
    assert!(!has_carrier(&world));
    meet(&mut world, true, true);
    world.after(RENEWAL);
    assert!(has_carrier(&world));
}

#[test]
fn an_interface_over_which_two_living_peers_no_longer_answer_lets_its_vips_go() {
    let mut world = one_way(true);
    world.after(RENEWAL);
    assert!(!has_carrier(&world), "the others know");
    // They still ping this node. Only an answer shows that its own frames go out.
    world.after(ms(5_000));
    assert!(!has_carrier(&world));
    meet(&mut world, true, true);
    world.after(RENEWAL);
    assert!(has_carrier(&world));
}

#[test]
fn a_one_way_interface_counts_again_when_the_thread_that_pings_has_ended() {
    let mut world = one_way(false);
    world.after(RENEWAL);
    assert!(!has_carrier(&world));
    let lines = world.notify(Event::WireSelf(None));
    assert!(lines.contains(&"tell: eth0 one-way: false".to_owned()), "{lines:?}");
    world.after(RENEWAL);
    assert!(has_carrier(&world), "its silence shows nothing any longer");
    assert_eq!(world.stored_lease("a").wire, None, "no node may expire this one for silence");
    assert_eq!(without_contact(&world), [""; 0]);
}

#[test]
fn a_node_keeps_its_vips_when_both_of_its_peers_die() {
    for (received, answered) in [(false, false), (true, false)] {
        let mut world = holding(&["b", "c"]);
        world.kill("b");
        world.kill("c");
        world.after(ms(1_000));
        meet(&mut world, received, answered);
        world.after(ms(8_000));
        assert!(world.holds(), "received: {received}");
    }
}

#[test]
fn where_switches_pass_no_frame_vips_are_taken_and_held_as_without_wire_failover() {
    let mut world = World::living_with(&wired(), "a", &["b", "c"]);
    world.notify(Event::WireKeys(vec![KeyId(1)]));
    world.notify(Event::WireSelf(Some(wid("a"))));
    for other in ["b", "c"] {
        say(&mut world, other, offer(other, "a", ""));
    }
    meet_with(&mut world, false, Answers::None);
    world.after(RENEWAL * 2);
    assert_eq!(world.want(), ["entry foreign ?", "create claim: held by a1, epoch 1"]);
    world.answer();
    world.after(ms(8_000));
    assert!(world.holds());
}

#[test]
fn when_all_others_count_as_without_carrier_too_the_segment_is_at_fault() {
    let mut world = holding(&["b", "c"]);
    meet(&mut world, false, false);
    world.after(RENEWAL);
    assert!(!has_carrier(&world));
    for other in ["b", "c"] {
        let interfaces = changed_interface(other, |it| it.carrier = false);
        world.lease(LeaseRecord { interfaces, ..world.stored_lease(other) });
    }
    world.after(RENEWAL);
    assert!(has_carrier(&world));
    // It may take VIPs again, and is not judged anew before a frame has come.
    for other in ["b", "c"] {
        let interfaces = changed_interface(other, |it| it.carrier = true);
        world.lease(LeaseRecord { interfaces, ..world.stored_lease(other) });
    }
    world.after(RENEWAL * 3);
    assert!(has_carrier(&world));
}

#[test]
fn an_interface_over_which_no_peer_has_answered_yet_keeps_its_vips() {
    let mut world = holding(&["b", "c"]);
    meet_with(&mut world, true, Answers::None);
    world.after(ms(5_000));
    assert!(world.holds());
}

#[test]
fn an_interface_is_not_one_way_beside_fewer_than_two_peers_that_renew() {
    let mut world = holding(&["b"]);
    meet(&mut world, false, false);
    world.after(ms(3_000));
    assert!(world.holds(), "one peer");

    let mut world = holding(&["b", "c"]);
    world.kill("c");
    world.after(ms(2_500));
    meet(&mut world, false, false);
    assert!(world.holds(), "one of two has not renewed for two renewals");
    world.after(ms(500));
    assert!(world.holds());
}

#[test]
fn without_the_api_server_no_interface_is_one_way() {
    let mut world = holding(&["b", "c"]).by_hand();
    world.kill("b");
    world.kill("c");
    world.after(ms(2_100));
    meet(&mut world, false, false);
    assert!(world.holds());
}
