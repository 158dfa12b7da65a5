//! The nodes that a monitor pings, and those to which it sends expiry notices.

use super::*;
use crate::liveness::{Ended, Plan};

#[test]
fn a_node_pings_those_that_invite_it_and_those_that_it_invites() {
    let mut world = beside(&["b", "c", "d", "e", "f", "g"]);
    let invited = said(&world).invited;
    assert_eq!(invited.len(), 4);
    let left_out: Vec<&str> =
        ["b", "c", "d", "e", "f", "g"].into_iter().filter(|node| !invited.contains(&wid(node))).collect();
    say(&mut world, left_out[0], offer(left_out[0], "", ""));
    let mut expected: Vec<String> = invited.iter().map(|wid| names(&[*wid])).collect();
    expected.push(left_out[1].to_owned());
    expected.sort();
    let peers: Vec<String> = world.plan().peers.iter().map(|peer| peer.node.to_string()).collect();
    assert_eq!(peers, expected, "{} does not invite this node", left_out[0]);
    assert!(world.plan().peers.iter().all(|peer| peer.watched.is_none()));
}

#[test]
fn a_member_of_a_set_knows_the_others_its_place_and_the_quorum() {
    let rows = [("a", "", 0, 1), ("c a", "c", 1, 2), ("c d a", "c d", 2, 2), ("a d c", "d c", 0, 2)];
    for (set, others, place, quorum) in rows {
        let mut world = beside(&["b", "c", "d"]);
        say(&mut world, "b", offer("b", set, set));
        let peer = world.plan().peers.iter().find(|peer| peer.node.as_str() == "b").expect("b is pinged");
        assert_eq!((peer.session, peer.wid, &peer.paths[..]), (session("b", 1), wid("b"), &[path("b")][..]));
        let watched = peer.watched.as_ref().expect("this node counts");
        let known: Vec<Wid> = watched.others.iter().map(|(wid, _)| *wid).collect();
        assert_eq!((names(&known).as_str(), watched.place, watched.quorum), (others, place, quorum), "{set}");
        assert!(watched.others.iter().all(|(wid, paths)| *paths == [path(&names(&[*wid]))]));
    }
}

#[test]
fn one_of_several_monitors_never_suffices_whatever_the_lease_says() {
    let mut world = beside(&["b", "c", "d"]);
    say(&mut world, "b", Offer { need: 2, ..offer("b", "a c", "a c") });
    let peer = world.plan().peers.iter().find(|peer| peer.node.as_str() == "b").expect("b is pinged");
    assert_eq!(peer.watched.as_ref().map(|watched| watched.quorum), Some(2));
}

#[test]
fn a_node_in_mode_off_or_with_other_members_is_not_watched() {
    let mut world = beside(&["b", "c", "d"]);
    for said in [offer("b", "a c", "c d"), Offer { mode: Mode::Off, ..offer("b", "a c", "a c") }] {
        say(&mut world, "b", said);
        let peer = world.plan().peers.iter().find(|peer| peer.node.as_str() == "b").expect("b is pinged");
        assert_eq!(peer.watched, None);
    }
}

#[test]
fn a_node_is_pinged_over_each_segment_that_both_are_on() {
    let mut world = beside(&["b"]);
    let second = |node: &str, net: &str| {
        let mut all = vec![interface(node)];
        all.extend(changed_interface(node, |it| {
            it.name = named("eth1");
            it.mac.0[0] = 6;
            it.subnets = vec![net.parse().expect("a subnet")];
        }));
        all
    };
    world.notify(Event::Interfaces(second("a", "198.51.100.7/24")));
    for (net, interfaces) in [("198.51.100.9/24", &["eth0", "eth1"][..]), ("203.0.113.9/24", &["eth0"])] {
        let lease = LeaseRecord { interfaces: second("b", net), ..world.stored_lease("b") };
        world.lease(lease);
        let paths = &world.plan().peers[0].paths;
        let over: Vec<&str> = paths.iter().map(|path| &*path.interface).collect();
        assert_eq!(over, interfaces, "{net}");
        let ids = world.plan().ids();
        assert_eq!(ids.len(), interfaces.len() * 2, "the session and the monitor, on each interface");
    }
}

#[test]
fn the_end_of_a_session_is_reported_until_the_lease_has_another_or_is_gone() {
    let notified = vec![Ended { session: session("b", 1), paths: vec![path("b")], takers: vec![path("c")] }];
    let over = |world: &mut World| {
        let ended = LeaseRecord { session: None, ended: vec![session("b", 1)], ..world.stored_lease("b") };
        world.lease(ended);
        assert_eq!(world.plan().ended, notified);
        assert!(world.plan().peers.iter().all(|peer| peer.node.as_str() != "b"), "it is not pinged");
    };
    let mut world = watching("a c", &["b", "c"]);
    over(&mut world);
    let back = LeaseRecord { session: Some(session("b", 2)), ..world.stored_lease("b") };
    world.lease(back);
    assert_eq!(world.plan().ended, []);

    let mut world = watching("a c", &["b", "c"]);
    over(&mut world);
    world.delete_lease("b");
    assert_eq!(world.plan().ended, []);

    let mut world = watching("c", &["b", "c"]);
    world.end("b");
    assert_eq!(world.plan().ended, [], "b has not invited this node");
}

#[test]
fn while_an_agent_restarts_its_program_receives_whom_it_received_before() {
    let mut world = holding(&["b", "c"]);
    say(&mut world, "c", offer("c", "", ""));
    let before = world.plan().clone();
    assert_eq!(before.peers.len(), 2, "c is invited, and invites none");

    let entries = [(VIP, crate::ownership::Entry::Held)];
    let mut next = World::start_with(&wired(), "a", World::pinned("a", &entries));
    next.notify(Event::WireSelf(Some(wid("a"))));
    next.notify(Event::WireKeys(vec![KeyId(1)]));
    for node in ["a", "b", "c"] {
        next.lease(world.stored_lease(node));
        assert_eq!(*next.plan(), Plan::default(), "the program goes on with the plan that it has");
    }
    next.introduce(&[]);
    next.claim(held("a"), 1);
    next.notify(Event::Demand(VIP, Some(demand())));
    next.notify(Event::Synced);
    assert_eq!(*next.plan(), before);
}
