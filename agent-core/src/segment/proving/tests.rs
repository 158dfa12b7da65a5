use std::net::{Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;

use super::{Command::*, *};
use crate::host::net::{ConnectedRoute, Interface};

const SEGMENT: u32 = 4;

const NOTHING: Received = Received { frames: 0, counted: 0, passed: None };
const SEES: Received = Received { frames: 2, counted: 3, passed: None };
const COUNTS: Received = Received { frames: 0, counted: 1, passed: None };
const UNSEEN: Received = Received { frames: 1, counted: 0, passed: None };
const PASSED: Received =
    Received { frames: 1, counted: 1, passed: Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10))) };

/// The time after which silent rounds are far apart.
const LATER: u64 = 40;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

/// A bond of two ports, with a VLAN device on it.
fn view() -> NetView {
    let port = |index, name| Interface { master: Some(3), ..Interface::sample(index, name) };
    let bond = Interface { kind: "bond".to_owned(), ..Interface::sample(3, "bond0") };
    let vlan = Interface { kind: "vlan".to_owned(), lower: Some(3), ..Interface::sample(SEGMENT, "vlan0") };
    let other = Interface::sample(9, "eth9");
    let interfaces = [port(1, "eth1"), port(2, "eth2"), bond, vlan, other];
    let interfaces = interfaces.into_iter().map(|interface| (interface.index, interface)).collect();
    NetView { interfaces, ..NetView::default() }
}

fn stack_of(view: &NetView) -> Stack {
    Stack::of(view, SEGMENT, |_| Some(Mode::Tc)).expect("the interface is there")
}

fn observed(stack: Stack) -> Event {
    Event::Observed(BTreeMap::from([(SEGMENT, stack)]))
}

/// Returns the state after the segment was first observed, with its first round under way.
fn begun(earlier: Proof) -> Proving {
    let mut proving = Proving::start(BTreeMap::from([(SEGMENT, earlier)]));
    let commands = proving.on_event(observed(stack_of(&view())), at(0));
    assert_eq!(commands, [Listen { segment: SEGMENT, round: 1 }]);
    proving
}

fn end(proving: &mut Proving, received: Received, now: u64) -> Vec<Command> {
    let round = proving.rounds;
    proving.on_event(Event::Received { segment: SEGMENT, round, received }, at(now))
}

fn found(from: Proof, to: Proof, received: Received) -> Command {
    Found { segment: SEGMENT, from, to, received }
}

/// A description, the finding before, true if the stack has changed since, the rounds, and the
/// finding after.
type Row = (&'static str, Proof, bool, &'static [Received], Proof);

#[test]
fn what_a_round_receives_leads_to_a_finding() {
    use Proof::{Blind, Bypassed, Proven, Unproven};
    let rows: [Row; 19] = [
        ("no host is received", Unproven, true, &[NOTHING], Unproven),
        ("socket and program receive", Unproven, true, &[SEES], Proven),
        (
            "the program alone receives: what it answers does not reach the socket",
            Unproven,
            true,
            &[COUNTS],
            Proven,
        ),
        ("the socket alone, once", Unproven, true, &[UNSEEN], Unproven),
        ("the socket alone, twice", Unproven, true, &[UNSEEN, UNSEEN], Blind),
        ("the socket alone, and then both", Unproven, true, &[UNSEEN, SEES], Proven),
        ("the socket alone, and then no host", Unproven, true, &[UNSEEN, NOTHING], Unproven),
        ("a request passed, once", Proven, false, &[PASSED], Proven),
        ("a request passed, twice", Proven, false, &[PASSED, PASSED], Bypassed),
        ("a request passed, and then the socket alone", Proven, false, &[PASSED, UNSEEN], Blind),
        ("no host is received any more", Proven, false, &[NOTHING], Unproven),
        ("blind, and nothing has changed or is received", Blind, false, &[NOTHING], Blind),
        ("blind, and another stack is silent", Blind, true, &[NOTHING], Unproven),
        ("blind, and seen now", Blind, false, &[SEES], Proven),
        ("blind, as one round confirms", Blind, false, &[UNSEEN], Blind),
        ("bypassed, and no host asked for a VIP", Bypassed, false, &[SEES], Bypassed),
        ("bypassed, and another stack sees", Bypassed, true, &[SEES], Proven),
        ("bypassed, and seen for long", Bypassed, false, &[SEES, SEES, SEES, SEES, SEES, SEES], Proven),
        (
            "bypassed, and again before that",
            Bypassed,
            false,
            &[SEES, SEES, SEES, PASSED, SEES, SEES],
            Bypassed,
        ),
    ];
    for (what, before, is_changed, rounds, expected) in rows {
        let mut proving = begun(before);
        proving.segments.get_mut(&SEGMENT).expect("observed").is_old = is_changed;
        let mut now = 1;
        for received in rounds {
            let commands = end(&mut proving, *received, now);
            now += 60;
            if !commands.iter().any(|command| matches!(command, Listen { .. })) {
                proving.on_event(Event::Tick, at(now));
            }
        }
        assert_eq!(proving.proof(SEGMENT), expected, "{what}");
    }
}

#[test]
fn the_first_finding_and_every_other_one_are_recorded() {
    let mut proving = begun(Proof::Unproven);
    assert_eq!(end(&mut proving, NOTHING, LATER), [found(Proof::Unproven, Proof::Unproven, NOTHING)]);
    proving.on_event(Event::Tick, at(LATER + 10));
    assert_eq!(end(&mut proving, NOTHING, LATER + 11), []);
    proving.on_event(Event::Tick, at(LATER + 21));
    let expected = [HeardAgain { segment: SEGMENT }, found(Proof::Unproven, Proof::Proven, SEES)];
    assert_eq!(end(&mut proving, SEES, LATER + 22), expected);
}

#[test]
fn blindness_is_found_within_five_seconds_also_after_a_change_in_the_middle_of_a_round() {
    let mut proving = begun(Proof::Unproven);
    let mut view = view();
    view.interfaces.get_mut(&1).expect("eth1").carrier = false;
    let anew = [Anew { segment: SEGMENT }];
    assert_eq!(proving.on_event(observed(stack_of(&view)), at(0)), anew, "one socket at a time");
    assert_eq!(end(&mut proving, UNSEEN, 1), [Listen { segment: SEGMENT, round: 2 }], "of the old stack");
    assert_eq!(end(&mut proving, UNSEEN, 2), [Listen { segment: SEGMENT, round: 3 }]);
    assert_eq!(end(&mut proving, UNSEEN, 3), [found(Proof::Unproven, Proof::Blind, UNSEEN)]);
}

#[test]
fn the_next_round_comes_after_a_minute_or_sooner_where_there_is_doubt() {
    for (received, pause) in [(SEES, PROVEN_FOR), (NOTHING, DOUBTED_FOR)] {
        let mut proving = begun(Proof::Unproven);
        end(&mut proving, received, LATER);
        assert_eq!(proving.next_deadline(), Some(at(LATER) + pause));
        assert_eq!(proving.on_event(observed(stack_of(&view())), at(LATER + 1)), [], "nothing has changed");
        assert_eq!(proving.on_event(Event::Tick, at(LATER) + pause), [Listen { segment: SEGMENT, round: 2 }]);
    }
}

#[test]
fn after_the_link_came_up_rounds_follow_one_another_until_a_host_is_heard() {
    let mut proving = begun(Proof::Proven);
    let until = |proving: &Proving| proving.unheard().get(&SEGMENT).copied();
    assert_eq!(until(&proving), Some(at(35)));
    for now in 1..35 {
        let commands = end(&mut proving, NOTHING, now);
        assert_eq!(commands.last(), Some(&Listen { segment: SEGMENT, round: now + 1 }), "{now}");
    }
    assert_eq!(end(&mut proving, NOTHING, 35), []);
    assert_eq!(proving.next_deadline(), Some(at(35) + DOUBTED_FOR));
    assert_eq!(until(&proving), Some(at(35)), "still no host");
    let heard = proving.on_event(Event::Heard { segment: SEGMENT }, at(40));
    assert_eq!((heard.as_slice(), until(&proving)), (&[HeardAgain { segment: SEGMENT }][..], None));
}

#[test]
fn a_link_that_was_down_has_to_be_heard_again() {
    let mut dark = view();
    dark.interfaces.get_mut(&SEGMENT).expect("vlan0").carrier = false;
    let lost = |indices: &[u32]| {
        let mut view = view();
        for index in indices {
            view.interfaces.get_mut(index).expect("it is there").carrier_losses = 1;
        }
        observed(stack_of(&view))
    };
    let ways: [(&str, &[Event], [bool; 2]); 5] = [
        ("observed", &[observed(stack_of(&dark)), observed(stack_of(&view()))], [true, true]),
        ("it was up again at once", &[lost(&[SEGMENT])], [true, true]),
        ("both ports of the bond below", &[lost(&[1, 2])], [true, true]),
        ("one of them", &[lost(&[1])], [false, true]),
        ("another interface", &[lost(&[9])], [false, false]),
    ];
    for (what, events, [is_unheard, is_proved_anew]) in ways {
        let mut proving = begun(Proof::Unproven);
        assert_eq!(end(&mut proving, SEES, 1), [found(Proof::Unproven, Proof::Proven, SEES)]);
        let commands: Vec<_> =
            events.iter().flat_map(|event| proving.on_event(event.clone(), at(50))).collect();
        let listens = commands.iter().any(|command| matches!(command, Listen { .. }));
        let until = is_unheard.then(|| at(50 + 35));
        assert_eq!((proving.unheard().get(&SEGMENT).copied(), listens), (until, is_proved_anew), "{what}");
    }
}

#[test]
fn the_first_rounds_of_very_many_segments_begin_one_after_another() {
    let segments = MOST_AT_ONCE + 1;
    let stacks = || (0..segments).map(|segment| (segment, stack_of(&view()))).collect();
    let mut proving = Proving::default();
    let begun = proving.on_event(Event::Observed(stacks()), at(0)).len();
    assert_eq!(begun, usize::try_from(MOST_AT_ONCE).expect("few"));
    let last = Listen { segment: segments - 1, round: u64::from(segments) };
    assert_eq!(proving.next_deadline(), Some(at(1)));
    assert_eq!(proving.on_event(Event::Tick, at(1)), [last]);
}

#[test]
fn a_round_without_an_end_counts_as_one_that_received_nothing() {
    let mut proving = begun(Proof::Proven);
    let late = at(0) + LISTEN + LATEST;
    assert_eq!(proving.next_deadline(), Some(late));
    let ended = [found(Proof::Proven, Proof::Unproven, NOTHING), Listen { segment: SEGMENT, round: 2 }];
    assert_eq!(proving.on_event(Event::Tick, late), ended);
    let received = SEES;
    let old = Event::Received { segment: SEGMENT, round: 1, received };
    assert_eq!(proving.on_event(old, at(7)), [], "it has ended");
    assert_eq!(proving.proof(SEGMENT), Proof::Unproven);
}

#[test]
fn a_segment_without_carrier_waits_for_it_and_keeps_its_finding() {
    let mut proving = begun(Proof::Unproven);
    end(&mut proving, SEES, 1);
    let mut dark = view();
    dark.interfaces.get_mut(&SEGMENT).expect("vlan0").carrier = false;
    assert_eq!(proving.on_event(observed(stack_of(&dark)), at(2)), [Anew { segment: SEGMENT }]);
    assert_eq!((proving.next_deadline(), proving.proof(SEGMENT)), (None, Proof::Proven));
    let commands = proving.on_event(observed(stack_of(&view())), at(3));
    assert_eq!(commands, [Anew { segment: SEGMENT }, Listen { segment: SEGMENT, round: 2 }]);
}

#[test]
fn a_round_begins_when_the_proof_of_the_way_out_wants_it_and_none_beside_another() {
    let mut proving = begun(Proof::Unproven);
    proving.want(SEGMENT, Some(at(0)));
    assert_eq!(proving.on_event(Event::Tick, at(0)), [], "one is under way");
    end(&mut proving, SEES, LATER);
    assert_eq!(proving.rounds, 2, "the next one begins at once");
    proving.want(SEGMENT, Some(at(LATER + 20)));
    end(&mut proving, SEES, LATER + 1);
    assert_eq!(proving.next_deadline(), Some(at(LATER + 20)));
    assert_eq!(proving.on_event(Event::Tick, at(LATER + 20)), [Listen { segment: SEGMENT, round: 3 }]);
    proving.want(SEGMENT, None);
    end(&mut proving, SEES, LATER + 21);
    assert_eq!(proving.next_deadline(), Some(at(LATER + 21) + PROVEN_FOR), "as without it");
}

#[test]
fn a_segment_that_goes_takes_its_finding_along() {
    let mut proving = begun(Proof::Blind);
    assert_eq!(proving.proof(SEGMENT), Proof::Blind, "an earlier agent's");
    assert_eq!(proving.on_event(Event::Observed(BTreeMap::new()), at(1)), []);
    assert_eq!((proving.proof(SEGMENT), proving.next_deadline()), (Proof::Unproven, None));
    proving.on_event(observed(stack_of(&view())), at(2));
    assert_eq!(proving.proof(SEGMENT), Proof::Unproven);
}

#[test]
fn a_change_of_any_link_below_counts_and_of_no_other() {
    type Change = (&'static str, u32, fn(&mut Interface), bool);
    let rows: [Change; 10] = [
        ("the segment's MAC", SEGMENT, |it| it.mac = MacAddr([2, 0, 0, 0, 0, 99]), true),
        ("the segment's lower device", SEGMENT, |it| it.lower = Some(1), true),
        ("the carrier of a port", 1, |it| it.carrier = false, true),
        ("a port that goes down", 2, |it| it.up = false, true),
        ("a port that leaves", 2, |it| it.master = None, true),
        ("the bond's master", 3, |it| it.master = Some(9), true),
        ("an XDP program on a port", 1, |it| it.xdp_programs = vec![7], true),
        ("a program of tc on the bond", 3, |it| it.tc_programs = Some(vec![7]), true),
        ("a name", 3, |it| it.name = "bond1".to_owned(), false),
        ("another interface", 9, |it| it.carrier = false, false),
    ];
    let before = stack_of(&view());
    for (what, index, change, counts) in rows {
        let mut view = view();
        change(view.interfaces.get_mut(&index).expect("it is there"));
        assert_eq!(stack_of(&view) != before, counts, "{what}");
    }
    let native = Stack::of(&view(), SEGMENT, |_| Some(Mode::Native));
    assert_ne!(native, Some(before), "another mode");
    assert_eq!(Stack::of(&view(), 77, |_| None), None, "an interface that is gone");
}

fn addressed() -> NetView {
    let mut view = view();
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    let nets = ["192.0.2.2/24", "2001:db8::2/64"].map(|net| net.parse::<IpNet>().expect("a subnet"));
    let bound = "192.0.2.10/32".parse().expect("an address");
    let interface = view.interfaces.get_mut(&SEGMENT).expect("vlan0");
    interface.addresses = [&[bound], &nets[..]].concat();
    let route = |net: &IpNet| ConnectedRoute { prefix: net.trunc(), interface: SEGMENT, metric: 0 };
    view.routes = nets.iter().map(route).collect();
    view.next_hops = ["192.0.2.1", "198.51.100.1", "2001:db8::1"].map(ip).into();
    view
}

fn host(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn host_6(last: u8) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last.into()).into()
}

#[test]
fn gateways_and_then_peers_of_the_segment_are_asked_in_both_families() {
    let view = addressed();
    let elsewhere = Ipv4Addr::new(203, 0, 113, 5).into();
    let asked = |peers: &[IpAddr]| {
        targets(&view, SEGMENT, peers.iter().copied(), |it| [host(20), host_6(20)].contains(&it))
    };
    let peers = [
        host(7),
        elsewhere,
        host(1),
        host(2),
        host(20),
        host(7),
        host_6(7),
        host_6(2),
        host_6(20),
        host_6(1),
    ];
    assert_eq!(asked(&peers), [host(1), host_6(1), host(7), host_6(7)]);
    assert_eq!(asked(&(100..150).map(host).collect::<Vec<_>>()).len(), MOST_ASKED);
    assert_eq!(targets(&view, 9, [host(7)], |_| false), [] as [IpAddr; 0], "another segment");
}

#[derive(Clone, Debug)]
enum Step {
    /// The round under way ends, or an old one.
    End(Received, bool),
    /// The links change: the carrier of a port, and of the segment.
    Links(bool, bool),
    Gone,
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let received = (0_u32..3, 0_u64..3, any::<bool>()).prop_map(|(frames, counted, passed)| Received {
        frames,
        counted,
        passed: passed.then_some(host(10)),
    });
    prop_oneof![
        6 => (received, proptest::bool::weighted(0.1)).prop_map(|(received, old)| Step::End(received, old)),
        2 => (any::<bool>(), proptest::bool::weighted(0.8)).prop_map(|(port, own)| Step::Links(port, own)),
        1 => Just(Step::Gone),
        3 => (0_u64..90).prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn in_any_history_blindness_takes_two_rounds_and_one_round_is_under_way(
        steps in proptest::collection::vec(any_step(), 0..60),
    ) {
        let mut proving = begun(Proof::Unproven);
        let (mut now, mut recorded) = (0, Proof::Unproven);
        // The number of the round under way, and the results since the last change of the links.
        let (mut open, mut results): (Option<u64>, Vec<Received>) = (Some(1), Vec::new());
        let mut is_old = false;
        let mut last = stack_of(&view());
        for step in steps {
            let event = match step {
                Step::End(received, true) => Event::Received { segment: SEGMENT, round: 0, received },
                Step::End(received, false) => {
                    let Some(round) = open.take() else { continue };
                    if !std::mem::take(&mut is_old) {
                        results.push(received);
                    }
                    Event::Received { segment: SEGMENT, round, received }
                }
                Step::Links(port, own) => {
                    let mut view = view();
                    view.interfaces.get_mut(&1).expect("eth1").carrier = port;
                    view.interfaces.get_mut(&SEGMENT).expect("vlan0").carrier = own;
                    let stack = stack_of(&view);
                    if std::mem::replace(&mut last, stack.clone()) != stack || proving.segments.is_empty() {
                        results.clear();
                        is_old = open.is_some();
                    }
                    observed(stack)
                }
                Step::Gone => {
                    results.clear();
                    (open, is_old, recorded) = (None, false, Proof::Unproven);
                    Event::Observed(BTreeMap::new())
                }
                Step::Wait(seconds) => {
                    now += seconds;
                    Event::Tick
                }
            };
            // A round that is late ends without a result.
            let late = proving.segments.values().any(|it| matches!(
                it.phase, Phase::Listening { until, .. } if until <= at(now)
            ));
            if late && open.take().is_some() && !std::mem::take(&mut is_old) {
                results.push(NOTHING);
            }
            for command in proving.on_event(event, at(now)) {
                match command {
                    Listen { segment, round } => {
                        prop_assert_eq!((segment, open), (SEGMENT, None), "two at once");
                        prop_assert!(last.receives());
                        open = Some(round);
                    }
                    HeardAgain { .. } | Anew { .. } => {}
                    Found { from, to, received, .. } => {
                        prop_assert_eq!(from, recorded);
                        recorded = to;
                        let blind = results.iter().rev().take_while(|received| received.blindness().is_some());
                        match to {
                            Proof::Blind | Proof::Bypassed => {
                                prop_assert!(blind.count() >= 2, "{:?} after {:?}", to, results);
                            }
                            Proof::Proven => prop_assert!(received.counted > 0 && received.passed.is_none()),
                            Proof::Unproven => prop_assert_eq!((received.frames, received.counted), (0, 0)),
                        }
                    }
                }
            }
            prop_assert_eq!(proving.proof(SEGMENT), recorded);
            let waits = proving.segments.contains_key(&SEGMENT) && (last.receives() || open.is_some());
            prop_assert_eq!(proving.next_deadline().is_some(), waits);
        }
    }
}
