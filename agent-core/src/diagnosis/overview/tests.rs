use vipward_common::MacAddr;

use super::*;
use crate::{
    base::samples::last_octet,
    records::{ClaimNote, Epoch, KeyId, Mode, Offer, Session, Wid},
};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * SECOND)
}

fn session(number: u64) -> Session {
    Session::from_number(number).expect("not zero")
}

fn lease(node: &str, version: &str, number: Option<u64>) -> LeaseRecord {
    LeaseRecord {
        node: node.into(),
        version: Version::from(version),
        session: number.map(session),
        ended: Vec::new(),
        duration: Duration::from_secs(4),
        interfaces: Vec::new(),
        leaving: false,
        wire: None,
        proxy: None,
    }
}

fn holder(node: &str, number: u64) -> Holder {
    Holder {
        node: node.into(),
        session: session(number),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        interface: "eth0".into(),
    }
}

fn claim(last: u8, state: ClaimState, since: Option<&str>) -> ShownClaim {
    let note = ClaimNote { cause: format!("cause of {last}"), ..ClaimNote::default() };
    ShownClaim {
        record: ClaimRecord {
            epoch: Epoch(7),
            state,
            note,
            ..ClaimRecord::blank(IpAddr::from([192, 0, 2, last]), "1".into())
        },
        since: since.map(ToOwned::to_owned),
        conflict: None,
        unanswered: None,
    }
}

/// Looks twice at Leases, a second apart. The Leases of `renewing` change in between.
fn look(leases: &[(&str, Option<u64>)], renewing: &[&str]) -> Observed {
    let mut observed = Observed::default();
    for (version, seconds) in [("1", 100), ("2", 101)] {
        let leases = leases.iter().map(|(node, session)| {
            lease(node, if renewing.contains(node) { version } else { "1" }, *session)
        });
        observed.see(leases.collect(), at(seconds));
    }
    observed
}

#[test]
fn a_claim_is_held_while_the_lease_of_its_holder_carries_its_session_and_is_renewed() {
    let observed = look(&[("a", Some(1)), ("b", None), ("silent", Some(1))], &["a", "b"]);
    let offered = ClaimState::Offered { to: holder("b", 2), from: ("a".into(), session(1)) };
    let table = [
        (ClaimState::Held(holder("a", 1)), "held", Some("a"), None),
        (ClaimState::Held(holder("a", 9)), "session ended", Some("a"), None),
        (ClaimState::Held(holder("b", 1)), "session ended", Some("b"), None),
        (ClaimState::Held(holder("silent", 1)), "not renewed", Some("silent"), None),
        (ClaimState::Held(holder("gone", 1)), "no lease", Some("gone"), None),
        (offered, "handing over", Some("b"), Some("a")),
        (ClaimState::Released, "released", None, None),
        (ClaimState::Blank, "unheld", None, None),
    ];
    for (state, expected, holder, offered_by) in table {
        let overview = overview(&[claim(10, state.clone(), None)], &observed, at(102));
        let row = &overview.vips[0];
        let found = (row.state.name(), row.holder.as_deref(), row.offered_by.as_deref(), row.epoch);
        assert_eq!(found, (expected, holder, offered_by, 7), "{state:?}");
        let held = overview.nodes.iter().map(|node| node.vips).sum::<usize>();
        assert_eq!(held, usize::from(expected == "held"), "{state:?}");
    }
}

#[test]
fn a_claim_that_says_that_no_node_answers_is_not_held() {
    let observed = look(&[("a", Some(1)), ("silent", Some(1))], &["a"]);
    let table = [
        (ClaimState::Held(holder("a", 1)), "not answered"),
        (ClaimState::Held(holder("a", 9)), "session ended"),
        (ClaimState::Held(holder("silent", 1)), "not renewed"),
        (ClaimState::Released, "released"),
    ];
    for (state, expected) in table {
        let unanswered = Some("eth0 has no carrier".to_owned());
        let notified = ShownClaim { unanswered: unanswered.clone(), ..claim(10, state.clone(), None) };
        let row = &overview(&[notified], &observed, at(102)).vips[0];
        assert_eq!((row.state.name(), &row.unanswered), (expected, &unanswered), "{state:?}");
    }
}

#[test]
fn looking_ends_when_every_lease_with_a_session_was_renewed() {
    for (what, leases, renewing, expected) in [
        ("all of them", &[("a", Some(1)), ("b", Some(2))][..], &["a", "b"][..], true),
        ("one is silent", &[("a", Some(1)), ("b", Some(2))], &["a"], false),
        ("one has no session", &[("a", Some(1)), ("b", None)], &["a"], true),
        ("there is none", &[], &[], true),
    ] {
        assert_eq!(look(leases, renewing).is_decided(), expected, "{what}");
    }
    assert!(!Observed::default().is_decided(), "before the first look");
}

#[test]
fn the_age_of_a_lease_is_by_own_observation() {
    let mut observed = Observed::default();
    let lists = [
        (100, vec![lease("alive", "1", Some(1)), lease("silent", "1", Some(1)), lease("gone", "1", None)]),
        (101, vec![lease("alive", "2", Some(1)), lease("silent", "1", Some(1))]),
        (102, vec![lease("alive", "2", Some(1)), lease("silent", "1", Some(1)), lease("new", "5", Some(1))]),
    ];
    for (seconds, leases) in lists {
        observed.see(leases, at(seconds));
    }
    let nodes = overview(&[], &observed, at(103)).nodes;
    let ages: Vec<_> =
        nodes.iter().map(|node| (node.node.as_str(), node.lease_age_seconds, node.renewed)).collect();
    assert_eq!(ages, [("alive", 2.0, true), ("new", 1.0, true), ("silent", 3.0, false)]);
}

#[test]
fn vips_are_sorted_and_the_last_moves_are_the_latest() {
    let held = || ClaimState::Held(holder("a", 1));
    let mut claims: Vec<_> = (1..=15)
        .rev()
        .map(|last| claim(last, held(), Some(&format!("2026-01-01T00:00:{last:02}Z"))))
        .collect();
    claims.push(claim(99, ClaimState::Released, Some("2026-09-09T00:00:00Z")));
    claims.push(claim(98, held(), None));
    let overview = overview(&claims, &Observed::default(), at(1));
    let addresses: Vec<_> = overview.vips.iter().map(|vip| last_octet(vip.address)).collect();
    assert_eq!(addresses, (1..=15).chain([98, 99]).collect::<Vec<_>>());
    let moves: Vec<_> = overview.last_moves.iter().map(|moved| last_octet(moved.address)).collect();
    assert_eq!(moves, (6..=15).rev().collect::<Vec<_>>(), "ten, and none without holder or time");
    assert_eq!(overview.last_moves[0].cause, "cause of 15");
}

#[test]
fn a_node_has_its_voters_by_name_while_enough_of_them_renew() {
    let wid = |number| Wid::from_number(number).expect("not zero");
    let offer = |number, set: &[u64]| Offer {
        wid: wid(number),
        mode: if set.is_empty() { Mode::Off } else { Mode::Notice },
        round: 1,
        invited: set.iter().copied().map(wid).collect(),
        set: set.iter().copied().map(wid).collect(),
        need: usize::from(!set.is_empty()),
        keys: vec![KeyId(1)],
    };
    let lease = |node, version: &str, wire| LeaseRecord { wire: Some(wire), ..lease(node, version, Some(1)) };
    for (c, expected) in
        [("2", (vec!["b", "c"], 2, None)), ("1", (vec![], 0, Some("1 of its voters (b, c) live")))]
    {
        let mut observed = Observed::default();
        for (seconds, version, c) in [(100, "1", "1"), (101, "2", c)] {
            let leases = [
                lease("a", version, offer(1, &[2, 3])),
                lease("b", version, offer(2, &[])),
                lease("c", c, offer(3, &[])),
            ];
            observed.see(leases.into(), at(seconds));
        }
        let row =
            &overview(&[claim(10, ClaimState::Held(holder("a", 1)), None)], &observed, at(102)).nodes[0];
        let why = row.found_by_lease.as_deref();
        let voters: Vec<_> = row.voters.iter().map(String::as_str).collect();
        assert_eq!((voters, row.quorum), (expected.0, expected.1), "{why:?}");
        assert_eq!(why.is_some(), expected.2.is_some(), "{why:?}");
        assert!(expected.2.is_none_or(|says| why.is_some_and(|why| why.starts_with(says))), "{why:?}");
    }
}
