//! Tests of this host's own facts: the file, the pins, and the binding.

use vipward_common::{Proof, VipKey};

use super::*;

const BROKEN: &[Broken] = &[
    (
        "the holder has no entry",
        at_the_holder,
        |facts| *entries(facts) = vec![entry(Role::Foreign, MacAddr::ZERO)],
        link::ENTRY,
        "this host should answer, and has no entry that does",
        "its log",
    ),
    (
        "another host than the holder answers",
        elsewhere,
        |facts| *entries(facts) = vec![entry(Role::Held, N2)],
        link::ENTRY,
        "is held at 02:00:00:00:01:02, and it should not be there",
        "its log",
    ),
    (
        "the holder gave way",
        at_the_holder,
        |facts| {
            *entries(facts) = vec![Entry { yielded: true, ..entry(Role::Foreign, ROGUE) }];
        },
        link::ENTRY,
        "yielded to 02:00:00:00:00:03",
        "SIGHUP",
    ),
    (
        "the program is not attached",
        at_the_holder,
        |facts| eth0(pins(facts)).xdp_programs.clear(),
        link::ATTACHED,
        "eth0 does not answer: native is pinned, but its program 40 is not on eth0",
        "start the agent again",
    ),
    (
        "no link is pinned where the entry is",
        at_the_holder,
        |facts| pins(facts).links.clear(),
        link::ATTACHED,
        "eth0 does not answer: not attached",
        "see whether the agent runs",
    ),
    (
        "the interface is gone",
        at_the_holder,
        |facts| pins(facts).network.interfaces.clear(),
        link::ATTACHED,
        "#2 does not answer: it is gone",
        "see whether the agent runs",
    ),
    (
        "the interface has no carrier",
        at_the_holder,
        |facts| eth0(pins(facts)).carrier = false,
        link::ATTACHED,
        "eth0 does not answer: up, but without carrier",
        "check the cable",
    ),
    (
        "the program is not attached, and the interface has no carrier",
        at_the_holder,
        |facts| {
            let eth0 = eth0(pins(facts));
            eth0.xdp_programs.clear();
            eth0.carrier = false;
        },
        link::ATTACHED,
        "eth0 does not answer: native is pinned, but its program 40 is not on eth0",
        "start the agent again",
    ),
    (
        "the interface has another MAC",
        at_the_holder,
        |facts| eth0(pins(facts)).mac = N2,
        link::ATTACHED,
        "eth0 does not answer: its MAC is 02:00:00:00:01:02",
        "see whether the agent runs",
    ),
    (
        "requests get past the program",
        at_the_holder,
        |facts| {
            pins(facts).contents.proofs.insert(State::SAMPLE_IFINDEX, Proof::Bypassed);
        },
        link::ATTACHED,
        "eth0 does not answer: bypassed",
        "bpftool net show dev eth0",
    ),
    (
        "requests get past the program, and the address is being handed over",
        elsewhere,
        |facts| {
            claim(facts).state = ClaimState::Offered { to: holder("n1", N1), from: (name("n2"), session(7)) };
            *entries(facts) = vec![entry(Role::Handover, N1)];
            pins(facts).contents.proofs.insert(State::SAMPLE_IFINDEX, Proof::Bypassed);
        },
        link::ATTACHED,
        "eth0 does not answer: bypassed",
        "bpftool net show dev eth0",
    ),
    (
        "the lease deadline has passed",
        at_the_holder,
        |facts| pins(facts).contents.pass_hold(),
        link::LEASE_DEADLINE,
        ": it is not answered",
        "start the agent again, or see in its log",
    ),
    (
        "its session has ended, as a peer says, and the lease deadline has passed",
        at_the_holder,
        |facts| {
            let contents = &mut pins(facts).contents;
            contents.pass_hold();
            contents.wire.notified.ended = 7;
        },
        link::LEASE_DEADLINE,
        "a peer's expiry notice ended this node's session: it is not answered",
        "it begins a new session",
    ),
    (
        "grace period without a peer",
        at_the_holder,
        |facts| {
            let contents = &mut pins(facts).contents;
            contents.pass_deadline();
            contents.peers.clear();
        },
        link::LEASE_DEADLINE,
        "it answers for 1 VIPs on eth0, where it knows no peer and yields to no host: two may answer",
        "vipward who-has 192.0.2.10",
    ),
    (
        "standalone: the file is bad",
        standalone,
        |facts| facts.config = Fact::failed("line 3: unknown key"),
        link::CONFIG,
        "line 3: unknown key",
        "--check",
    ),
    (
        "standalone: the file does not list it",
        standalone,
        |facts| listed(facts).vip = None,
        link::CONFIG,
        "vipward.yaml does not list it",
        "add it under `vips:`",
    ),
    (
        "standalone: no interface is in its subnet",
        standalone,
        |facts| {
            let vip = listed_vip(facts);
            vip.interface = None;
            vip.problems = vec!["VIP 192.0.2.10 is in the subnet of no attached interface".into()];
        },
        link::PLACEMENT,
        "in the subnet of no attached interface",
        "name an interface",
    ),
    (
        "standalone: no agent has run",
        standalone,
        |facts| facts.pins = Fact::Read(None),
        link::ENTRY,
        "nothing is pinned",
        "start the agent",
    ),
    (
        "standalone: it is not bound",
        standalone,
        |facts| listed_vip(facts).bind = Some(("lo".into(), false)),
        link::BOUND,
        "it is not on lo",
        "within 30 s",
    ),
    (
        "pins alone: no entry",
        standalone,
        |facts| {
            facts.config = Fact::skipped("no file");
            entries(facts).clear();
        },
        link::ENTRY,
        "there is no entry for it",
        "--kubeconfig",
    ),
];

#[test]
fn the_first_broken_step_of_this_host_is_named_with_what_to_do() {
    assert_broken(BROKEN);
}

#[test]
fn a_successor_is_no_trouble_of_the_interface() {
    let mut facts = elsewhere();
    claim(&mut facts).state = ClaimState::Offered { to: holder("n1", N1), from: (name("n2"), session(7)) };
    *entries(&mut facts) = vec![entry(Role::Handover, N1)];
    let explanation = explain(&facts);
    assert_eq!(explanation.broken, None, "{explanation:#?}");
    assert!(explanation.steps.iter().any(|step| step.subject == link::ATTACHED));
}

#[test]
fn an_entry_that_is_not_answered_is_not_said_to_be_held() {
    type Case = (&'static str, fn(&mut State), &'static str);
    let cases: [Case; 3] = [
        ("answered", |_| {}, "this host's entry on eth0 is held at 02:00:00:00:01:01"),
        (
            "the lease deadline has passed",
            |state| state.contents.pass_hold(),
            "this host's entry on eth0 is silent at 02:00:00:00:01:01: the lease deadline has passed",
        ),
        (
            "no carrier",
            |state| eth0(state).carrier = false,
            "this host's entry on eth0 is silent at 02:00:00:00:01:01: no carrier",
        ),
    ];
    for (what, change, says) in cases {
        let mut facts = at_the_holder();
        change(pins(&mut facts));
        let explanation = explain(&facts);
        let entry = explanation.steps.iter().find(|step| step.subject == link::ENTRY).expect("the step");
        assert_eq!((entry.state, entry.found.as_str()), (Green, says), "{what}");
    }
}

#[test]
fn a_lease_deadline_that_is_in_its_grace_period_gives_way_to_the_peers_that_it_knows() {
    for (what, has_peer) in [("with a peer", true), ("standalone, without one", false)] {
        let mut facts = at_the_holder();
        let contents = &mut pins(&mut facts).contents;
        contents.pass_deadline();
        if !has_peer {
            contents.peers.clear();
            contents.lease_deadline.session = 0;
        }
        let explanation = explain(&facts);
        assert_eq!(explanation.broken, None, "{what}: {explanation:#?}");
        let lease_deadline =
            explanation.steps.iter().find(|step| step.subject == link::LEASE_DEADLINE).expect("the step");
        assert_eq!(lease_deadline.state, Yellow, "{what}: {explanation:#?}");
    }
}

#[test]
fn the_lease_deadline_is_judged_where_the_address_is() {
    let mut facts = at_the_holder();
    let contents = &mut pins(&mut facts).contents;
    contents.pass_deadline();
    // No peer is known there.
    contents.entries.push(Entry { key: VipKey::new(3, [192, 0, 2, 11]), ..entry(Role::Held, N1) });
    let explanation = explain(&facts);
    let lease_deadline =
        explanation.steps.iter().find(|step| step.subject == link::LEASE_DEADLINE).expect("the step");
    assert_eq!(lease_deadline.state, Yellow, "{lease_deadline:?}");
}
