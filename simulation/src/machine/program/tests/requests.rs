//! The second table.

use vipward_common::{EventKind, MacAddr, Role, VipEntry};

use super::{
    GRACE, HOLDER, IFINDEX, OTHER_VIP, OVER, OWN, PEER, UNKNOWN_HOST, VALID, VIP, at, entry, program, put,
};
use crate::machine::{
    frame::{Frame, Oper},
    program::{Refuses, receiving::Handled},
};

const DROPPED: Handled = Handled { passes: false, sent: None, event: None };

fn request(mac: MacAddr) -> Frame {
    Frame::request(mac, [192, 0, 2, 99].into(), VIP)
}

fn answered(handled: &Handled) -> Option<(MacAddr, MacAddr)> {
    assert!(!handled.passes, "the kernel gets no request for a VIP");
    handled.sent.map(|frame| (frame.source, frame.sha))
}

#[test]
fn a_request_for_a_foreign_vip_is_dropped_and_an_unknown_hosts_probe_reported() {
    let (known, unknown) = (entry(Role::Foreign, HOLDER), entry(Role::Foreign, MacAddr::ZERO));
    let probe = |mac| Frame::probe(mac, VIP);
    let rows = [
        ("MAC zero, an unknown host's probe", unknown, probe(UNKNOWN_HOST), Some(EventKind::Probed)),
        ("MAC zero, a probe of MAC zero", unknown, probe(MacAddr::ZERO), Some(EventKind::Probed)),
        ("MAC zero, a peer's probe", unknown, probe(PEER), None),
        ("MAC zero, an unknown host's request", unknown, request(UNKNOWN_HOST), None),
        ("an unknown host's probe", known, probe(UNKNOWN_HOST), None),
        ("a peer's request", known, request(PEER), None),
    ];
    for (what, entry, frame, kind) in rows {
        for now in [VALID, GRACE, OVER] {
            let Handled { event, .. } = program(entry).handle(IFINDEX, &frame, at(now));
            let seen = event.map(|event| (event.kind, event.sha, event.holder, event.key().addr));
            let expected = kind.map(|kind| (kind, frame.sha.0, [0; 6], VIP.into()));
            assert_eq!(seen, expected, "{what}");
            let handled = program(entry).handle(IFINDEX, &frame, at(now));
            assert_eq!(Handled { event: None, ..handled }, DROPPED, "{what}");
        }
    }
}

#[test]
fn a_request_is_answered_by_role_and_lease_deadline() {
    let (held, handover) = (entry(Role::Held, OWN), entry(Role::Handover, HOLDER));
    let ended = VipEntry { until_ns: at(VALID).as_nanos(), ..handover };
    let rows = [
        ("held, valid", held, VALID, Some((OWN, OWN))),
        ("held, grace period", held, GRACE, Some((OWN, OWN))),
        ("held, over", held, OVER, None),
        ("handover, valid", handover, VALID, Some((OWN, HOLDER))),
        ("handover, grace period", handover, GRACE, Some((OWN, HOLDER))),
        ("handover, over", handover, OVER, None),
        ("handover, ended", ended, VALID, None),
    ];
    for (what, entry, now, answer) in rows {
        for frame in [request(UNKNOWN_HOST), request(PEER), Frame::probe(UNKNOWN_HOST, VIP)] {
            let handled = program(entry).handle(IFINDEX, &frame, at(now));
            assert_eq!((answered(&handled), handled.event), (answer, None), "{what}");
        }
    }
}

#[test]
fn a_request_is_answered_for_a_host_that_asks_all_or_this_one() {
    let (held, handover) = (entry(Role::Held, OWN), entry(Role::Handover, HOLDER));
    let to = |to| Frame { to, ..request(UNKNOWN_HOST) };
    let rows = [
        ("held, to its MAC", held, to(OWN), true),
        ("held, to another", held, to(HOLDER), false),
        ("held, to a group", held, to(MacAddr([1, 0, 0x5e, 0, 0, 1])), false),
        ("handover, to the own MAC", handover, to(OWN), true),
        ("handover, to the successor", handover, to(HOLDER), false),
        ("held, of MAC zero", held, request(MacAddr::ZERO), false),
        ("held, of a group", held, request(MacAddr([1, 0, 0x5e, 0, 0, 1])), false),
        ("held, of broadcast", held, request(MacAddr::BROADCAST), false),
        ("held, of its own MAC", held, request(OWN), false),
        ("handover, of the own MAC", handover, request(OWN), false),
        ("handover, of the successor", handover, request(HOLDER), true),
        ("held, in another's name", held, Frame { source: HOLDER, ..request(UNKNOWN_HOST) }, true),
    ];
    for (what, entry, frame, is_answered) in rows {
        let handled = program(entry).handle(IFINDEX, &frame, at(VALID));
        assert_eq!(answered(&handled).is_some(), is_answered, "{what}");
    }
}

#[test]
fn an_answer_goes_to_the_sender_and_names_what_was_asked() {
    let asked = Frame { source: HOLDER, ..request(UNKNOWN_HOST) };
    let sent = program(entry(Role::Held, OWN)).handle(IFINDEX, &asked, at(VALID)).sent;
    let answer =
        Frame { source: OWN, to: UNKNOWN_HOST, oper: Oper::Reply, sha: OWN, spa: VIP, tpa: asked.spa };
    assert_eq!(sent, Some(answer));
}

#[test]
fn a_claim_that_passes_is_a_request_too() {
    let mut program = program(entry(Role::Foreign, MacAddr::ZERO));
    let held = VipEntry { slot: 1, ..entry(Role::Held, OWN) };
    program.apply(&put(OTHER_VIP, held), Refuses::default()).expect("nothing is refused");
    let asked = Frame::request(UNKNOWN_HOST, VIP, OTHER_VIP);
    let Handled { sent, event, .. } = program.handle(IFINDEX, &asked, at(VALID));
    assert_eq!(sent, Some(asked.answered(OWN, OWN)), "the second table");
    assert_eq!(event.map(|event| event.kind), Some(EventKind::Sighted), "the first table");

    let asked = Frame::request(UNKNOWN_HOST, OTHER_VIP, OTHER_VIP);
    let handled = program.handle(IFINDEX, &asked, at(VALID));
    assert_eq!((handled.passes, handled.sent), (false, None), "a dropped claim ends");

    let claim = Frame::announcement(Oper::Request, PEER, VIP);
    assert!(program.handle(IFINDEX, &claim, at(VALID)).passes, "a gratuitous claim asks nothing");
}
