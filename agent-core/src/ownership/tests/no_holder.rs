//! Reasons why no node holds a VIP: one node reports them, once, with every node and its reason.

use super::world::*;
use crate::{
    ownership::Event,
    records::{ClaimState, Demand, NodeRecord, Reach},
};

/// Returns a world in which no node can hold the VIP: a is out of
/// service, b has no endpoint, c has no agent.
fn hopeless(us: &'static str) -> World {
    let other = if us == "a" { "b" } else { "a" };
    let mut world = World::living(us, &[other]);
    world.notify(Event::Node(NodeRecord { out_of_service: true, ..node("a") }));
    world.notify(Event::Node(node("c")));
    let local = [named("a"), named("c")].iter().map(|name| (&**name).into()).collect();
    world.want_so(Demand { reach: Reach::On(local), ..demand() });
    world
}

/// Returns the worlds and lines of both nodes. One of the nodes is the reporter.
fn reports() -> Vec<(World, Vec<String>)> {
    ["a", "b"]
        .into_iter()
        .map(|us| {
            let mut world = hopeless(us);
            let lines = world.after_renewals(60);
            (world, lines)
        })
        .collect()
}

#[test]
fn one_node_reports_it_once() {
    let notified: Vec<usize> = reports()
        .iter()
        .map(|(_, lines)| lines.iter().filter(|line| line.starts_with("tell: no holder")).count())
        .collect();
    assert_eq!(notified.iter().sum::<usize>(), 1, "{notified:?}");
}

#[test]
fn every_node_is_named_with_its_reason_to_people_and_in_the_claim() {
    let reports = reports();
    let (world, lines) = reports.iter().find(|(_, lines)| !lines.is_empty()).expect("a reporter");
    let notified = lines.iter().find(|line| line.starts_with("tell: no holder")).expect("a notice");
    let reasons = [
        "a: taint node.kubernetes.io/out-of-service",
        "b: externalTrafficPolicy is Local and no endpoint is ready there",
        "c: no agent is running",
        ". For a: remove the taint when the node is well again",
    ];
    for reason in reasons {
        assert!(notified.contains(reason), "{reason:?} in {notified:?}");
        let trouble = world.claimed().note.trouble.clone().expect("it is noted");
        assert!(trouble.contains(reason), "{reason:?} in {trouble:?}");
    }
    assert_eq!(world.claimed().state, ClaimState::Released);
}

#[test]
fn the_remedy_is_said_however_many_nodes_have_a_reason() {
    for us in ["a", "b"] {
        let mut world = hopeless(us);
        for number in 0..30 {
            let name = format!("a-node-with-a-long-name-in-a-large-cluster-{number:02}.example.com");
            world.notify(Event::Node(node(&name)));
        }
        let lines = world.after_renewals(60);
        let Some(notified) = lines.iter().find(|line| line.starts_with("tell: no holder")) else { continue };
        assert!(notified.ends_with(". For a: remove the taint when the node is well again"), "{notified}");
        assert!(notified.contains("; and ") && notified.len() < 1_024, "{notified}");
        return;
    }
    panic!("no notice came");
}

#[test]
fn other_reasons_are_reported_too() {
    for us in ["a", "b"] {
        let mut world = hopeless(us);
        let mut lines = world.after(ms(2_000));
        if lines.is_empty() {
            continue;
        }
        world.answer();
        world.notify(Event::Node(NodeRecord { network_unavailable: true, ..node("a") }));
        lines = world.after(ms(30_000));
        let notified = lines.iter().filter(|line| line.contains("a: condition NetworkUnavailable")).count();
        assert_eq!(notified, 1, "{lines:?}");
        return;
    }
    panic!("no notice came");
}

#[test]
fn a_vip_that_a_node_can_hold_again_is_taken_and_no_remark_stays() {
    let mut world = hopeless("a");
    let lines = world.after(ms(2_000));
    if !lines.is_empty() {
        world.answer();
    }
    let lines = [world.notify(Event::Node(node("a"))), world.after(ms(2_000))].concat();
    assert!(lines.iter().any(|line| line.contains("claim: held by a1, epoch 1")), "{lines:?}");
    world.answer();
    assert_eq!(world.claimed().note.trouble, None);
    assert!(world.holds());
}

#[test]
fn of_a_vip_whose_claim_vanished_while_it_was_held_nothing_is_said_before_its_holder_could_put_that_right() {
    // One of the three nodes is the reporter. In two of the rows
    // it is `us`, and so is not the holder.
    for (us, holder, third) in
        [("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("b", "c", "a"), ("c", "a", "b"), ("c", "b", "a")]
    {
        let mut world = World::living(us, &[holder, third]);
        world.claim(held(holder), 1);
        world.want();
        for name in [us, holder, third] {
            world.notify(Event::Node(NodeRecord { out_of_service: true, ..node(name) }));
        }
        world.erase_claim();
        world.notify(Event::ClaimGone(VIP));
        let lines = world.after(just_before(REST));
        assert_eq!(lines, [""; 0], "what is said is a claim, and {holder} could not write its own then");
    }
}

#[test]
fn it_is_reported_again_every_ten_minutes_while_it_lasts_by_whichever_node_reports_by_then() {
    let told = |lines: &[String]| lines.iter().filter(|line| line.starts_with("tell: no holder")).count();
    let mut reported = Vec::new();
    for us in ["a", "b"] {
        let mut world = hopeless(us);
        let is_reporter = told(&world.after_renewals(25 * 60)) > 0;
        reported.push(is_reporter);
        if is_reporter {
            assert_eq!(told(&world.after_renewals(10 * 60)), 1, "it has lasted for 35 minutes");
        } else {
            // The reporter dies.
            world.renewing.clear();
            assert_eq!(told(&world.after_renewals(60)), 1, "{us} reports it now");
        }
    }
    assert_eq!(reported.iter().filter(|is| **is).count(), 1);
}
