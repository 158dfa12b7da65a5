//! Changes while an address is probed: of the file, of the carrier, and what a peer answers.

use std::time::Duration;

use vipward_common::EventKind;

use super::{world::*, *};
use crate::base::samples::unknown_host;

/// Time in which an attempt, and the next one, would be over.
const LONG: Duration = Duration::from_secs(30);

/// Returns a file that holds a VIP after `count` probes, one a second.
fn after_probes(count: u32) -> String {
    format!("vips: [{{address: 10.0.0.10, bind: lo}}]\nprobe: {{count: {count}, interval: 1s}}\n")
}

/// Returns an agent that has sent the first probe.
fn probing(count: u32) -> World {
    let mut world = World::file(&after_probes(count));
    world.notify(Input::Begin);
    assert_eq!(world.after_only(ms(550), "probe 10|write"), ["probe 10"]);
    world
}

fn probes_until_taken(lines: &[String]) -> usize {
    let taken = lines.iter().position(|line| line == "write 10 held 01, bind 10 lo");
    let before = &lines[..taken.expect("it is taken")];
    before.iter().filter(|line| *line == "probe 10").count()
}

#[test]
fn a_file_that_is_read_again_meanwhile_leaves_the_vip_with_as_many_probes_as_it_says() {
    // The counts before and after, if it is read at an operator's request, and the resulting number.
    for (from, to, reclaim, expected) in
        [(3, 3, true, 3), (20, 3, false, 3), (2, 4, false, 4), (20, 1, false, 1), (3, 0, false, 1)]
    {
        let mut world = probing(from);
        let mut lines = world.reload(Some(&after_probes(to)), reclaim);
        lines.extend(world.after(LONG));
        assert_eq!(probes_until_taken(&lines) + 1, expected, "{from}, then {to}");
    }
}

#[test]
fn a_vip_that_leaves_the_file_meanwhile_leaves_nothing_behind_and_begins_anew_when_it_is_back() {
    for reclaim in [false, true] {
        let mut world = probing(3);
        let none = "vips: []\nprobe: {interval: 1s}\n";
        let lines = only(world.reload(Some(none), reclaim), "write|log probed");
        assert_eq!(lines, ["write no 10", "log probed, 0 in use"], "{reclaim}");
        assert_eq!(world.after_only(LONG, "probe 10|announce|write"), [""; 0], "{reclaim}");
        assert_eq!((world.roles(), world.binds.len()), (vec![], 0), "{reclaim}");

        let mut lines = world.reload(Some(&after_probes(2)), reclaim);
        lines.extend(world.after(LONG));
        assert_eq!(probes_until_taken(&lines), 2, "{reclaim}");
    }
}

#[test]
fn who_takes_the_address_while_the_carrier_is_away_keeps_it() {
    let mut world = probing(3);
    for (carrier, probes) in [(false, 0), (true, 1)] {
        world.eth0().carrier = carrier;
        world.changed();
        let wait = if carrier { ms(550) } else { LONG };
        assert_eq!(world.after_only(wait, "probe 10|write 10 held").len(), probes, "{carrier}");
    }
    let lines = world.event(10, EventKind::Sighted, unknown_host(1));
    assert_eq!(only(lines, "log 10|log conflict"), ["log conflict InUse", "log 10 in use"]);
    assert_eq!((world.roles(), world.binds.len()), (vec!["10 foreign ?".to_owned()], 0));
}

#[test]
fn an_address_that_a_peer_answers_for_waits_without_a_conflict_and_is_taken_when_it_is_free() {
    let mut world = World::file("vips: [{address: 10.0.0.10}]\n");
    world.notify(Input::Begin);
    let first = ["log conflict Moved", "log 10 in use", "log probed, 1 in use"];
    for expected in [&first[..], &["log 10 in use"]] {
        let mut lines = vec![];
        while !lines.contains(&"probe 10".to_owned()) {
            lines = world.after(ms(50));
        }
        let lines = world.event(10, EventKind::Moved, PEER);
        assert_eq!(only(lines, "log"), expected, "the peer is reported once");
        assert_eq!(world.roles(), ["10 foreign ?"]);
        assert_eq!(world.after_only(ms(1_050), "ask host"), ["ask host 10 at 09"]);
        world.event(10, EventKind::Moved, PEER);
        let answerer = crate::segment::confirming::Answerer::Host;
        world.notify(Input::Told { key: key(10), mac: PEER, answerer });
    }
    assert_eq!(world.after_only(ms(1_750), "log conflict|write 10"), ["write 10 held 01"]);
}

/// Lets time pass, in which a MAC answers probes for an address, and requests if it `is_alive`.
fn answered(world: &mut World, host: u8, is_alive: bool, duration: Duration) -> Vec<String> {
    let (end, mut lines) = (world.now + duration, Vec::new());
    while world.now < end {
        let new = world.after(ms(10));
        let is_asked = |what: &str| new.iter().any(|line| line.starts_with(what));
        if is_asked("probe") || is_alive && is_asked("ask host") {
            lines.extend(world.event(host, EventKind::Sighted, unknown_host(1)));
        }
        lines.extend(new);
    }
    lines
}

#[test]
fn an_address_that_a_proxy_alone_answers_for_is_taken_by_the_policy_and_a_living_hosts_is_not() {
    let rows = [("take", false, true), ("take", true, false), ("wait", false, false), ("wait", true, false)];
    for host in [10, 100] {
        let address = vip(host);
        for (policy, is_alive, is_taken) in rows {
            let file = format!("vips: [{{address: \"{address}\"}}]\nprobe: {{proxied: {policy}}}\n");
            let mut world = World::file(&file);
            world.notify(Input::Begin);
            let lines = answered(&mut world, host, is_alive, Duration::from_secs(8));
            let held = format!("write {host} held 01");
            assert_eq!(lines.contains(&held), is_taken, "{address}, {policy}, alive: {is_alive}: {lines:?}");
            let named = only(lines, "log proxy|tell apart");
            let expected = match (is_alive, is_taken) {
                (true, _) => format!("tell apart {host} at 01"),
                (false, true) => format!("log proxy answers for {host}, takes"),
                (false, false) => format!("log proxy answers for {host}"),
            };
            assert_eq!(named.first(), Some(&expected), "{policy}");
            let answerer = crate::segment::confirming::Answerer::Router;
            let told = Input::Told { key: key(host), mac: unknown_host(1), answerer };
            let told = only(world.notify(told), "log");
            let router = [format!("log router answers for {host}"), "log offender named".to_owned()];
            assert_eq!(told == router, is_alive, "{policy}: {told:?}");
        }
    }
}

#[test]
fn of_several_addresses_only_those_in_use_wait() {
    let mut world = World::file("vips: [{address: 10.0.0.10}, {address: 10.0.0.11}, {address: 10.0.0.12}]\n");
    world.notify(Input::Begin);
    world.after(ms(150));
    for (host, mac) in [(10, unknown_host(1)), (11, unknown_host(2))] {
        let lines = world.event(host, EventKind::Sighted, mac);
        assert!(lines.contains(&"log conflict InUse".to_owned()), "{host}: {lines:?}");
    }
    world.after(ms(800));
    assert_eq!(world.roles(), ["10 foreign ?", "11 foreign ?", "12 held 01"]);
}

#[test]
fn a_round_that_is_overdue_leaves_after_the_lease_deadline_has_moved_and_not_for_a_vip_that_was_yielded() {
    let rows: [(bool, &[&str]); 2] = [
        (false, &["lease_deadline", "announce 10 01 Taking(1)"]),
        (true, &["lease_deadline", "write 10 foreign ?"]),
    ];
    for (yielded, expected) in rows {
        let mut world = World::file("vips: [{address: 10.0.0.10, force: true}]\n");
        world.notify(Input::Begin);
        world.after(ms(500));
        // The agent was stopped.
        world.now = world.now + LONG;
        if yielded {
            world.yield_to(10, PEER);
        }
        let lines = world.notify(Input::Deadline);
        let lines = only(lines, "lease_deadline|announce 10 01 Taking|write 10");
        assert_eq!(lines, expected, "{yielded}");
    }
}

#[test]
fn an_address_is_bound_where_the_file_says_and_while_it_does() {
    let line = |bind: &str| format!("vips: [{{address: 10.0.0.10{bind}}}]\n");
    let mut world = World::running(&line(", bind: lo"), &[10]);
    assert_eq!(world.binds, [("lo".to_owned(), vip(10))].into());
    for (bind, expected) in
        [(", bind: eth0", "write unbind 10 lo, bind 10 eth0"), ("", "write unbind 10 eth0")]
    {
        assert_eq!(only(world.reload(Some(&line(bind)), false), "write"), [expected]);
    }
}

#[test]
fn an_interface_whose_new_name_is_not_listed_is_left_until_it_has_its_name_again() {
    let mut world = World::running("interfaces: [eth0]\nvips: [{address: 10.0.0.10}]\n", &[10]);
    world.eth0().name = "lan0".to_owned();
    let lines = only(world.changed(), "prepare|write");
    assert_eq!(lines, ["prepare []", "write no 10, no peer 09, no own 3"]);
    assert!(world.problems.contains("interface eth0 does not exist; waiting for it"), "{:?}", world.problems);
    world.eth0().name = "eth0".to_owned();
    assert_eq!(only(world.changed(), "prepare"), ["prepare [3]"]);
    world.after(ms(900));
    assert_eq!(world.roles(), ["10 held 01"]);
}

#[test]
fn a_vip_whose_host_answers_late_is_silent_at_once_and_taken_when_the_host_is_gone() {
    for text in ["vips: [{address: 10.0.0.10}]\n", "vips: [{address: 10.0.0.10, bind: lo}]\n"] {
        let mut world = World::file(text);
        world.notify(Input::Begin);
        world.after(ms(900));
        assert_eq!(world.roles(), ["10 held 01"], "{text}");
        world.event(10, EventKind::Conflict, unknown_host(1));
        assert_eq!((world.roles(), world.binds.len()), (vec!["10 foreign ?".to_owned()], 0), "{text}");
        let lines = world.after_only(ms(3_500), "announce|write|probe");
        assert_eq!(lines, ["probe 10"; 3], "{text}: it rests, and waits after the last probe");
        world.after(ms(2_000));
        assert_eq!(world.roles(), ["10 held 01"], "{text}");
    }
}

#[test]
fn where_no_host_was_heard_a_vip_is_held_when_one_is() {
    let mut world = World::file("vips: [{address: 10.0.0.10}]\n");
    world.is_unheard = true;
    world.notify(Input::Begin);
    let lines = world.after_only(Duration::from_secs(20), "log eth0|announce");
    assert_eq!(lines, ["log eth0 unheard"]);
    let lines = only(world.notify(Input::Heard(ETH0)), "log eth0|announce|probe");
    assert_eq!(lines, ["log eth0 heard again"]);
    let lines = world.after_only(ms(800), "announce");
    assert_eq!(lines, ["announce 10 01 Taking(0)"]);
}
