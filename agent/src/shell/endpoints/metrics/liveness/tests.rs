use vipward_core::{
    liveness::{Counts, Traffic},
    ownership::WireCounts,
};

use super::*;
use crate::shell::endpoints::metrics::{Format, Metrics, Mode, Snapshot, scrape::tests::snapshot};

fn view(quiet: Option<LeaseOnly>) -> WireView {
    WireView { quiet, one_way: vec!["eth1".to_owned()], ..WireView::sample() }
}

fn thread(round_trips: &[Option<f64>]) -> Thread {
    let traffic = |round_trip: &Option<f64>| Traffic { round_trip_seconds: *round_trip, ..Traffic::sample() };
    let peers = round_trips.iter().map(traffic).collect();
    let counts =
        Counts { pings: 120, lost: 7, suspicions: 6, vote_requests: 5, seconded: 4, agreed: 3, late: 2 };
    Thread { counts, ..Thread::sample(peers) }
}

fn page(wire: WireReport) -> String {
    let snapshot = Snapshot { wire: Some(wire), ..snapshot(Mode::Kubernetes, &[]) };
    Metrics::new(Mode::Kubernetes, 10).page(Format::Prometheus, None, Some(snapshot)).expect("a page")
}

#[test]
fn one_state_of_all_is_one() {
    let counts = WireCounts::default();
    let states = [("off", None), ("on", Some(view(None)))];
    let quiet = LeaseOnly::ALL.map(|quiet| (quiet.name(), Some(view(Some(quiet)))));
    for (name, view) in states.into_iter().chain(quiet) {
        let page = page(WireReport { counts, view, thread: None });
        let lines: Vec<_> = page.lines().filter(|line| line.starts_with("vipward_wire_state{")).collect();
        assert_eq!(lines.len(), 10, "{name}");
        let ones: Vec<_> = lines.into_iter().filter(|line| line.ends_with(" 1.0")).collect();
        assert_eq!(ones, [format!("vipward_wire_state{{state=\"{name}\"}} 1.0")], "{name}");
    }
}

#[test]
fn what_engine_and_thread_count_is_on_the_page() {
    let counts = WireCounts { expired_by_wire: 2, expired_by_lease: 1, false_moves: 8, false_ends: 9 };
    let thread = Some(thread(&[Some(0.0003), None, Some(0.0009)]));
    let full = page(WireReport { counts, view: Some(view(None)), thread });
    let expected = [
        "vipward_wire_voters 2.0",
        "vipward_wire_watched 1.0",
        "vipward_wire_one_way_interfaces 1.0",
        "vipward_sessions_expired_total{by=\"wire\"} 2",
        "vipward_sessions_expired_total{by=\"lease\"} 1",
        "vipward_wire_false_moves_total 8",
        "vipward_wire_false_ends_total 9",
        "vipward_wire_pings_total 120",
        "vipward_wire_pings_lost_total 7",
        "vipward_wire_pings_late_total 2",
        "vipward_wire_suspicions_total 6",
        "vipward_wire_vote_requests_total 5",
        "vipward_wire_votes_agreed_total 3",
        "vipward_wire_round_trip_seconds 0.0009",
    ];
    for line in expected {
        assert!(full.lines().any(|found| found == line), "{line} is not in {full}");
    }
    // Without a thread, nothing has been counted, and no round trip is known.
    let empty = page(WireReport { counts, view: None, thread: None });
    assert!(empty.lines().any(|line| line == "vipward_wire_pings_total 0"), "{empty}");
    assert!(empty.contains("# TYPE vipward_wire_round_trip_seconds gauge"), "{empty}");
    assert!(!empty.lines().any(|line| line.starts_with("vipward_wire_round_trip_seconds ")), "{empty}");
}
