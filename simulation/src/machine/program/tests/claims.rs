//! The first table.

use std::time::Duration;

use vipward_common::{Event, EventKind, MacAddr, OffenderKey, Role, VipEntry, Yield};
use vipward_core::base::time::Monotonic;

use super::{
    GRACE, HOLDER, IFINDEX, OTHER_VIP, OVER, OWN, PEER, UNKNOWN_HOST, VALID, VIP, at, entry, key, program,
    yielded,
};
use crate::machine::{
    frame::{Frame, Oper},
    program::{Program, receiving::Handled},
};

pub(super) fn announce(program: &mut Program, mac: MacAddr, now: Monotonic) -> Handled {
    program.handle(IFINDEX, &Frame::announcement(Oper::Request, mac, VIP), now)
}

/// A cell of the table: what becomes of the frame, and the event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cell {
    Drop(Option<EventKind>),
    Pass(Option<EventKind>),
    Yield(EventKind),
}

const OWN_CLAIM: Cell = Cell::Drop(None);
const CONTESTED: Cell = Cell::Drop(Some(EventKind::Contested));
const CONFLICT: Cell = Cell::Drop(Some(EventKind::Conflict));
const PASSED: Cell = Cell::Pass(None);
const MOVED: Cell = Cell::Pass(Some(EventKind::Moved));
const SIGHTED: Cell = Cell::Pass(Some(EventKind::Sighted));
const YIELDS: Cell = Cell::Yield(EventKind::Yielded);
const YIELDS_MOVED: Cell = Cell::Yield(EventKind::Moved);

const ANY: &[u64] = &[VALID, GRACE, OVER];
const LAPSED: &[u64] = &[GRACE, OVER];
const FORGED: [Manner; 2] = [Manner::ForgedRequest, Manner::ForgedReply];
const ANNOUNCING: [Manner; 3] = [Manner::Request, Manner::Reply, Manner::Answer];
const QUIET: [Manner; 1] = [Manner::PlainRequest];
const ALL: [Manner; 6] = [
    Manner::ForgedRequest,
    Manner::ForgedReply,
    Manner::Request,
    Manner::Reply,
    Manner::Answer,
    Manner::PlainRequest,
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    ForgedRequest,
    ForgedReply,
    Request,
    Reply,
    /// The answer to a probe, to one host.
    Answer,
    /// A request for an address that is no VIP.
    PlainRequest,
}

impl Manner {
    fn frame(self, mac: MacAddr) -> Frame {
        let source = MacAddr([2, 0, 0, 0, 0, 8]);
        match self {
            Self::ForgedRequest => Frame { source, ..Self::Request.frame(mac) },
            Self::ForgedReply => Frame { source, ..Self::Reply.frame(mac) },
            Self::Request => Frame::announcement(Oper::Request, mac, VIP),
            Self::Reply => Frame::announcement(Oper::Reply, mac, VIP),
            Self::Answer => Frame::probe(OWN, VIP).answered(mac, mac),
            Self::PlainRequest => Frame::request(mac, VIP, [192, 0, 2, 99].into()),
        }
    }
}

/// Checks a row of the table for a sender of each column.
fn check(
    entry: VipEntry,
    lease_deadlines: &[u64],
    manners: &[Manner],
    (of_entry, of_peer, of_other): (Option<Cell>, Cell, Cell),
) {
    let of_entry = of_entry.map(|cell| (MacAddr(entry.mac), cell));
    let others = [UNKNOWN_HOST, MacAddr::ZERO, MacAddr::BROADCAST].map(|mac| (mac, of_other));
    for (sender, cell) in of_entry.into_iter().chain([(PEER, of_peer)]).chain(others) {
        for (now, manner) in
            lease_deadlines.iter().flat_map(|now| manners.iter().map(move |manner| (*now, *manner)))
        {
            let what = format!("{:?} at {now}, {manner:?} of {sender}", entry.role);
            let mut program = program(entry);
            let frame = manner.frame(sender);
            let Handled { passes, sent, event } = program.handle(IFINDEX, &frame, at(now));
            let (does_pass, kind, to) = match cell {
                Cell::Drop(kind) => (false, kind, None),
                Cell::Pass(kind) => (true, kind, None),
                Cell::Yield(kind) => (true, Some(kind), Some(sender)),
            };
            assert_eq!((passes, sent), (does_pass, None), "{what}");
            let expected = kind.map(|kind| Event {
                at_ns: at(now).as_nanos(),
                swallowed: 0,
                kind,
                ifindex: IFINDEX,
                oper: frame.oper as u16,
                vip: VIP.to_ipv6_mapped().octets(),
                sha: sender.0,
                source: frame.source.0,
                holder: entry.mac,
                _pad: [0; 4],
            });
            assert_eq!(event, expected, "{what}");
            let record = to.map_or_else(Yield::default, |mac| Yield { mac: mac.0, generation: 1 });
            assert_eq!(program.record(0), record, "{what}");
            assert_eq!(program.yields_total(), u64::from(to.is_some()), "{what}");
        }
    }
}

#[test]
fn a_claim_on_a_held_vip() {
    let held = entry(Role::Held, OWN);
    check(held, &[VALID], &ALL, (Some(OWN_CLAIM), CONTESTED, CONFLICT));
    check(held, LAPSED, &FORGED, (Some(OWN_CLAIM), CONTESTED, CONFLICT));
    check(held, LAPSED, &ANNOUNCING, (Some(OWN_CLAIM), YIELDS, CONFLICT));
    check(held, LAPSED, &QUIET, (Some(OWN_CLAIM), PASSED, CONFLICT));
}

#[test]
fn a_claim_on_a_vip_that_is_handed_over() {
    let handover = entry(Role::Handover, HOLDER);
    check(handover, &[VALID], &ALL, (Some(MOVED), CONTESTED, CONFLICT));
    check(handover, LAPSED, &FORGED, (Some(CONTESTED), CONTESTED, CONFLICT));
    check(handover, LAPSED, &ANNOUNCING, (Some(YIELDS_MOVED), YIELDS, CONFLICT));
    check(handover, LAPSED, &QUIET, (Some(PASSED), PASSED, CONFLICT));
}

#[test]
fn a_claim_on_a_foreign_vip_whose_mac_is_known() {
    // A handover that has ended is one, too.
    let ended = VipEntry { until_ns: at(VALID).as_nanos(), ..entry(Role::Handover, HOLDER) };
    for foreign in [entry(Role::Foreign, HOLDER), ended] {
        check(foreign, ANY, &FORGED, (Some(PASSED), PASSED, CONFLICT));
        check(foreign, ANY, &ANNOUNCING, (Some(PASSED), MOVED, CONFLICT));
        check(foreign, ANY, &QUIET, (Some(PASSED), PASSED, CONFLICT));
    }
}

#[test]
fn a_claim_on_a_foreign_vip_whose_mac_is_not_known() {
    let unknown = entry(Role::Foreign, MacAddr::ZERO);
    check(unknown, ANY, &FORGED, (None, MOVED, SIGHTED));
    check(unknown, ANY, &ANNOUNCING, (None, MOVED, SIGHTED));
    check(unknown, ANY, &QUIET, (None, PASSED, SIGHTED));
}

#[test]
fn a_yielded_vip_is_foreign_at_the_peer() {
    let rows = [
        ("the peer", PEER, true, None),
        ("another peer", HOLDER, true, Some(EventKind::Moved)),
        ("an unknown host", UNKNOWN_HOST, false, Some(EventKind::Conflict)),
        ("this node, whose frame came back", OWN, false, None),
    ];
    for (what, sender, passes, kind) in rows {
        let mut program = yielded();
        let handled = announce(&mut program, sender, at(GRACE + 1));
        let event = handled.event.map(|event| (event.kind, event.holder));
        assert_eq!((handled.passes, event), (passes, kind.map(|kind| (kind, PEER.0))), "{what}");
        assert_eq!(program.yields_total(), 1, "{what}");
    }
}

#[test]
fn a_claim_on_no_vip_of_the_segment_passes() {
    let passed = Handled { passes: true, sent: None, event: None };
    let mut program = program(entry(Role::Held, OWN));
    let claim = |vip| Frame::announcement(Oper::Reply, UNKNOWN_HOST, vip);
    assert_eq!(program.handle(IFINDEX, &claim(OTHER_VIP), at(VALID)), passed);
    assert_eq!(program.handle(IFINDEX + 1, &claim(VIP), at(VALID)), passed);
}

#[test]
fn the_answer_of_a_handover_is_forged_and_a_host_that_asks_receives_it() {
    // It has the giver's Ethernet source and the successor's MAC.
    let mut giver = program(entry(Role::Handover, HOLDER));
    let answer = giver.handle(IFINDEX, &Frame::probe(PEER, VIP), at(VALID)).sent.expect("it answers");
    let mut asker = program(entry(Role::Foreign, MacAddr::ZERO));
    let handled = asker.handle(IFINDEX, &answer, at(VALID));
    let event = handled.event.map(|event| (event.kind, event.sha, event.source));
    assert_eq!((handled.passes, event), (true, Some((EventKind::Moved, HOLDER.0, OWN.0))));
}

#[test]
fn one_event_of_a_group_is_sent_in_100_ms() {
    let mut program = program(entry(Role::Held, OWN));
    let rows = [
        ("the first conflict", UNKNOWN_HOST, 0, Some((EventKind::Conflict, 0))),
        ("another conflict", UNKNOWN_HOST, 50, None),
        ("the first of the peers'", PEER, 60, Some((EventKind::Contested, 0))),
        ("another host's conflict", MacAddr([2, 0, 0, 0, 0, 7]), 99, None),
        ("another of the peers'", HOLDER, 159, None),
        ("100 ms after the first conflict", UNKNOWN_HOST, 100, Some((EventKind::Conflict, 2))),
        ("100 ms after the first of the peers'", PEER, 160, Some((EventKind::Contested, 1))),
        ("after that", UNKNOWN_HOST, 500, Some((EventKind::Conflict, 0))),
    ];
    for (what, sender, ms, event) in rows {
        let now = at(1) + Duration::from_millis(ms);
        let seen = announce(&mut program, sender, now).event.map(|event| (event.kind, event.swallowed));
        assert_eq!(seen, event, "{what}");
    }
    let claims = |mac| program.offenders()[&OffenderKey { vip: key(VIP), mac }].claims;
    assert_eq!([UNKNOWN_HOST, PEER, HOLDER].map(claims), [4, 2, 1], "those that were swallowed count");
}

#[test]
fn a_yield_is_reported_whatever_came_before() {
    let mut program = program(entry(Role::Held, OWN));
    let deadline = at(10).as_nanos();
    let (before, after) = (Monotonic::from_nanos(deadline - 1), Monotonic::from_nanos(deadline));
    let kind = |handled: Handled| handled.event.map(|event| event.kind);
    assert_eq!(kind(announce(&mut program, PEER, before)), Some(EventKind::Contested));
    assert_eq!(kind(announce(&mut program, PEER, after)), Some(EventKind::Yielded));
}

#[test]
fn offenders_have_the_times_and_the_kind_of_their_claims() {
    let mut program = program(entry(Role::Foreign, MacAddr::ZERO));
    announce(&mut program, UNKNOWN_HOST, at(1));
    program.handle(IFINDEX, &Frame::probe(UNKNOWN_HOST, VIP), at(2));
    announce(&mut program, PEER, at(3));
    let offenders: Vec<_> = program.offenders().iter().collect();
    let [(offender, counted)] = offenders[..] else { panic!("{offenders:?}") };
    assert_eq!(*offender, OffenderKey { vip: key(VIP), mac: UNKNOWN_HOST });
    assert_eq!((counted.first_ns, counted.last_ns), (at(1).as_nanos(), at(2).as_nanos()));
    assert_eq!((counted.claims, counted.kind, counted.oper), (2, EventKind::Probed, 1));
}
