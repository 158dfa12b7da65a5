use vipward_common::Policy;

use super::*;
use crate::{
    diagnosis::pinned::WireReceived,
    liveness::{Thread, Traffic},
    ownership::{LeaseOnly, WireCounts, WireView},
};
use State::{Green, NotApplicable, Unknown, Yellow};

/// Makes the host a node of a cluster that takes part.
fn take_part(facts: &mut Facts) {
    let contents = facts.contents_mut();
    contents.lease_deadline.session = 7;
    contents.wire.wid = 1;
    contents.wire.received = vec![WireReceived {
        id: "02".to_owned(),
        ifindex: 2,
        answered_seconds_ago: None,
        round_trip_seconds: None,
        received_seconds_ago: Some(0.08),
    }];
    let (counts, thread) = (WireCounts::default(), Some(Thread::sample(vec![Traffic::sample()])));
    facts.wire = Read(WireReport { counts, view: Some(WireView::sample()), thread });
}

fn view(facts: &mut Facts) -> &mut WireView {
    facts.wire.read_mut().view.as_mut().expect("it takes part")
}

fn thread(facts: &mut Facts) -> &mut Thread {
    facts.wire.read_mut().thread.as_mut().expect("it runs")
}

fn quiet(facts: &mut Facts, quiet: LeaseOnly) {
    take_part(facts);
    view(facts).quiet = Some(quiet);
}

#[test]
fn a_node_that_takes_part_says_who_voters_whom() {
    assert_rows(
        None,
        &[
            ("of a file", |_| {}, "wire", NotApplicable, &["of a file"], &[]),
            (
                "nothing is pinned",
                |it| it.plane = Read(None),
                "wire",
                NotApplicable,
                &["nothing is pinned"],
                &[],
            ),
            (
                "on",
                take_part,
                "wire",
                Green,
                &[
                    "on: if 2 of n2, n3 find this node unresponsive, they expire its session",
                    "by --wire 2 a node is unresponsive after 0.60 s",
                    "it pings n2 (answered 0.05 s ago in 0.30 ms, 3 of 1000 lost, counts), n3 (not pinged yet)",
                    "its thread runs before ordinary ones, and its memory is locked",
                ],
                &[],
            ),
            (
                "a holder is silent, and has never answered",
                |it| {
                    take_part(it);
                    view(it).nodes[0].unresponsive = true;
                    let peer = &mut thread(it).peers[0];
                    (peer.answered_seconds_ago, peer.round_trip_seconds) = (None, None);
                },
                "wire",
                Green,
                &["n2 (never answered, 3 of 1000 lost, counts, UNRESPONSIVE)"],
                &[],
            ),
            (
                "an ordinary thread",
                |it| {
                    take_part(it);
                    let why = || Some("Operation not permitted".to_owned());
                    (thread(it).not_first, thread(it).not_locked) = (why(), why());
                },
                "wire",
                Green,
                &[
                    "its thread pings without real-time priority (it takes CAP_SYS_NICE, and with RT_GROUP_SCHED \
                     also cpu.rt_runtime_us), and its memory is not locked",
                ],
                &[],
            ),
            (
                "losses",
                |it| {
                    take_part(it);
                    thread(it).peers[0].lost = 21;
                },
                "wire",
                Yellow,
                &["21 of 1000 lost"],
                &["drops or delays"],
            ),
            (
                "few pings, and one is lost",
                |it| {
                    take_part(it);
                    let peer = &mut thread(it).peers[0];
                    (peer.sent, peer.lost) = (10, 1);
                },
                "wire",
                Green,
                &["1 of 10 lost"],
                &[],
            ),
        ],
    );
}

#[test]
fn an_interface_without_contact_is_named_with_what_it_means() {
    assert_rows(
        None,
        &[
            (
                "a one-way interface",
                |it| {
                    take_part(it);
                    view(it).one_way = vec!["eth1".to_owned()];
                },
                "wire",
                Yellow,
                &["eth1 has a one-way link to peers that live"],
                &["switch port"],
            ),
            (
                "an interface without contact beside a one-way one",
                |it| {
                    take_part(it);
                    view(it).one_way = vec!["eth1".to_owned()];
                    view(it).without_contact = vec!["eth1".to_owned(), "eth2".to_owned()];
                },
                "wire",
                Yellow,
                &["it takes no VIP on eth2: no peer answers there, although one lives there"],
                &["switch port"],
            ),
            (
                "an interface without contact",
                |it| {
                    take_part(it);
                    view(it).without_contact = vec!["eth1".to_owned()];
                },
                "wire",
                Yellow,
                &["it takes no VIP on eth1"],
                &["0x88b5"],
            ),
        ],
    );
}

#[test]
fn a_node_that_takes_no_part_by_its_options_has_nothing_amiss() {
    assert_rows(
        None,
        &[
            (
                "by policy",
                |it| {
                    take_part(it);
                    it.contents_mut().lease_deadline.policy = Policy::Stop;
                    it.wire.read_mut().view = None;
                },
                "wire",
                NotApplicable,
                &["the policy is `stop`"],
                &[],
            ),
            (
                "by option",
                |it| {
                    take_part(it);
                    it.wire.read_mut().view = None;
                },
                "wire",
                NotApplicable,
                &["off (--wire)"],
                &[],
            ),
        ],
    );
}

#[test]
fn what_keeps_a_node_from_it_has_a_remedy() {
    assert_rows(
        None,
        &[
            ("no VIP", |it| quiet(it, LeaseOnly::NoVip), "wire", Green, &["answers for no VIP"], &[]),
            ("alone", |it| quiet(it, LeaseOnly::Alone), "wire", Green, &["no other living node"], &[]),
            ("no key", |it| quiet(it, LeaseOnly::NoKey), "wire", Yellow, &["no key"], &["vipward wire init"]),
            (
                "no common key",
                |it| quiet(it, LeaseOnly::NoCommonKey),
                "wire",
                Yellow,
                &["no key of this node is accepted by all living nodes on its segments"],
                &["the Secret vipward-wire"],
            ),
            (
                "no thread",
                |it| {
                    quiet(it, LeaseOnly::NoThread);
                    it.wire.read_mut().thread = None;
                },
                "wire",
                Yellow,
                &["does not run"],
                &["log"],
            ),
            (
                "false moves",
                |it| {
                    quiet(it, LeaseOnly::FalseMoves);
                    view(it).slow_for_seconds = Some(3_000.0);
                },
                "wire",
                Yellow,
                &["it takes no part for 50m more"],
                &["a larger --wire"],
            ),
            (
                "false words that its session has ended",
                |it| {
                    quiet(it, LeaseOnly::FalseEnds);
                    view(it).slow_for_seconds = Some(3_000.0);
                },
                "wire",
                Yellow,
                &["two false expiry notices", "takes no part for 50m more"],
                &["vipward wire rotate"],
            ),
            (
                "too few ping it",
                |it| {
                    quiet(it, LeaseOnly::TooFew);
                    view(it).nodes[1].pings = false;
                },
                "wire",
                Yellow,
                &["1 of its 2 monitors ping it"],
                &["0x88b5"],
            ),
        ],
    );
}

#[test]
fn without_an_agent_the_maps_show_what_was_received() {
    assert_rows(
        None,
        &[
            (
                "no agent",
                |it| {
                    take_part(it);
                    it.agent = Read(Agent::None);
                },
                "wire",
                NotApplicable,
                &["no agent runs", "the last frame of a peer came 0.08 s ago"],
                &[],
            ),
            (
                "an agent that does not answer",
                |it| {
                    take_part(it);
                    it.contents_mut().wire.received.clear();
                    it.wire = Fact::failed("connection refused");
                },
                "wire",
                Unknown,
                &["connection refused; no frame of a peer has come"],
                &[],
            ),
        ],
    );
}
