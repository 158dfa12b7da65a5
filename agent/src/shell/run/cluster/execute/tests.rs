use std::time::Duration;

use super::*;
use crate::core::{
    cluster::{ClaimNote, Epoch, Holder},
    ownership::Expected,
};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn holder(node: &str) -> Holder {
    Holder {
        node: node.into(),
        session: session(1),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        interface: "eth0".into(),
    }
}

fn writing(state: ClaimState) -> Claiming {
    Claiming::Write(ClaimWrite {
        vip: VIP,
        expected: Expected::Absent,
        epoch: Epoch(1),
        state,
        note: ClaimNote { services: Vec::new(), cause: String::new(), trouble: None },
        can_wait: false,
    })
}

#[test]
fn nobody_is_told_that_another_may_answer_while_this_node_may() {
    let offered = ClaimState::Offered { to: holder("b"), from: ("a".into(), session(1)) };
    // The request, and whether it is sent: with the entry as it is to be, left silent, left answering.
    let table = [
        ("a read", Claiming::Read(VIP), [true, true, true]),
        ("a take, or an acceptance", writing(ClaimState::Held(holder("a"))), [true, false, false]),
        ("an offer", writing(offered), [true, true, false]),
        ("a release", writing(ClaimState::Released), [true, true, false]),
        ("a blank claim", writing(ClaimState::Blank), [true, true, false]),
        ("a deletion", Claiming::Delete { vip: VIP, expected: Version::from("7") }, [true, true, false]),
    ];
    for (about, claiming, expected) in table {
        let sent = [None, Some(Left::Silent), Some(Left::Answering)].map(|left| claiming.may_be_sent(left));
        assert_eq!(sent, expected, "{about}");
    }
}

#[test]
fn a_lease_that_ends_the_session_that_entries_answer_in_is_told_from_a_renewal() {
    let table = [
        ("a renewal", Some(1), Some(1), &[][..], true),
        ("a renewal after another life", Some(1), Some(1), &[9], true),
        ("the first session", None, Some(1), &[], false),
        ("another session", Some(1), Some(2), &[1], false),
        ("the end of one's own", Some(1), None, &[1], false),
        ("the end, as a list only", Some(1), Some(1), &[1], false),
    ];
    for (about, answering_in, written, ended, expected) in table {
        let write = LeaseWrite {
            node: "a".into(),
            expected: Expected::Absent,
            session: written.map(session),
            ended: ended.iter().copied().map(session).collect(),
            duration: Duration::from_secs(4),
            links: Vec::new(),
            leaving: false,
        };
        assert_eq!(keeps_session(&write, answering_in.map(session)), expected, "{about}");
    }
}
