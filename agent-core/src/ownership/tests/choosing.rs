//! Choice of the candidate that gets a VIP: preferences first, then
//! stickiness, and the wishes of an operator.

use std::{collections::BTreeSet, net::IpAddr};

use super::world::*;
use crate::{
    ownership::{Event, Settings},
    records::{ClaimRecord, Demand, Epoch, LeaseRecord, NodeRecord, Reach, ServiceName},
};

const HANDED_OVER: [&str; 2] = ["entry handover b for 4.275s", "write claim: offered to b1 by a1, epoch 2"];

fn prefer_b() -> Demand {
    Demand { preferred: Some(selector("best")), ..demand() }
}

fn best(name: &str) -> Event {
    Event::Node(NodeRecord { labels: [("best".to_owned(), String::new())].into(), ..node(name) })
}

#[test]
fn a_better_candidate_gets_the_vip_only_after_it_has_been_one_for_a_while() {
    let mut world = World::holding(&["b"]);
    world.notify(best("b"));
    assert_eq!(world.want_so(prefer_b()), [""; 0]);
    let lines = world.timeline(STABLE_FOR);
    assert_eq!(lines, HANDED_OVER.map(|line| format!("30.000 {line}")));
}

#[test]
fn the_pool_prefers_nodes_for_a_service_that_prefers_none() {
    let rows = [
        ("neither prefers a node: b comes first by its name", None, None, true),
        ("the pool prefers b", None, Some("best"), true),
        ("the pool prefers a", None, Some("own"), false),
        ("the Service prefers a, whatever the pool prefers", Some("own"), Some("best"), false),
        ("the Service prefers b, whatever the pool prefers", Some("best"), Some("own"), true),
    ];
    for (description, of_service, of_pool, moves) in rows {
        let mut world = World::holding(&["b"]);
        world.notify(Event::Node(labelled("a", &["own"])));
        world.notify(best("b"));
        let demand = Demand {
            preferred: of_service.map(selector),
            policy: Some(policy(&[], &[], of_pool)),
            ..demand()
        };
        world.want_so(demand);
        let lines = world.timeline(STABLE_FOR);
        let expected = HANDED_OVER.map(|line| format!("30.000 {line}"));
        assert_eq!(lines, if moves { &expected[..] } else { &[] }, "{description}");
    }
}

#[test]
fn a_better_candidate_that_does_not_last_gets_nothing() {
    let mut world = World::holding(&["b"]);
    world.want_so(prefer_b());
    for _ in 0..5 {
        world.notify(best("b"));
        assert_eq!(world.after(just_before(STABLE_FOR)), [""; 0]);
        // Now both nodes are alike to the Service, or a is better.
        world.notify(best("a"));
        world.notify(Event::Node(node("b")));
        world.after(ms(1));
    }
    assert!(world.holds());
}

#[test]
fn a_better_candidate_that_dies_meanwhile_gets_nothing() {
    let mut world = World::holding(&["b"]);
    world.notify(best("b"));
    world.want_so(prefer_b());
    world.after(ms(10_000));
    world.kill("b");
    assert_eq!(world.after(ms(60_000)), [""; 0]);
}

#[test]
fn handovers_that_are_not_urgent_come_one_by_one() {
    let mut world = World::holding_all(&["b"], &[VIP, VIP_2, VIP_3]);
    world.notify(best("b"));
    for vip in [VIP, VIP_2, VIP_3] {
        world.notify(Event::Demand(vip, Some(prefer_b())));
    }
    let lines = world.timeline(STABLE_FOR + HANDOVER_PACE * 3);
    let offers: Vec<&str> =
        lines.iter().filter(|line| line.contains("offered")).map(|line| &line[..6]).collect();
    assert_eq!(offers, ["30.000", "31.000", "32.000"], "{lines:?}");
}

#[test]
fn a_node_that_is_uncordoned_gets_its_vip_back_only_after_a_while() {
    let mut world = World::holding(&["b"]);
    world.notify(best("b"));
    world.cordon_best("b", true);
    world.want_so(prefer_b());
    assert_eq!(world.after(ms(60_000)), [""; 0]);
    assert_eq!(world.cordon_best("b", false), [""; 0]);
    let lines = world.timeline(STABLE_FOR);
    assert_eq!(lines, HANDED_OVER.map(|line| format!("30.000 {line}")));
}

#[test]
fn a_node_that_is_not_ready_keeps_its_vip_for_a_while_where_only_a_cordoned_node_can_take_it() {
    let ready = |ready: bool| Event::Node(NodeRecord { ready, ..node("a") });
    let mut world = World::holding(&["b"]);
    world.cordon("b", true);
    assert_eq!(world.notify(ready(false)), [""; 0]);
    assert_eq!(world.after(STABLE_FOR.saturating_sub(ms(1))), [""; 0]);
    world.notify(ready(true));
    assert_eq!(world.after(STABLE_FOR), [""; 0]);

    world.notify(ready(false));
    let lines = world.timeline(STABLE_FOR);
    assert_eq!(lines, HANDED_OVER.map(|line| format!("30.000 {line}")));
}

impl World {
    fn cordon_best(&mut self, name: &str, cordoned: bool) -> Vec<String> {
        let labels = [("best".to_owned(), String::new())].into();
        self.notify(Event::Node(NodeRecord { labels, cordoned, ..node(name) }))
    }
}

#[test]
fn a_preferred_node_takes_a_free_vip_first() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("b"));
    let lines = world.want_so(prefer_b());
    assert_eq!(lines, ["entry foreign ?"]);
    assert_eq!(world.timeline(ms(1_000)), ["0.500 create claim: held by a1, epoch 1"]);
}

#[test]
fn a_better_node_that_gets_on_with_others_is_not_overtaken() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("b"));
    world.want_so(prefer_b());
    world.after(ms(400));
    world.claim_of(VIP_2, held("b"), 1);
    assert_eq!(world.timeline(ms(1_000)), ["0.500 create claim: held by a1, epoch 1"], "0.5 s after that");
}

#[test]
fn a_better_node_that_gets_on_with_others_is_not_waited_for_for_ever() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("b"));
    world.want_so(prefer_b());
    let began = world.now;
    for epoch in 1.. {
        let lines = [world.claim_of(VIP_2, held("b"), epoch), world.after(ms(400))].concat();
        if lines.iter().any(|line| line.starts_with("create claim")) {
            break;
        }
        assert!(world.now < began + ms(11_000), "until {:?}", world.now);
    }
    assert!(world.now > began + ms(10_000), "since {began:?}, at {:?}", world.now);
}

#[test]
fn a_better_node_is_waited_for_while_this_node_takes_vips_of_its_own() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("b"));
    world.want_so(prefer_b());
    let (theirs, ours) = (IpAddr::from([192, 0, 2, 20]), IpAddr::from([192, 0, 2, 21]));
    let mut lines = Vec::new();
    for epoch in 1..=50 {
        lines.extend(world.claim_of(theirs, held("b"), epoch));
        lines.extend(world.claim_of(ours, held("a"), epoch));
        lines.extend(world.after(ms(400)));
    }
    lines.retain(|line| line.starts_with("create"));
    assert_eq!(lines, [""; 0], "for 20 s");
    assert_eq!(
        world.timeline(ms(500)),
        ["0.100 create claim: held by a1, epoch 1"],
        "no node takes any more"
    );
}

#[test]
fn a_better_node_is_not_waited_for_longer_than_a_minute_whatever_this_node_takes() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("b"));
    world.want_so(prefer_b());
    let (theirs, ours) = (IpAddr::from([192, 0, 2, 20]), IpAddr::from([192, 0, 2, 21]));
    let began = world.now;
    for epoch in 1.. {
        let mut lines = world.claim_of(theirs, held("b"), epoch);
        lines.extend(world.claim_of(ours, held("a"), epoch));
        lines.extend(world.after(ms(400)));
        if lines.iter().any(|line| line.starts_with("create")) {
            break;
        }
        assert!(world.now < began + ms(61_500), "until {:?}", world.now);
    }
    assert!(world.now > began + ms(60_000), "since {began:?}, at {:?}", world.now);
}

#[test]
fn a_better_node_that_has_just_begun_its_session_gets_its_turn() {
    let settings = Settings { probing: Some(ms(700)), ..settings("a") };
    let mut world = World::living_with(&settings, "a", &[]);
    world.notify(best("b"));
    assert_eq!(world.want_so(prefer_b()), ["entry foreign ?", "probe"], "b has no agent");
    world.after(ms(300));
    assert_eq!(world.lease(lease("b", Some(session("b", 1)), &[])), ["stop probing"]);
    assert_eq!(world.timeline(ms(1_300)), ["1.200 probe"]);
}

#[test]
fn a_new_vip_is_created_in_turn_which_is_put_off_only_while_a_better_node_is_seen_to_create_others() {
    const WANTED: u64 = 1_000;
    let on_and_on: Vec<u64> = (1..=40).map(|times| WANTED + times * 400).collect();
    // A VIP is wanted after 1 s. The table has the node that creates other claims and the times at
    // which this node sees them. It also has the time at which this node creates the VIP's claim.
    let rows: [(&str, &str, &[u64], u64); 10] = [
        ("no node creates anything", "b", &[], 1_500),
        ("the better one created another before", "b", &[990], 1_500),
        ("it creates another", "b", &[1_400], 1_900),
        ("just before this node's turn", "b", &[1_499], 1_999),
        ("one after the other, then no more", "b", &[1_100, 1_550, 2_000, 2_450], 2_950),
        ("another, and one when it is too late", "b", &[1_400, 1_950], 1_900),
        ("one after the other, and never this one", "b", &on_and_on, 11_500),
        ("the worse one creates another", "c", &[1_400], 1_500),
        ("one after the other", "c", &on_and_on, 1_500),
        ("a node that cannot have this one creates another", "d", &[1_400], 1_500),
    ];
    for (what, who, seen, turn) in rows {
        // The order is b, a, c; d is out.
        let mut world = World::living("a", &["b", "c", "d"]);
        world.notify(best("b"));
        world.cordon("c", true);
        world.notify(Event::Node(NodeRecord { out_of_service: true, ..node("d") }));
        let (begin, mut number) = (world.now, 20);
        let mut lines = Vec::new();
        for time in 1..turn {
            lines.extend(world.after(ms(1)));
            if seen.contains(&time) {
                world.claim_of(IpAddr::from([192, 0, 2, number]), held(who), 1);
                number += 1;
            }
            if time == WANTED {
                assert_eq!(world.want_so(prefer_b()), ["entry foreign ?"], "{what}");
            }
        }
        assert_eq!(lines, [""; 0], "{what}: before its turn");
        assert_eq!(world.after(ms(1)), ["create claim: held by a1, epoch 1"], "{what}");
        assert_eq!(world.now, begin + ms(turn));
    }
}

#[test]
fn those_that_wait_for_a_better_node_keep_their_order() {
    // The order is b, a, c.
    for (us, others, turn) in [("a", ["b", "c"], "0.500"), ("c", ["a", "b"], "1.000")] {
        let mut world = World::living(us, &others);
        world.notify(best("b"));
        world.cordon("c", true);
        world.want_so(prefer_b());
        world.after(ms(400));
        world.claim_of(VIP_2, held("b"), 1);
        assert_eq!(world.timeline(ms(2_000)), [format!("{turn} create claim: held by {us}1, epoch 1")]);
    }
}

/// Returns so many VIPs that a node does not request all of them at once.
fn crowd() -> Vec<IpAddr> {
    (0..MOST_NEW + 10)
        .map(|number| IpAddr::from([192, 0, 2, 20 + u8::try_from(number).expect("it is small")]))
        .collect()
}

impl World {
    /// Wants all of them. Returns the number of claims that the node requests.
    fn want_all(&mut self, vips: &[IpAddr]) -> usize {
        let lines: Vec<String> =
            vips.iter().flat_map(|vip| self.notify(Event::Demand(*vip, Some(prefer_b())))).collect();
        lines.iter().filter(|line| line.contains("create")).count()
    }
}

#[test]
fn of_very_many_new_vips_some_are_asked_for_at_a_time() {
    let mut world = World::living("a", &[]);
    assert_eq!(world.want_all(&crowd()), MOST_NEW);
    let mut created = MOST_NEW;
    while !world.is_idle() {
        let next = world.answer().iter().filter(|line| line.contains("create")).count();
        assert!(next <= 1, "one for one");
        created += next;
    }
    assert_eq!(created, crowd().len());
}

#[test]
fn those_that_wait_are_for_whoever_is_better_by_then() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("a"));
    assert_eq!(world.want_all(&crowd()), MOST_NEW);
    world.notify(Event::Node(node("a")));
    world.notify(best("b"));
    for _ in 0..10 {
        assert_eq!(world.answer().iter().filter(|line| line.contains("create")).count(), 0);
    }
}

#[test]
fn a_new_vip_that_is_refused_makes_room_for_the_next() {
    let mut world = World::living("a", &[]);
    world.want_all(&crowd());
    for fail in [World::lose, World::refuse, World::miss] {
        let lines = fail(&mut world);
        assert!(lines.iter().any(|line| line.contains("create")), "{lines:?}");
    }
}

#[test]
fn of_those_that_wait_each_has_its_turn() {
    let mut world = World::living("a", &[]);
    let vips = crowd();
    world.want_all(&vips);
    let mut created = BTreeSet::new();
    // No request ever succeeds, and the node repeats the first ones again and again.
    for _ in 0..40 {
        for _ in 0..MOST_NEW {
            let lines = world.refuse();
            created.extend(lines.into_iter().filter(|line| line.contains("create")));
        }
        created.extend(world.after(ms(5_000)).into_iter().filter(|line| line.contains("create")));
    }
    assert_eq!(created.len(), vips.len(), "{created:#?}");
}

#[test]
fn a_waiting_vip_that_another_node_takes_or_no_service_wants_is_not_requested() {
    let mut world = World::living("a", &["b"]);
    world.notify(best("a"));
    let vips = crowd();
    world.want_all(&vips);
    world.claim_of(vips[MOST_NEW], held("b"), 1);
    world.notify(Event::Demand(vips[MOST_NEW + 1], None));
    let next: Vec<String> =
        (0..3).flat_map(|_| world.answer()).filter(|line| line.contains("create")).collect();
    let expected: Vec<String> = vips[MOST_NEW + 2..][..3]
        .iter()
        .map(|vip| format!("create claim: held by a1, epoch 1 ({vip})"))
        .collect();
    assert_eq!(next, expected);
}

#[test]
fn a_claim_that_is_deleted_by_hand_is_made_again_whoever_waits() {
    let mut world = World::holding(&[]);
    world.want_all(&crowd());
    world.erase_claim();
    let lines = world.see_claim();
    assert_eq!(lines, ["tell: repaired 192.0.2.10, missing", "create claim: held by a1, epoch 1"]);
}

#[test]
fn a_better_node_that_has_left_no_doubt_is_preferred_by_everybody_alike() {
    // The same node comes first for both nodes. Exactly one of the two acts at once.
    let at_once: Vec<bool> = [("a", "b"), ("b", "a")]
        .into_iter()
        .map(|(us, other)| {
            let mut world = World::living(us, &[other]);
            world.notify(Event::Node(node(us)));
            let lines = world.want_so(Demand { preferred: None, ..demand() });
            lines.iter().any(|line| line.starts_with("create"))
        })
        .collect();
    assert_eq!(at_once.iter().filter(|acts| **acts).count(), 1, "{at_once:?}");
}

#[test]
fn what_an_operator_asks_for_is_done_at_once() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.wish("b"), HANDED_OVER);
    world.answer();
    assert_eq!(world.claimed().move_to, None, "the wish is fulfilled");
}

#[test]
fn where_an_operator_has_moved_it_a_vip_stays() {
    let mut world = World::living("b", &["a"]);
    world.notify(best("a"));
    world.want_so(prefer_b());
    world.claim(held("a"), 1);
    let mut record = world.claimed().clone();
    record.note.cause = "an operator requested it".to_owned();
    world.store_record(ClaimRecord { state: offered("a", "b"), epoch: Epoch(2), ..record });
    world.see_claim();
    assert_eq!(world.answer(), ["entry held", "tell: held, from a"]);
    assert_eq!(world.after(STABLE_FOR * 3), [""; 0]);
    assert!(world.holds());
}

#[test]
fn a_vip_stays_where_an_operator_wants_it_to_be_also_if_it_was_there_and_whatever_is_edited() {
    let mut world = World::holding(&["b"]);
    world.notify(best("b"));
    world.wish("a");
    world.answer();
    world.want_so(prefer_b());
    assert_eq!(world.after(STABLE_FOR * 2), [""; 0]);
    world.claim(held("b"), 1);
    world.answer();
    assert_eq!(world.after(STABLE_FOR * 2), [""; 0]);
    assert!(world.holds());
}

#[test]
fn what_an_operator_asks_for_waits_until_all_know_the_mac() {
    let mut world = World::holding(&["b"]);
    let interfaces = changed_interface("b", |interface| interface.mac = mac("z"));
    world.lease(LeaseRecord { interfaces, ..world.stored_lease("b") });
    assert_eq!(world.wish("b"), [""; 0]);
    let lines = world.timeline(REST);
    assert_eq!(
        lines,
        ["4.500 entry handover z for 4.275s", "4.500 write claim: offered to b1 at z by a1, epoch 2"]
    );
}

#[test]
fn what_an_operator_asks_for_in_vain_is_reported_once_and_noted() {
    let mut world = World::holding(&["b"]);
    world.cordon("b", false);
    world.notify(Event::Node(NodeRecord { out_of_service: true, ..node("b") }));
    assert_eq!(
        world.wish("b"),
        [
            "tell: cannot move to b, taint node.kubernetes.io/out-of-service",
            "write claim: held by a1, epoch 1"
        ]
    );
    world.answer();
    assert_eq!(world.claimed().move_to, None);
    let trouble = world.claimed().note.trouble.clone().expect("it is noted");
    assert!(trouble.contains('b') && trouble.contains("out-of-service"), "{trouble}");
    assert_eq!(world.after(ms(60_000)), [""; 0]);
    assert!(world.holds());
}

#[test]
fn a_move_to_a_node_that_does_not_exist_is_reported_apart_from_one_to_a_node_without_an_agent() {
    for (is_a_node, why) in [(false, "there is no such Node"), (true, "no agent is running")] {
        let mut world = World::holding(&["b"]);
        if is_a_node {
            world.notify(Event::Node(node("c")));
        }
        let lines = world.wish("c");
        assert_eq!(lines[0], format!("tell: cannot move to c, {why}"), "{lines:?}");
        assert!(world.holds());
    }
}

#[test]
fn a_move_to_where_it_is_clears_the_wish_and_nothing_else() {
    let mut world = World::holding(&["b"]);
    assert_eq!(world.wish("a"), ["write claim: held by a1, epoch 1"]);
    world.answer();
    assert_eq!(world.claimed().move_to, None);
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

#[test]
fn services_that_change_are_noted_in_the_claim() {
    let mut world = World::holding(&["b"]);
    let service = ServiceName { namespace: named("default"), name: named("api") };
    let lines = world.want_so(Demand { services: vec![service.clone()], ..demand() });
    assert_eq!(lines, ["write claim: held by a1, epoch 1"]);
    world.answer();
    assert_eq!(world.claimed().note.services, [service]);
    assert_eq!(world.after(ms(20_000)), [""; 0]);
}

/// Returns the demand of a Service for all nodes, with others that have endpoints on these ones.
fn shared(others: &[&[&str]]) -> Demand {
    let other = |(number, nodes): (usize, &&[&str])| {
        let name = named(&number.to_string());
        let service = ServiceName { namespace: named("default"), name };
        (service, Reach::On(nodes.iter().map(|node| named(node).as_ref().into()).collect()))
    };
    Demand { besides: others.iter().enumerate().map(other).collect(), ..prefer_b() }
}

#[test]
fn a_node_that_serves_all_services_of_a_vip_comes_before_a_preferred_one() {
    // The Service prefers b. Without a preference, the order is e, a, c, d, b.
    type Row = (&'static str, &'static [&'static [&'static str]], &'static str, &'static str);
    let rows: [Row; 9] = [
        ("each node serves all", &[], "", "b"),
        ("one does", &[&["c"]], "", "c"),
        ("one does, that is preferred too", &[&["b", "c"]], "", "b"),
        ("one serves both", &[&["c", "d"], &["d", "e"]], "", "d"),
        ("none serves both: that of the earlier Service", &[&["c"], &["d", "e"]], "", "c"),
        ("the earlier one has none that can: that of the next one", &[&["z"], &["d"]], "", "d"),
        ("all serve none", &[&["z"]], "", "b"),
        ("the one that serves all is cordoned", &[&["c"]], "c", "b"),
        ("the one that serves all is cordoned, and another serves one", &[&["c", "d"], &["c"]], "c", "d"),
    ];
    for (description, others, cordoned, first) in rows {
        let mut world = World::living("a", &["b", "c", "d", "e"]);
        world.notify(best("b"));
        if !cordoned.is_empty() {
            world.cordon(cordoned, true);
        }
        let candidates = world.engine.nodes.candidates(VIP, &shared(others), world.now);
        assert_eq!(candidates[0].holder.node.as_str(), first, "{description}");
    }
}

#[test]
fn a_vip_moves_to_a_node_that_serves_all_as_to_a_preferred_one() {
    let mut world = World::holding(&["b", "c"]);
    world.notify(best("b"));
    world.notify(Event::Node(node("c")));
    assert_eq!(world.want_so(shared(&[&["c"]])), [""; 0]);
    let lines = world.timeline(STABLE_FOR);
    let offer = ["entry handover c for 4.275s", "write claim: offered to c1 by a1, epoch 2"];
    assert_eq!(lines, offer.map(|line| format!("30.000 {line}")));
}

#[test]
fn a_vip_does_not_wander_while_endpoints_come_and_go() {
    type Row = (&'static str, &'static [&'static [&'static [&'static str]]]);
    let rows: [Row; 4] = [
        ("the only one comes and goes", &[&[&["c"]], &[]]),
        ("from node to node", &[&[&["b"]], &[&["c"]]]),
        ("there is none in between", &[&[&["b"]], &[&["z"]]]),
        ("the holder has one, among others", &[&[&["a", "c"]], &[&["a", "b"]], &[&["a"]]]),
    ];
    for (description, steps) in rows {
        let mut world = World::holding(&["b", "c"]);
        world.notify(best("a"));
        for others in steps.iter().cycle().take(12) {
            let lines = [world.want_so(shared(others)), world.after(just_before(STABLE_FOR))].concat();
            assert!(world.holds() && !lines.iter().any(|line| line.contains("claim")), "{description}");
        }
    }
}

#[test]
fn while_the_endpoints_of_another_service_are_unknown_a_vip_is_taken_and_then_stays() {
    let unknown = || {
        let mut demand = shared(&[&["c"]]);
        demand.besides[0].1 = Reach::Unknown;
        demand
    };
    let mut world = World::holding(&["b", "c"]);
    world.notify(best("b"));
    world.want_so(unknown());
    assert_eq!(world.after(STABLE_FOR * 2), [""; 0]);
    assert!(world.holds());
    let mut world = World::living("a", &[]);
    let lines = world.want_so(unknown());
    assert!(lines.iter().any(|line| line.starts_with("create")), "{lines:?}");
}
