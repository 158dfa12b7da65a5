use std::{sync::Arc, time::Duration};

use vipward_common::MacAddr;
use vipward_core::{
    cluster::{ClaimNote, Holder, Session},
    ownership::Expected,
};

use super::*;
use crate::shell::metrics::{Metrics, Mode};

const VIP: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 10);

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
        links: Vec::new(),
        leaving: false,
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

/// Returns the sum and the count of a histogram on the page.
fn observed(metrics: &Metrics, name: &str) -> (f64, u32) {
    let page = metrics.page(crate::shell::metrics::Format::Prometheus, None, None).expect("a page");
    let value = |suffix: &str| {
        let name = format!("vipward_{name}_seconds_{suffix} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&name)).expect("the histogram is there");
        line.parse::<f64>().expect("a number")
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    (value("sum"), value("count") as u32)
}

fn close(left: f64, right: f64) -> bool {
    (left - right).abs() < 1e-9
}

#[test]
fn why_a_vip_came_is_told_by_how_it_was_asked_for_and_who_had_it() {
    let other = NodeName::from("n2");
    let table = [
        ("nobody has had it before", claim(1, true), None, MoveCause::New),
        ("its holder was deposed", claim(4, true), Some(&other), MoveCause::Failover),
        ("it was let go, or this node's in a session before", claim(4, true), None, MoveCause::Unheld),
        ("its holder hands it over", claim(4, false), Some(&other), MoveCause::Handover),
        ("an offer that nobody took", claim(4, false), None, MoveCause::TakenBack),
    ];
    for (what, write, from, cause) in table {
        let metrics = MoveMetrics::default();
        let mut moves = Moves::new(metrics.clone());
        moves.on_write(&write, at(0));
        moves.on_holds(VIP, from);
        assert_eq!(metrics.count(cause), 1, "{what}");
        // The same report once more is no other move.
        moves.on_holds(VIP, from);
        assert_eq!(metrics.count(cause), 1, "{what}");
    }
}

#[test]
fn the_gap_is_from_the_last_renewal_of_a_dead_holder_to_the_first_announcement() {
    let metrics = Metrics::new(Mode::Kubernetes, 0);
    let mut moves = Moves::new(metrics.moves.clone());
    let dead = NodeName::from("n2");
    moves.on_lease(&lease("n2", 1, &[]), at(0));
    moves.on_lease(&lease("n2", 2, &[]), at(1_000));
    // The same Lease once more, after a new list, is no sign of life.
    moves.on_lease(&lease("n2", 2, &[]), at(3_000));
    moves.on_lease(&lease("n2", 3, &[1]), at(5_500));
    moves.on_write(&claim(2, true), at(5_600));
    moves.on_holds(VIP, Some(&dead));
    moves.on_announced(VIP, at(5_750));
    // This is a later round, after the carrier returned.
    moves.on_announced(VIP, at(9_000));
    let (taking, takings) = observed(&metrics, "takeover_duration");
    let (gap, gaps) = observed(&metrics, "takeover_gap");
    assert!(close(taking, 0.15) && takings == 1, "{taking} {takings}");
    assert!(close(gap, 4.75) && gaps == 1, "{gap} {gaps}");
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
        let metrics = Metrics::new(Mode::Kubernetes, 0);
        let mut moves = Moves::new(metrics.moves.clone());
        for (second, lease) in (0..).zip(leases) {
            moves.on_lease(lease, at(second * 1_000));
        }
        moves.on_write(&claim(2, can_wait), at(9_000));
        moves.on_holds(VIP, Some(&NodeName::from("n2")));
        moves.on_announced(VIP, at(9_001));
        assert_eq!(observed(&metrics, "takeover_duration").1, 1, "{what}");
        assert_eq!(observed(&metrics, "takeover_gap").1, 0, "{what}");
    }
}

#[test]
fn what_is_gone_before_it_is_announced_is_not_measured() {
    let metrics = Metrics::new(Mode::Kubernetes, 0);
    let mut moves = Moves::new(metrics.moves.clone());
    moves.on_write(&claim(1, true), at(0));
    moves.on_holds(VIP, None);
    moves.on_gone(VIP);
    moves.on_announced(VIP, at(10));
    assert_eq!(observed(&metrics, "takeover_duration").1, 0);
}
