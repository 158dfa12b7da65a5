//! What this host has of the address: the file, the pins, and the binding.

use super::*;

const BROKEN: &[Broken] = &[
    (
        "the holder has no entry",
        at_the_holder,
        |facts| pins(facts).entries = vec![entry(Role::Foreign, MacAddr::ZERO)],
        Link::Entry,
        "this host should answer, and has no entry that does",
        "its log",
    ),
    (
        "another host than the holder answers",
        elsewhere,
        |facts| pins(facts).entries = vec![entry(Role::Held, N2)],
        Link::Entry,
        "is held at 02:00:00:00:01:02, and it should not",
        "its log",
    ),
    (
        "the holder gave way",
        at_the_holder,
        |facts| {
            pins(facts).entries = vec![EntryFacts { yielded: true, ..entry(Role::Foreign, ROGUE) }];
        },
        Link::Entry,
        "gave way to 02:00:00:00:00:03",
        "SIGHUP",
    ),
    (
        "the program is not attached",
        at_the_holder,
        |facts| pins(facts).entries[0].link_trouble = Some(LinkTrouble::NotAttached),
        Link::Attached,
        "eth0 does not answer: the program is not attached",
        "see whether the agent runs",
    ),
    (
        "the fence is over",
        at_the_holder,
        |facts| pins(facts).fence = FenceState::Over,
        Link::Fence,
        "nothing is answered",
        "start the agent",
    ),
    (
        "standalone: the file is bad",
        standalone,
        |facts| facts.config = Look::Failed("line 3: unknown key".into()),
        Link::Config,
        "line 3: unknown key",
        "--check",
    ),
    (
        "standalone: the file does not list it",
        standalone,
        |facts| listed(facts).vip = None,
        Link::Config,
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
        Link::Placement,
        "in the subnet of no attached interface",
        "name an interface",
    ),
    (
        "standalone: no agent has run",
        standalone,
        |facts| facts.pins = Look::Not("nothing is pinned under /sys/fs/bpf/vipward".into()),
        Link::Entry,
        "nothing is pinned",
        "start the agent",
    ),
    (
        "standalone: it is not bound",
        standalone,
        |facts| listed_vip(facts).bind = Some(("lo".into(), false)),
        Link::Bound,
        "it is not on lo",
        "within 30 s",
    ),
    (
        "pins alone: no entry",
        standalone,
        |facts| {
            facts.config = Look::Not("no file".into());
            pins(facts).entries.clear();
        },
        Link::Entry,
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
    pins(&mut facts).entries =
        vec![EntryFacts { link_trouble: Some(LinkTrouble::OtherMac), ..entry(Role::Handover, N1) }];
    let explanation = explain(&facts);
    assert_eq!(explanation.broken, None, "{explanation:#?}");
    assert!(explanation.steps.iter().any(|step| step.link == Link::Attached));
}
