//! Probing: a VIP without a present or recent holder is taken if a probe finds its address free
//! (RFC 5227, 2.1).

use vipward_common::MacAddr;

use super::world::*;
use crate::{
    ownership::{Entry, Event, Found, Probed, Settings},
    records::{ClaimNote, ClaimRecord, ClaimState, Demand, NodeInterface, NodeRecord},
};

const UNKNOWN_HOST: MacAddr = MacAddr([2, 0, 0, 0, 0, b'x']);

/// Returns settings with which probing takes 700 ms at most.
fn asking(us: &str) -> Settings {
    Settings { probing: Some(ms(700)), ..settings(us) }
}

fn living(us: &'static str, others: &[&'static str]) -> World {
    World::living_with(&asking(us), us, others)
}

fn probed(world: &mut World, probed: Probed) -> Vec<String> {
    world.notify(Event::Probed { vip: VIP, probed })
}

fn in_use(by_peer: bool) -> Probed {
    Probed::InUse { mac: UNKNOWN_HOST, by_peer }
}

#[test]
fn a_new_vip_is_taken_when_its_address_has_been_found_free() {
    let mut world = living("a", &["b"]);
    assert_eq!(world.want(), ["entry foreign ?", "probe"]);
    assert_eq!(world.after(ms(600)), [""; 0]);
    assert_eq!(probed(&mut world, Probed::Free), ["create claim: held by a1, epoch 1"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from no node"]);
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn a_vip_that_a_node_held_until_now_is_taken_without_asking() {
    let mut world = living("a", &["b"]);
    world.claim(held("b"), 3);
    world.want();
    world.after(REST * 2);
    assert_eq!(world.end("b"), ["write claim: held by a1, epoch 4"]);
}

#[test]
fn a_vip_that_the_program_answered_for_until_now_is_taken_back_without_asking() {
    let table = [
        // (the program answers through a grace period, time since the other node wrote, is it
        // probed)
        (true, ms(10), false),
        (true, HOLD_FOR / 2, false),
        (true, HOLD_FOR + ms(13_000), true),
        (false, ms(10), false),
        (false, HOLD_FOR / 2, true),
    ];
    for (holds, passed, asks) in table {
        let mut found = World::pinned("a", &[(VIP, Entry::Held)]);
        if !holds {
            found.answers_until = found.deadline;
        }
        let mut world = World::start_with(&asking("a"), "a", found);
        // Another node ended its session while no agent ran.
        world.lease(lease("a", None, &[session("a", 1)]));
        world.introduce(&["b"]);
        world.claim(held("a"), 1);
        world.want();
        world.now = world.now + passed;
        let mut lines = world.sync();
        lines.extend(world.after(REST * 2));
        assert_eq!(lines.contains(&"probe".to_owned()), asks, "{holds}, after {passed:?}: {lines:?}");
        let takes = "write claim: held by new, epoch 2".to_owned();
        assert_eq!(lines.contains(&takes), !asks, "{holds}, after {passed:?}: {lines:?}");
    }
}

#[test]
fn the_program_of_the_last_holder_gives_way_and_that_of_another_node_does_not() {
    for (at, gives_way) in [("b", true), ("c", false)] {
        let mut world = living("a", &["b", "c"]);
        world.claim(held("b"), 3);
        // No node can take it for a while.
        world.want_so(Demand { nodes: Some(selector("nosuch=label")), ..demand() });
        world.after(REST * 2);
        for node in ["b", "c"] {
            world.end(node);
        }
        world.claim(ClaimState::Released, 3);
        world.after_renewals(15);
        assert_eq!(world.want(), ["probe"], "it may be another host's by now");
        let lines = probed(&mut world, Probed::InUse { mac: mac(at), by_peer: true });
        let takes = lines.iter().any(|line| line.contains("held by a1"));
        assert_eq!(takes, gives_way, "{at}: {lines:?}");
    }
}

#[test]
fn a_vip_that_is_forced_is_taken_without_asking() {
    let mut world = living("a", &["b"]);
    let lines = world.want_so(Demand { force: true, ..demand() });
    assert_eq!(lines, ["entry foreign ?", "create claim: held by a1, epoch 1"]);

    let mut world = living("a", &["b"]);
    world.want();
    probed(&mut world, in_use(false));
    world.answer();
    let lines = world.want_so(Demand { force: true, ..demand() });
    assert_eq!(lines, ["write claim: held by a1, epoch 1", "stop probing"], "also when it is found in use");
}

#[test]
fn an_address_in_use_is_reported_in_the_claim_and_taken_when_it_is_free() {
    let mut world = living("a", &["b"]);
    world.want();
    assert_eq!(probed(&mut world, in_use(false)), ["create claim: released, epoch 0"]);
    assert_eq!(world.answer(), [""; 0]);
    let trouble = world.claimed().note.trouble.clone().expect("it is noted");
    assert!(trouble.contains(&UNKNOWN_HOST.to_string()) && trouble.contains("in use"), "{trouble}");
    assert_eq!(probed(&mut world, in_use(false)), [""; 0], "it is notified once");
    assert_eq!(world.after(ms(120_000)), [""; 0]);
    assert!(!world.holds());
    assert_eq!(probed(&mut world, Probed::Free), ["write claim: held by a1, epoch 1"]);
    assert_eq!(world.answer(), ["entry held", "tell: held, from no node"]);
}

#[test]
fn a_false_claim_that_names_the_mac_of_a_host_takes_no_address_from_it() {
    let mut world = living("a", &["b"]);
    let ClaimState::Held(us) = held("a") else { unreachable!("it is held") };
    world.claim(ClaimState::Held(crate::records::Holder { mac: UNKNOWN_HOST, ..us }), 1);
    world.want();
    world.after(REST * 2);
    let lines = probed(&mut world, in_use(false));
    assert_eq!(lines, ["write claim: released, epoch 1"], "it names the host's MAC");
    assert!(!world.holds());
}

#[test]
fn an_address_at_a_node_that_may_have_lost_its_claim_is_taken_only_from_its_last_holder() {
    let settings = asking("a");
    let longest = settings.restart_lease * 21 / 20 + settings.margin;
    for (last, taken) in [(None, false), (Some("b"), true)] {
        let mut world = living("a", &["b"]);
        if last.is_some() {
            world.claim(held("b"), 3);
            world.want();
            world.after(REST * 2);
            world.erase_claim();
            world.see_claim();
        }
        world.end("b");
        world.want();
        world.after(REST * 2);
        let at_b = Probed::InUse { mac: mac("b"), by_peer: true };
        probed(&mut world, at_b);
        assert_eq!(world.after(longest.saturating_sub(ms(100))), [""; 0], "it may be about to start again");
        let lines = world.after(ms(200));
        assert_eq!(
            lines.contains(&"create claim: held by a1, epoch 1".to_owned()),
            taken,
            "{last:?}: {lines:?}"
        );
    }
}

#[test]
fn an_address_at_a_node_whose_agent_lives_and_does_not_claim_it_is_another_programs() {
    let longest = asking("a").restart_lease * 21 / 20 + MARGIN;
    let mut world = living("a", &["b"]);
    world.want();
    let at_b = Probed::InUse { mac: mac("b"), by_peer: true };
    assert_eq!(probed(&mut world, at_b), [""; 0]);
    assert_eq!(world.after(longest + ms(100)), ["create claim: released, epoch 0"]);
    world.answer();
    let trouble = world.claimed().note.trouble.clone().expect("it is noted");
    assert!(trouble.contains("another program of node b"), "{trouble}");
    assert_eq!(world.after(longest), [""; 0]);
    assert_eq!(probed(&mut world, Probed::Free), ["write claim: held by a1, epoch 1"]);
}

#[test]
fn nothing_is_asked_when_another_node_comes_first_or_the_vip_is_wanted_no_more() {
    let mut world = living("a", &["b"]);
    world.want();
    let lines = world.claim(held("b"), 1);
    assert_eq!(lines, ["entry foreign b", "stop probing"]);
    assert_eq!(probed(&mut world, Probed::Free), [""; 0], "an answer that is late");

    let mut world = living("a", &["b"]);
    world.want();
    assert_eq!(world.notify(Event::Demand(VIP, None)), ["no entry", "stop probing"]);
}

/// Returns the lines that follow when a Service wants a VIP on the
/// interface `eth0` first, and then on `eth1`.
fn moved_after(found: impl FnOnce(&mut World)) -> Vec<String> {
    let on = |interface: &str| {
        let interfaces = vec![interface.parse().expect("a pattern")];
        Demand { interfaces, ..demand() }
    };
    let mut world = living("a", &[]);
    world.notify(Event::Interfaces(vec![
        interface("a"),
        NodeInterface { name: "eth1".into(), mac: mac("z"), ..interface("a") },
    ]));
    world.after(REST * 2);
    assert_eq!(world.want_so(on("eth0")), ["entry foreign ?", "probe"]);
    found(&mut world);
    let mut lines = world.want_so(on("eth1"));
    lines.extend(world.after(ms(5_000)));
    lines
}

#[test]
fn what_was_found_on_one_segment_says_nothing_about_another() {
    let again = ["stop probing", "entry foreign ?", "probe"];
    assert_eq!(moved_after(|_| {}), again, "while it is asked");
    let is_used = |world: &mut World| {
        probed(world, in_use(false));
        world.answer();
    };
    assert_eq!(moved_after(is_used), again, "when it is in use");
    let is_free = |world: &mut World| {
        probed(world, Probed::Free);
        // The API server refuses to write the claim.
        world.refuse();
    };
    assert_eq!(moved_after(is_free), ["entry foreign ?", "probe"], "when it is free");
}

#[test]
fn the_second_best_candidate_waits_until_the_best_has_asked() {
    // Node b is not preferred.
    let mut world = living("b", &["a"]);
    let preferred = NodeRecord { labels: [(FIRST.to_owned(), String::new())].into(), ..node("a") };
    world.notify(Event::Node(preferred));
    world.notify(Event::Node(node("b")));
    assert_eq!(world.want(), ["entry foreign ?"]);
    assert_eq!(world.after(ms(1_150)), [""; 0]);
    assert_eq!(world.after(ms(100)), ["probe"]);
}

#[test]
fn two_candidates_ask_often_while_an_address_is_in_use_and_the_others_when_one_of_these_is_gone() {
    let mut world = living("a", &["b", "c", "d"]);
    for better in ["b", "c", "d"] {
        let preferred = NodeRecord { labels: [(FIRST.to_owned(), String::new())].into(), ..node(better) };
        world.notify(Event::Node(preferred));
    }
    world.notify(Event::Node(node("a")));
    world.want();
    assert_eq!(world.after(ms(2_300)), ["probe rarely"]);
    assert_eq!(probed(&mut world, in_use(false)), [""; 0]);
    assert_eq!(world.end("b"), [""; 0], "c and d ask often");
    assert_eq!(world.end("c"), ["probe"]);
    assert_eq!(world.after(ms(1_000)), [""; 0], "it is notified once");
    assert_eq!(world.end("d"), ["create claim: released, epoch 0"], "the first one reports");
}

#[test]
fn an_address_that_was_free_long_ago_is_asked_about_again() {
    let mut world = living("a", &["b"]);
    world.notify(Event::Interfaces(Vec::new()));
    world.notify(Event::Interfaces(vec![interface("a")]));
    world.after(REST * 2);
    world.want();
    probed(&mut world, Probed::Free);
    // The API server refuses to write the claim.
    world.refuse();
    assert!(world.after(ms(5_000)).iter().any(|line| line.starts_with("create claim")), "asked for again");
    world.refuse();
    assert_eq!(world.after(ms(5_000)), ["probe"]);
}

/// Returns the first line about a VIP's claim or probes of an agent that starts beside another one,
/// and the time until then.
fn first_step(probing: bool, force: bool) -> String {
    let settings = if probing { asking("a") } else { settings("a") };
    let mut world = World::start_with(&settings, "a", Found::default());
    world.introduce(&["b"]);
    world.want_so(Demand { force, ..demand() });
    let begun: Vec<String> = world.sync().into_iter().map(|line| format!("0.000 {line}")).collect();
    let lines = begun.into_iter().chain(world.timeline(REST * 2));
    let mut lines = lines.filter(|line| line.contains("probe") || line.contains("create claim"));
    lines.next().expect("the VIP is taken")
}

#[test]
fn an_agent_that_starts_beside_others_probes_at_once_and_takes_without_probes_only_after_a_while() {
    assert_eq!(first_step(true, false), "0.000 probe", "a node that lost the claim would answer");
    for (probing, force) in [(false, false), (true, true)] {
        let step = first_step(probing, force);
        assert_eq!(step, "4.500 create claim: held by new, epoch 1", "another may write the claim again");
    }
}

#[test]
fn a_vip_whose_address_a_host_had_before_is_given_back_and_is_no_one_s_by_habit() {
    let late = Probed::Late { mac: UNKNOWN_HOST, by_peer: false };
    // The answer comes while the claim is being written, or when it is written.
    for is_written in [false, true] {
        let mut world = living("a", &["b"]);
        world.want();
        probed(&mut world, Probed::Free);
        if is_written {
            world.answer();
        }
        let mut lines = probed(&mut world, late);
        if !is_written {
            lines.extend(world.answer());
        }
        lines.retain(|line| !line.starts_with("tell"));
        let expected: &[&str] = &["entry foreign ?", "write claim: released, epoch 1"];
        assert!(
            lines.iter().map(String::as_str).collect::<Vec<_>>().ends_with(expected),
            "{is_written}: {lines:?}"
        );
        world.answer();
        let note = world.claimed().note.clone();
        assert!(note.trouble.is_some_and(|it| it.contains(&UNKNOWN_HOST.to_string())), "{}", note.cause);
        assert_eq!(world.after(ms(60_000)), ["probe patiently"], "{is_written}: it waits");
        assert_eq!(probed(&mut world, Probed::Free), ["write claim: held by a1, epoch 2"], "{is_written}");
    }
}

#[test]
fn other_nodes_probe_the_address_of_a_host_that_answers_late_with_patience() {
    let mut world = living("b", &["a"]);
    let note = ClaimNote {
        cause: "its address is in use, and the host answered late".to_owned(),
        ..ClaimNote::default()
    };
    world.store_record(ClaimRecord { note, ..claim_record(VIP) });
    world.see_claim();
    world.want();
    let lines = world.after(REST * 4);
    assert!(lines.contains(&"probe patiently".to_owned()), "{lines:?}");
}

#[test]
fn a_segment_on_which_no_host_was_heard_is_reported_in_the_claim() {
    let mut world = living("a", &["b"]);
    world.want();
    let lines = probed(&mut world, Probed::Unheard);
    assert!(lines[0].starts_with("tell: no holder, no host was heard on a's segment"), "{lines:?}");
    assert_eq!(lines[1..], ["create claim: released, epoch 0"]);
    world.answer();
    let trouble = world.claimed().note.trouble.clone().expect("it is noted");
    assert!(trouble.contains("no host was heard on a's segment"), "{trouble}");
    assert_eq!(probed(&mut world, Probed::Unheard), [""; 0], "once");
    assert_eq!(probed(&mut world, Probed::Free), ["write claim: held by a1, epoch 1"]);
}
