use std::{collections::BTreeSet, net::Ipv4Addr};

use proptest::prelude::*;
use vipward_common::{ArpFrame, ND_OVERRIDE, ND_SOLICITED, NdFrame, Role};

use super::*;
use crate::{
    diagnosis::fact::Fact,
    diagnosis::pinned::{Entry, State},
    host::net::{Interface, NetView},
};

const VIP: [u8; 4] = [192, 0, 2, 10];
const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::from_octets(VIP));
const OTHER: [u8; 4] = [192, 0, 2, 11];
const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0a]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x0b]);
const C: MacAddr = MacAddr([0, 0, 0x5e, 0, 1, 51]);
const SECOND: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(1_000_000_000 + millis * 1_000_000)
}

fn question(count: u32) -> Question {
    let nonce = [1, 2, 3, 4, 5, 6];
    Question { address: ADDRESS, own: OWN, source: None, nonce, count, timeout: SECOND }
}

/// Returns a question for an IPv6 address: a solicitation, or a probe without a source.
fn question_6(source: Option<&str>) -> Question {
    let source = source.map(|source| source.parse().expect("an address"));
    Question { address: v6("2001:db8::10").into(), source, ..question(1) }
}

fn v6(text: &str) -> [u8; 16] {
    text.parse::<std::net::Ipv6Addr>().expect("an address").octets()
}

fn arp(
    dst: MacAddr,
    src: MacAddr,
    oper: u16,
    sha: MacAddr,
    spa: [u8; 4],
    tha: MacAddr,
    tpa: [u8; 4],
) -> Frame {
    Frame::Arp(ArpFrame::new(dst, src, oper, sha, spa, tha, tpa))
}

fn reply(mac: MacAddr) -> Frame {
    arp(OWN, mac, OPER_REPLY, mac, VIP, OWN, [0; 4])
}

fn start(count: u32) -> Query {
    let (asking, commands) = Query::start(question(count), &BTreeMap::new(), at(0));
    assert_eq!(commands, [Command::Ask]);
    asking
}

fn finish(asking: &mut Query) {
    while let Some(deadline) = asking.next_deadline() {
        asking.on_tick(deadline);
    }
}

#[test]
fn the_question_is_a_probe_that_changes_no_cache() {
    // RFC 5227, 2.1.1: spa is zero, sha the sender's, tha ignored and zero,
    // tpa the address. The frame goes to broadcast.
    #[rustfmt::skip]
    let expected = [
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 8, 6,
        0, 1, 8, 0, 6, 4, 0, 1,
        2, 0, 0, 0, 0, 1, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 192, 0, 2, 10,
    ];
    assert_eq!(question(1).frame().bytes(), expected);
    let named = Question { source: Some(ADDRESS), ..question(1) };
    assert_eq!(named.frame(), question(1).frame(), "a source would announce itself");
}

#[test]
fn it_is_asked_as_often_as_it_should_be_and_waited_for_each_time() {
    let mut asking = start(3);
    let mut asked_at = vec![0];
    for millis in 0..5_000 {
        if asking.on_tick(at(millis)) == [Command::Ask] {
            asked_at.push(millis);
        }
    }
    assert_eq!(asked_at, [0, 1_000, 2_000]);
    assert_eq!(asking.next_deadline(), None);
    assert_eq!(asking.asked(), 3);
}

#[test]
fn what_is_an_answer_and_what_is_not() {
    let address = VIP;
    let unknown = MacAddr::ZERO;
    for (what, frame, replies, announcements, probers) in [
        ("a reply", reply(A), 1, 0, 0),
        ("a reply to another host", arp(B, A, OPER_REPLY, A, address, B, OTHER), 1, 0, 0),
        (
            "a reply that everybody gets",
            arp(MacAddr::BROADCAST, A, OPER_REPLY, A, address, OWN, [0; 4]),
            1,
            0,
            0,
        ),
        ("an announcement, request form", arp(OWN, A, 1, A, address, unknown, address), 0, 1, 0),
        ("an announcement, reply form", arp(OWN, A, OPER_REPLY, A, address, A, address), 0, 1, 0),
        ("a request by who has the address", arp(OWN, A, 1, A, address, unknown, OTHER), 0, 1, 0),
        ("another host's probe", arp(OWN, A, 1, A, [0; 4], unknown, address), 0, 0, 1),
        ("a request for it", arp(OWN, A, 1, A, OTHER, unknown, address), 0, 0, 0),
        ("a reply about another", arp(OWN, A, OPER_REPLY, A, OTHER, OWN, address), 0, 0, 0),
        ("a probe for another", arp(OWN, A, 1, A, [0; 4], unknown, OTHER), 0, 0, 0),
        ("our own frame", reply(OWN), 0, 0, 0),
    ] {
        let mut asking = start(1);
        asking.on_frame(&frame, at(5));
        finish(&mut asking);
        let claims = asking.claimants().first().map_or((0, 0), |one| (one.replies, one.announcements));
        assert_eq!(claims, (replies, announcements), "{what}");
        assert_eq!(asking.probers().len(), probers, "{what}");
    }
}

#[test]
fn what_is_an_answer_about_an_ipv6_address_and_what_is_not() {
    let (vip, other, from) = (v6("2001:db8::10"), v6("2001:db8::11"), Some("fe80::1"));
    let advertised =
        |target, mac, flags| Frame::Nd(NdFrame::advertisement(OWN, B, other, target, mac, flags));
    let solicited = |source, target| Frame::Nd(NdFrame::solicitation(A, source, target));
    let (answer, notified) = (ND_SOLICITED | ND_OVERRIDE, ND_OVERRIDE);
    for (what, source, frame, replies, announcements, probers) in [
        ("an answer", from, advertised(vip, A, answer), 1, 0, 0),
        ("an answer without O", from, advertised(vip, A, ND_SOLICITED), 1, 0, 0),
        ("an announcement", from, advertised(vip, A, notified), 0, 1, 0),
        ("an answer to a probe", None, advertised(vip, A, notified), 1, 0, 0),
        ("a solicitation by who has the address", from, solicited(vip, other), 0, 1, 0),
        ("the same after a probe", None, solicited(vip, other), 0, 1, 0),
        ("another host's probe", from, Frame::Nd(NdFrame::probe(A, vip, [9; 6])), 0, 0, 1),
        ("a solicitation for it", from, solicited(other, vip), 0, 0, 0),
        ("an answer about another", from, advertised(other, A, answer), 0, 0, 0),
        ("a probe for another", from, Frame::Nd(NdFrame::probe(A, other, [9; 6])), 0, 0, 0),
        ("our own frame", from, advertised(vip, OWN, answer), 0, 0, 0),
        ("our own probe, back from a loop", None, question_6(None).frame(), 0, 0, 0),
        ("ARP", from, reply(A), 0, 0, 0),
    ] {
        let (mut asking, _) = Query::start(question_6(source), &BTreeMap::new(), at(0));
        asking.on_frame(&frame, at(5));
        finish(&mut asking);
        let claimants = asking.claimants();
        let claims = claimants.first().map_or((0, 0), |one| (one.replies, one.announcements));
        assert_eq!(claims, (replies, announcements), "{what}");
        assert!(claimants.iter().all(|one| one.mac == A), "{what}");
        assert_eq!(asking.probers().len(), probers, "{what}");
    }
}

#[test]
fn an_ipv6_address_is_asked_for_by_a_solicitation_from_a_source_or_else_by_a_probe() {
    let vip = v6("2001:db8::10");
    let solicitation = NdFrame::solicitation(OWN, v6("fe80::1"), vip);
    assert_eq!(question_6(Some("fe80::1")).frame(), Frame::Nd(solicitation));
    assert_eq!(question_6(None).frame(), Frame::Nd(NdFrame::probe(OWN, vip, [1, 2, 3, 4, 5, 6])));
}

#[test]
fn a_dropped_advertisement_is_an_answer_and_a_dropped_solicitation_an_announcement() {
    for (oper, replies, announcements) in [(136, 3, 0), (135, 0, 3), (OPER_REPLY, 0, 3)] {
        let (mut asking, _) = Query::start(question_6(Some("fe80::1")), &BTreeMap::new(), at(2));
        let record = Offender { oper, ..record(EventKind::Conflict, 3, 5, 5) };
        asking.on_dropped(&BTreeMap::from([(A, record)]));
        finish(&mut asking);
        let claims = asking.claimants().first().map(|one| (one.replies, one.announcements));
        assert_eq!(claims, Some((replies, announcements)), "{oper}");
    }
}

#[test]
fn other_protocols_in_an_arp_frame_are_no_claims() {
    let mut asking = start(1);
    for byte in [12, 14, 16, 18, 19] {
        let mut bytes = reply(A).bytes().to_vec();
        bytes[byte] ^= 0x40;
        asking.on_frame(&Frame::Arp(bytemuck::pod_read_unaligned(&bytes)), at(5));
    }
    finish(&mut asking);
    assert!(asking.claimants().is_empty());
}

#[test]
fn the_first_answer_to_each_question_is_counted_and_timed() {
    let mut asking = start(3);
    asking.on_frame(&reply(A), at(2));
    asking.on_frame(&reply(B), at(7));
    asking.on_frame(&reply(A), at(9));
    asking.on_tick(at(1_000));
    asking.on_frame(&reply(B), at(1_003));
    asking.on_frame(&arp(OWN, B, OPER_REPLY, A, VIP, OWN, [0; 4]), at(1_004));
    asking.on_tick(at(2_000));
    asking.on_frame(&reply(B), at(2_001));
    finish(&mut asking);
    let millis = Duration::from_millis;
    let seen: Vec<_> = asking.claimants().into_iter().cloned().collect();
    assert_eq!(
        seen.iter()
            .map(|one| (one.mac, one.source, one.answered, one.first, one.replies))
            .collect::<Vec<_>>(),
        [(B, B, 3, 2, 3), (A, B, 2, 1, 3)],
    );
    assert_eq!(seen[0].latencies, [millis(7), millis(3), millis(1)]);
    assert_eq!(seen[1].latencies, [millis(2), millis(4)]);
}

#[test]
fn nothing_is_counted_after_the_end() {
    let mut asking = start(1);
    finish(&mut asking);
    asking.on_frame(&reply(A), at(1_001));
    asking.on_dropped(&BTreeMap::from([(B, record(EventKind::Conflict, 1, 1_001, 1_001))]));
    assert!(asking.claimants().is_empty());
}

fn record(kind: EventKind, claims: u64, first: u64, last: u64) -> Offender {
    let (first_ns, last_ns) = (at(first).as_nanos(), at(last).as_nanos());
    Offender {
        first_ns,
        last_ns,
        claims,
        kind,
        oper: OPER_REPLY,
        source: C.0,
        answered: 0,
        strays: 0,
        defended_ns: 0,
    }
}

#[test]
fn drops_of_the_program_are_distinguished_by_kind_and_by_the_count_before() {
    use EventKind::{Conflict, Contested, Probed, Sighted};
    for (what, before, after, replies, probes) in [
        ("an unknown host's answer", None, (Conflict, 1, 5, 5), 1, 0),
        ("a peer's answer", None, (Contested, 2, 5, 6), 2, 0),
        ("an old unknown host's next", Some((Conflict, 40, 1, 1)), (Conflict, 41, 1, 5), 1, 0),
        ("an old unknown host's silence", Some((Conflict, 40, 1, 1)), (Conflict, 40, 1, 1), 0, 0),
        ("a record that was begun anew", Some((Conflict, 40, 1, 1)), (Conflict, 2, 5, 5), 2, 0),
        ("received on the wire too", None, (Sighted, 1, 5, 5), 0, 0),
        ("another host's probe", None, (Probed, 3, 5, 5), 0, 3),
    ] {
        let record = |(kind, claims, first, last)| record(kind, claims, first, last);
        let before = before.map(|values| (A, record(values))).into_iter().collect();
        let (mut asking, _) = Query::start(question(1), &before, at(2));
        asking.on_dropped(&BTreeMap::from([(A, record(after))]));
        finish(&mut asking);
        let claimants = asking.claimants();
        assert_eq!(claimants.first().map_or(0, |one| one.replies), replies, "{what}");
        assert!(claimants.iter().all(|one| one.dropped && one.source == C && one.answered == 1), "{what}");
        assert_eq!(asking.probers().values().sum::<u64>(), probes, "{what}");
    }
}

#[test]
fn the_coarse_clock_may_lag_behind_the_question() {
    let (mut asking, _) = Query::start(question(1), &BTreeMap::new(), at(6));
    asking.on_dropped(&BTreeMap::from([(A, record(EventKind::Conflict, 1, 4, 4))]));
    finish(&mut asking);
    assert_eq!(asking.claimants()[0].latencies, [Duration::ZERO]);
}

fn interface() -> Interface {
    let addresses = vec!["192.0.2.2/24".parse().expect("an address")];
    Interface { mac: OWN, addresses, ..Interface::sample(2, "eth0") }
}

/// Returns a host without an agent.
fn nothing() -> HostKnows {
    HostKnows { own: BTreeSet::new(), bound: None, pins: Fact::Read(None) }
}

/// Returns a host whose agent has an entry of the address, and knows peers.
fn knows(entry: Option<(Role, MacAddr)>, peers: &[MacAddr]) -> HostKnows {
    let mut state = State::sample();
    let entries = entry.into_iter().map(|(role, mac)| Entry::sample(ADDRESS, role, mac));
    state.contents.entries = entries.collect();
    state.contents.peers = peers.iter().map(|mac| (State::SAMPLE_IFINDEX, *mac)).collect();
    let interface = state.network.interfaces.get_mut(&State::SAMPLE_IFINDEX).expect("it is there");
    interface.mac = OWN;
    HostKnows { own: BTreeSet::from([OWN]), pins: Fact::Read(Some(state)), ..nothing() }
}

/// Returns the same host, after its lease deadline.
fn silent(mut knows: HostKnows) -> HostKnows {
    knows.pins.read_mut().as_mut().expect("an agent").contents.pass_hold();
    knows
}

fn report(answering: &[MacAddr], knows: &HostKnows) -> Report {
    let mut asking = start(1);
    for (millis, mac) in (1..).zip(answering) {
        asking.on_frame(&reply(*mac), at(millis));
    }
    finish(&mut asking);
    Report::new(&asking, &interface(), knows)
}

#[test]
fn holder_peer_and_unknown_host_are_distinguished_by_what_the_agent_knows() {
    use Relation::{Holder, Peer, ThisHost, Unknown, UnknownHost};
    let elsewhere = |mac| knows(Some((Role::Foreign, mac)), &[B]);
    for (what, knows, mac, expected) in [
        ("no agent", nothing(), A, Unknown),
        ("no entry", knows(None, &[]), A, Unknown),
        ("no entry, a peer", knows(None, &[A]), A, Peer),
        ("the entry's MAC", elsewhere(A), A, Holder),
        ("the entry's MAC, a peer's", elsewhere(B), B, Holder),
        ("a peer that does not hold it", elsewhere(A), B, Peer),
        ("neither", elsewhere(A), C, UnknownHost),
        ("its place is not known", elsewhere(MacAddr::ZERO), C, Unknown),
        ("its place is not known, a peer", elsewhere(MacAddr::ZERO), B, Peer),
        ("an unknown host, while it is held here", knows(Some((Role::Held, OWN)), &[B]), C, UnknownHost),
        ("another interface of this host", HostKnows { own: BTreeSet::from([A]), ..nothing() }, A, ThisHost),
    ] {
        let report = report(&[mac], &knows);
        assert_eq!(report.answers[0].relation, expected, "{what}");
    }
}

#[test]
fn one_answering_mac_is_right_and_more_are_a_conflict_wherever_they_are() {
    use Verdict::{NoHost, One, Several};
    let held = knows(Some((Role::Held, OWN)), &[]);
    let silent = silent(knows(Some((Role::Held, OWN)), &[]));
    let leaving = knows(Some((Role::Handover, B)), &[B]);
    let elsewhere = knows(Some((Role::Foreign, A)), &[]);
    let bound = |answers| HostKnows { bound: Some(("lo".into(), Fact::Read(answers))), ..nothing() };
    let bound_and_foreign = HostKnows { bound: Some(("lo".into(), Fact::Read(true))), ..elsewhere.clone() };
    for (what, answering, knows, verdict, rows) in [
        ("no host", &[][..], &nothing(), NoHost, 0),
        ("one", &[A], &nothing(), One, 1),
        ("two", &[A, B], &nothing(), Several, 2),
        ("the holder is this host", &[], &held, One, 1),
        ("a rival of this host", &[A], &held, Several, 2),
        ("this host should hold it, and is silent", &[], &silent, NoHost, 1),
        ("another host while this one is silent", &[A], &silent, One, 2),
        ("both sides of a handover name the successor", &[B], &leaving, One, 1),
        ("before the successor answers", &[], &leaving, One, 1),
        ("the holder elsewhere", &[A], &elsewhere, One, 1),
        ("the kernel of this host has it", &[], &bound(true), One, 1),
        ("the kernel of this host and another", &[A], &bound(true), Several, 2),
        ("the kernel of this host keeps silent", &[A], &bound(false), One, 1),
        ("the program keeps the kernel of this host silent", &[A], &bound_and_foreign, One, 1),
    ] {
        let report = report(answering, knows);
        assert_eq!((report.verdict, report.answers.len()), (verdict, rows), "{what}");
        assert!(
            report.answers.iter().map(|row| row.order).eq(1..=u32::try_from(rows).expect("few")),
            "{what}"
        );
    }
}

#[test]
fn a_kernel_whose_settings_are_not_read_counts_as_no_answer_and_is_named() {
    let bound = Some(("lo".into(), Fact::failed("no /proc")));
    let report = report(&[A], &HostKnows { bound, ..nothing() });
    assert_eq!((report.verdict, report.answers.len()), (Verdict::One, 1));
    assert!(report.notes.iter().any(|note| note.ends_with("is unknown: no /proc")), "{report:?}");
}

#[test]
fn a_holder_that_does_not_answer_is_named() {
    let report = report(&[C], &knows(Some((Role::Foreign, A)), &[]));
    assert_eq!(report.expected.as_deref(), Some("02:00:00:00:00:0a"));
    assert!(report.notes.iter().any(|note| note.contains("02:00:00:00:00:0a should answer")), "{report:?}");
    assert_eq!(report.answers[0].vendor, "VRRP or CARP virtual router, VRID 51");
}

#[test]
fn an_answer_from_another_ethernet_source_says_so() {
    for (source, expected) in [(A, None), (B, Some("02:00:00:00:00:0b"))] {
        let mut asking = start(1);
        asking.on_frame(&arp(OWN, source, OPER_REPLY, A, VIP, OWN, [0; 4]), at(1));
        finish(&mut asking);
        let report = Report::new(&asking, &interface(), &nothing());
        assert_eq!(report.answers[0].ethernet_source.as_deref(), expected);
    }
}

#[test]
fn who_probes_is_about_to_use_the_address_unless_it_has_it() {
    let probe = |mac| arp(OWN, mac, 1, mac, [0; 4], MacAddr::ZERO, VIP);
    let mut asking = start(1);
    asking.on_frame(&reply(A), at(1));
    for mac in [A, B, C] {
        asking.on_frame(&probe(mac), at(2));
    }
    finish(&mut asking);
    let report = Report::new(&asking, &interface(), &knows(Some((Role::Foreign, B)), &[]));
    let probing: Vec<_> = report.probing.iter().map(|prober| prober.mac.as_str()).collect();
    assert_eq!(probing, ["00:00:5e:00:01:33"]);
}

#[test]
fn the_json_has_the_same_keys_whatever_is_found() {
    let of_report = "address agent answers asked_from expected ifindex interface notes probing questions \
                     timeout_seconds vendors_of verdict vlan";
    let of_row = "announcements answered answering ethernet_source first latency mac order relation replies seen \
                  silent_because vendor";
    let keys = |value: &serde_json::Value| {
        let mut keys: Vec<_> = value.as_object().expect("an object").keys().cloned().collect();
        keys.sort();
        keys.join(" ")
    };
    let held = knows(Some((Role::Held, OWN)), &[]);
    for (answering, knows) in
        [(&[][..], &nothing()), (&[A, B], &nothing()), (&[A], &held), (&[], &silent(held.clone()))]
    {
        let report = serde_json::to_value(report(answering, knows)).expect("JSON");
        assert_eq!(keys(&report), of_report);
        for row in report["answers"].as_array().expect("a list") {
            assert_eq!(keys(row), of_row);
        }
    }
}

fn view() -> NetView {
    let other = |index, name: &str, change: fn(&mut Interface)| {
        let mut other = Interface {
            addresses: ["198.51.100.2/24", "2001:db8::2/64"]
                .map(|net| net.parse().expect("an address"))
                .into(),
            ..Interface::sample(index, name)
        };
        change(&mut other);
        (index, other)
    };
    let interfaces = BTreeMap::from([
        (2, interface()),
        other(3, "eth1", |_| {}),
        other(4, "down0", |down| down.up = false),
        other(5, "tun0", |tun| tun.ethernet = false),
        other(6, "port0", |port| port.master = Some(7)),
        other(7, "br0", |bridge| bridge.addresses = vec!["203.0.113.1/24".parse().expect("an address")]),
        // The host's end of the containers' network is no segment of VIPs, but can be queried all
        // the same.
        other(8, "docker0", |docker| docker.addresses = vec!["172.17.0.1/16".parse().expect("an address")]),
    ]);
    NetView { interfaces, ..NetView::default() }
}

#[test]
fn the_segment_is_the_one_named_or_known_or_whose_subnet_has_the_address() {
    for (address, named, known, expected) in [
        ("192.0.2.10", None, &[][..], "eth0"),
        ("198.51.100.9", None, &[], "eth1"),
        ("172.17.0.9", None, &[], "docker0"),
        ("203.0.113.9", None, &[], "br0"),
        ("192.0.2.10", Some("eth1"), &[], "eth1"),
        ("192.0.2.10", None, &[3], "eth1"),
        ("192.0.2.10", None, &[99, 4, 3], "eth1"),
        ("10.9.9.9", None, &[7], "br0"),
        ("2001:db8::9", None, &[], "eth1"),
        ("fe80::9", Some("eth0"), &[], "eth0"),
    ] {
        let chosen = choose_segment(&view(), address.parse().expect("an address"), named, known)
            .map(|interface| interface.name.clone());
        assert_eq!(chosen.as_deref(), Ok(expected), "{address} {named:?} {known:?}");
    }
}

#[test]
fn what_cannot_be_asked_says_why_and_what_can() {
    for (named, parts) in [
        (Some("eth9"), &["eth9 does not exist", "eth0, eth1, down0"][..]),
        (Some("down0"), &["down0 is down", "ip link set down0 up"]),
        (Some("tun0"), &["tun0 is no Ethernet interface"]),
        (Some("port0"), &["port0 is a member of br0", "-i br0"]),
        (None, &["10.9.9.9 is in the subnet of no", "eth0 (192.0.2.2/24)", "-i"]),
    ] {
        let error = choose_segment(&view(), IpAddr::from([10, 9, 9, 9]), named, &[]).expect_err("refused");
        let text = error.to_string();
        for part in parts {
            assert!(text.contains(part), "{part} in: {text}");
        }
    }
}

proptest! {
    #[test]
    fn whatever_comes_it_ends_in_time_and_counts_add_up(
        frames in proptest::collection::vec((0_u64..4_000, 0_u8..4, any::<bool>()), 0..60),
        count in 1_u32..4,
    ) {
        let mut frames = frames;
        frames.sort_unstable();
        let mut asking = start(count);
        for (millis, who, is_reply) in frames {
            while let Some(deadline) = asking.next_deadline().filter(|deadline| *deadline <= at(millis)) {
                asking.on_tick(deadline);
            }
            let mac = MacAddr([2, 0, 0, 0, 9, who]);
            let announcement =
                arp(OWN, mac, 1, mac, VIP, MacAddr::ZERO, VIP);
            asking.on_frame(&if is_reply { reply(mac) } else { announcement }, at(millis));
        }
        let end = asking.next_deadline();
        finish(&mut asking);
        prop_assert!(end.is_none_or(|end| end <= at(0) + SECOND * count));
        prop_assert_eq!(asking.asked(), count);
        let claimants = asking.claimants();
        let firsts: u32 = claimants.iter().map(|one| one.first).sum();
        prop_assert!(firsts <= count);
        for one in claimants {
            prop_assert!(one.first <= one.answered && one.answered <= count);
            prop_assert!(u64::from(one.answered) <= one.replies);
            prop_assert_eq!(one.latencies.len(), one.answered as usize);
        }
    }
}

#[test]
fn a_flood_from_ever_new_macs_lists_some_and_counts_the_rest() {
    let (mut asking, _) = Query::start(question(1), &BTreeMap::new(), at(0));
    for number in 0..1_000_u16 {
        let [high, low] = number.to_be_bytes();
        asking.on_frame(&reply(MacAddr([2, 0xf0, 0, 0, high, low])), at(1));
    }
    assert_eq!(asking.claimants().len(), 64);
    assert_eq!(asking.unlisted(), 1_000 - 64);
}
