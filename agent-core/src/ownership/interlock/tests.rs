use std::net::Ipv4Addr;

use std::{collections::BTreeMap, time::Duration};

use vipward_common::MacAddr;

use super::*;
use crate::{
    host::stale::Failure,
    ownership::{Entry, Expected},
    records::{ClaimNote, Epoch, Holder},
};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

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

fn claim(state: ClaimState) -> ClaimWrite {
    ClaimWrite {
        vip: VIP,
        expected: Expected::Absent,
        epoch: Epoch(1),
        state,
        note: ClaimNote { services: Vec::new(), cause: String::new(), trouble: None },
        can_wait: false,
    }
}

fn writing(state: ClaimState) -> Request {
    Request::Write(claim(state))
}

fn lease(node: &str, carried: Option<u64>, ended: &[u64]) -> LeaseWrite {
    LeaseWrite {
        node: node.into(),
        expected: Expected::Absent,
        session: carried.map(session),
        ended: ended.iter().copied().map(session).collect(),
        duration: Duration::from_secs(4),
        interfaces: Vec::new(),
        leaving: false,
        wire: None,
        proxy: None,
    }
}

fn entry(entry: Entry) -> Command {
    Command::SetEntry { vip: VIP, entry: Some(entry), home: Some("eth0".into()) }
}

fn lease_deadline(number: u64) -> NewDeadline {
    NewDeadline {
        session: Some(session(number)),
        deadline: Monotonic::from_nanos(8),
        grace_until: Monotonic::from_nanos(9),
        notices_settled: 10,
    }
}

/// Returns failures in which only [`VIP`] is stale.
fn stale(left: Left) -> Stale {
    let mut stale = Stale::default();
    let failure = Failure { left, interface: None, error: "no memory".to_owned() };
    stale.on_tried(|_| true, |_| true, BTreeMap::from([(VIP, failure)]));
    stale
}

/// Returns all steps, if each round of writes leaves `after`.
fn steps(commands: Vec<Command>, before: &Stale, after: &Stale) -> Vec<Step> {
    let mut interlock = Interlock::new("a".into(), Some(session(1)));
    interlock.push(commands);
    let (mut steps, mut stale) = (Vec::new(), before);
    while let Some(step) = interlock.next(stale) {
        if matches!(step, Step::WriteEntries(_)) {
            stale = after;
        }
        steps.push(step);
    }
    assert!(interlock.is_idle());
    steps
}

fn write_entries() -> Step {
    Step::WriteEntries(BTreeSet::from([VIP]))
}

#[test]
fn entries_are_written_before_the_claims_that_rest_on_them_and_probes_come_last() {
    let release = Command::WriteClaim(claim(ClaimState::Released));
    let silent = entry(Entry::Foreign { mac: MacAddr::ZERO });
    let probe = Command::Probe { vip: VIP, manner: Manner::OFTEN };
    let commands =
        vec![probe.clone(), release.clone(), silent.clone(), Command::SetDeadline(lease_deadline(1))];
    let expected = vec![
        Step::Do(silent),
        write_entries(),
        Step::Do(release),
        Step::Do(Command::SetDeadline(lease_deadline(1))),
        Step::Do(probe),
    ];
    assert_eq!(steps(commands, &Stale::default(), &Stale::default()), expected);
}

#[test]
fn probing_that_is_stopped_in_the_same_round_does_not_begin() {
    let commands =
        vec![Command::Probe { vip: VIP, manner: Manner::OFTEN }, Command::StopProbing { vip: VIP }];
    let expected = vec![Step::Do(Command::StopProbing { vip: VIP })];
    assert_eq!(steps(commands, &Stale::default(), &Stale::default()), expected);
}

#[test]
fn a_request_whose_entry_stays_stale_goes_back_to_the_engine_and_its_notice_is_dropped() {
    let take = claim(ClaimState::Held(holder("a")));
    let holds = Notice::Holds { vip: VIP, services: Vec::new(), from: None, cause: String::new() };
    let commands = vec![Command::WriteClaim(take.clone()), Command::Notify(holds.clone())];
    let refused = Event::ClaimWritten { vip: VIP, outcome: Outcome::Refused(NOT_SENT.into()) };
    let failing = stale(Left::Answering);
    let expected = vec![write_entries(), Step::NotSent(refused)];
    assert_eq!(steps(commands.clone(), &failing, &failing), expected);

    let expected =
        vec![write_entries(), Step::Do(Command::Notify(holds)), Step::Do(Command::WriteClaim(take))];
    assert_eq!(steps(commands, &failing, &Stale::default()), expected);
}

#[test]
fn a_session_does_not_end_while_a_stale_entry_answers_in_it() {
    let failing = stale(Left::Answering);
    let last = Command::WriteLease(lease("a", None, &[1]));
    let refused = Event::LeaseWritten { node: "a".into(), outcome: Outcome::Refused(NOT_SENT.into()) };
    let expected = vec![write_entries(), Step::NotSent(refused)];
    assert_eq!(steps(vec![last.clone()], &failing, &failing), expected);

    let expected = vec![write_entries(), Step::Do(last.clone())];
    assert_eq!(steps(vec![last.clone()], &failing, &Stale::default()), expected);
    assert_eq!(steps(vec![last.clone()], &stale(Left::Silent), &failing), [Step::Do(last)]);

    for harmless in [lease("a", Some(1), &[]), lease("b", None, &[1])] {
        let write = Command::WriteLease(harmless);
        assert_eq!(steps(vec![write.clone()], &failing, &failing), [Step::Do(write)]);
    }
}

#[test]
fn a_lease_deadline_of_another_session_is_over_while_a_stale_entry_answers() {
    let over = Monotonic::default();
    let closed =
        NewDeadline { session: Some(session(1)), deadline: over, grace_until: over, ..lease_deadline(2) };
    let failing = stale(Left::Answering);
    let table = [
        ("the same session", &failing, lease_deadline(1), lease_deadline(1)),
        ("another one", &failing, lease_deadline(2), closed),
        ("silent", &stale(Left::Silent), lease_deadline(2), lease_deadline(2)),
    ];
    for (about, stale, commanded, written) in table {
        let steps = steps(vec![Command::SetDeadline(commanded)], stale, stale);
        assert_eq!(steps, [Step::Do(Command::SetDeadline(written))], "{about}");
    }
}

#[test]
fn no_request_lets_another_node_answer_while_this_node_may() {
    let offered = ClaimState::Offered { to: holder("b"), from: ("a".into(), session(1)) };
    // Request, and three flags: true if the request is sent with a correct entry, with an
    // entry left silent, and with an entry left answering.
    let table = [
        ("a read", Request::Read(VIP), [true, true, true]),
        ("a take, or an acceptance", writing(ClaimState::Held(holder("a"))), [true, false, false]),
        ("an offer", writing(offered), [true, true, false]),
        ("a release", writing(ClaimState::Released), [true, true, false]),
        ("a blank claim", writing(ClaimState::Blank), [true, true, false]),
        ("a deletion", Request::Delete { vip: VIP, expected: Version::from("7") }, [true, true, false]),
    ];
    for (about, request, expected) in table {
        let sent = [None, Some(Left::Silent), Some(Left::Answering)].map(|left| request.is_safe(left));
        assert_eq!(sent, expected, "{about}");
    }
}

#[test]
fn a_lease_that_ends_the_session_that_entries_answer_in_is_reported_from_a_renewal() {
    let table = [
        ("a renewal", Some(1), Some(1), &[][..], true),
        ("a renewal after another life", Some(1), Some(1), &[9], true),
        ("the first session", None, Some(1), &[], false),
        ("another session", Some(1), Some(2), &[1], false),
        ("the end of one's own", Some(1), None, &[1], false),
        ("the end, as a list only", Some(1), Some(1), &[1], false),
    ];
    for (about, answering_in, written, ended, expected) in table {
        let write = lease("a", written, ended);
        assert_eq!(keeps_session(&write, answering_in.map(session)), expected, "{about}");
    }
}
