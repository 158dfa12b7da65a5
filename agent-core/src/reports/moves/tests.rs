use std::net::Ipv4Addr;

use std::sync::Arc;

use vipward_common::MacAddr;

use super::*;
use crate::{
    ownership::Expected,
    records::{ClaimNote, Holder, Session},
};

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10));

fn at(millis: u64) -> Monotonic {
    Monotonic::from_nanos(1_000_000_000) + Duration::from_millis(millis)
}

fn session(number: u64) -> Session {
    Session::from_number(number).expect("a number that is not zero")
}

fn lease(node: &str, version: u32, ended: &[u64]) -> LeaseRecord {
    LeaseRecord {
        node: node.into(),
        version: version.to_string().as_str().into(),
        session: Some(session(1)).filter(|_| ended.is_empty()),
        ended: ended.iter().map(|ended| session(*ended)).collect(),
        duration: Duration::from_secs(4),
        interfaces: Vec::new(),
        leaving: false,
        wire: None,
        proxy: None,
    }
}

fn claim(epoch: u64, can_wait: bool) -> ClaimWrite {
    let holder = Holder {
        node: "n1".into(),
        session: session(9),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        interface: Arc::from("eth0"),
    };
    ClaimWrite {
        vip: VIP,
        expected: Expected::Absent,
        epoch: Epoch(epoch),
        state: ClaimState::Held(holder),
        note: ClaimNote::default(),
        can_wait,
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn the_cause_of_a_move_follows_from_the_write_and_the_former_holder() {
    let other = NodeName::from("n2");
    let table = [
        ("no node has had it before", claim(1, true), None, Cause::New),
        ("its holder was expired", claim(4, true), Some(&other), Cause::Failover),
        ("it was let go, or this node's in a session before", claim(4, true), None, Cause::Unheld),
        ("its holder hands it over", claim(4, false), Some(&other), Cause::Handover),
        ("an offer that no node took", claim(4, false), None, Cause::TakenBack),
    ];
    for (what, write, from, cause) in table {
        let mut moves = Moves::default();
        moves.on_write(&write, at(0));
        assert_eq!(moves.on_holds(VIP, from), Some(cause), "{what}");
        assert_eq!(moves.on_holds(VIP, from), None, "{what}: the same report is no other move");
    }
}

#[test]
fn the_gap_is_from_the_last_renewal_of_a_dead_holder_to_the_first_announcement() {
    let mut moves = Moves::default();
    moves.on_lease(&lease("n2", 1, &[]), at(0));
    moves.on_lease(&lease("n2", 2, &[]), at(1_000));
    // The same Lease once more, after a new list, is no sign of life.
    moves.on_lease(&lease("n2", 2, &[]), at(3_000));
    moves.on_lease(&lease("n2", 3, &[1]), at(5_500));
    moves.on_write(&claim(2, true), at(5_600));
    moves.on_holds(VIP, Some(&NodeName::from("n2")));
    let took = Took { since_write: ms(150), gap: Some(ms(4_750)) };
    assert_eq!(moves.on_announced(VIP, at(5_750)), Some(took));
    assert_eq!(moves.on_announced(VIP, at(9_000)), None, "a later round, after the carrier returned");
}

#[test]
fn what_is_not_known_of_the_holder_before_is_not_guessed() {
    let table: [(&str, &[LeaseRecord], bool); 4] = [
        ("its Lease was seen only once", &[lease("n2", 1, &[]), lease("n2", 2, &[1])], true),
        ("it lives, and hands over", &[lease("n2", 1, &[]), lease("n2", 2, &[])], false),
        ("it lives again", &[lease("n2", 1, &[]), lease("n2", 2, &[1]), lease("n2", 3, &[])], true),
        ("nothing was ever seen of it", &[], true),
    ];
    for (what, leases, can_wait) in table {
        let mut moves = Moves::default();
        for (second, lease) in (0..).zip(leases) {
            moves.on_lease(lease, at(second * 1_000));
        }
        moves.on_write(&claim(2, can_wait), at(9_000));
        moves.on_holds(VIP, Some(&NodeName::from("n2")));
        let took = Took { since_write: ms(1), gap: None };
        assert_eq!(moves.on_announced(VIP, at(9_001)), Some(took), "{what}");
    }
}

#[test]
fn what_is_gone_before_it_is_announced_is_not_measured() {
    let mut moves = Moves::default();
    moves.on_write(&claim(1, true), at(0));
    moves.on_holds(VIP, None);
    moves.on_gone(VIP);
    assert_eq!(moves.on_announced(VIP, at(10)), None);
}
