use super::*;
use crate::{
    host::owner::Owner,
    services::{Place, Refusal},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn service(name: &str) -> ServiceName {
    ServiceName { namespace: "shop".into(), name: name.into() }
}

fn nodes(names: &[&str]) -> BTreeSet<NodeName> {
    names.iter().map(|name| NodeName::from(*name)).collect()
}

fn seen_by_all() -> Problem {
    refused(Refusal::NoSegment)
}

fn refused(why: Refusal) -> Problem {
    Problem::Refused { address: [192, 0, 2, 1].into(), place: Place::Addresses, why }
}

fn on_an_interface_of(node: &str) -> Problem {
    let net = "192.0.2.1/24".parse().expect("a network");
    let owner = Owner::Host;
    refused(Refusal::NodeInterface { node: node.into(), net, interface: "eth0".into(), owner })
}

/// Description, problem, nodes that the claims name, living nodes, and the node that reports.
type Row = (&'static str, Problem, &'static [&'static str], &'static [&'static str], &'static str);

#[test]
fn one_living_node_reports_and_all_nodes_choose_the_same() {
    const ALL: &[&str] = &["a", "b", "c"];
    let table: [Row; 8] = [
        ("without a holder, the first by name", seen_by_all(), &[], ALL, "a"),
        ("the first that is alive", seen_by_all(), &[], &["b", "c"], "b"),
        ("the holder", seen_by_all(), &["c"], ALL, "c"),
        ("the holder of the first of two VIPs", seen_by_all(), &["b", "c"], ALL, "b"),
        ("of those that are alive", seen_by_all(), &["b", "c"], &["a", "c"], "c"),
        ("a dead holder reports nothing", seen_by_all(), &["b"], &["a", "c"], "a"),
        ("the node that has the address", on_an_interface_of("b"), &["c"], ALL, "b"),
        ("unless it is dead", on_an_interface_of("b"), &[], &["a", "c"], "a"),
    ];
    for (about, problem, holders, alive, expected) in table {
        let holders: Vec<NodeName> = holders.iter().map(|name| NodeName::from(*name)).collect();
        let alive = nodes(alive);
        let reports = |own: &&NodeName| {
            is_responsible(false, own, &problem, &holders, &alive).expect("a node is alive")
        };
        let reporting: BTreeSet<NodeName> = alive.iter().filter(reports).cloned().collect();
        assert_eq!(reporting, nodes(&[expected]), "{about}");
    }
}

#[test]
fn a_problem_that_others_may_not_see_is_reported_by_each_node_that_sees_it() {
    let gateway = refused(Refusal::NextHop { address: [192, 0, 2, 1].into() });
    let alive = nodes(&["a", "b", "c"]);
    for own in &alive {
        assert_eq!(is_responsible(false, own, &gateway, [], &alive), Some(true), "{own}");
    }
}

#[test]
fn beside_a_controller_the_agents_report_only_what_it_may_not_see() {
    let alive = nodes(&["a", "b"]);
    let table = [
        ("all see it", seen_by_all(), false),
        ("a node knows most about it", on_an_interface_of("a"), false),
        ("only this node sees it", refused(Refusal::NextHop { address: [192, 0, 2, 1].into() }), true),
        ("only this process is refused", Problem::StatusRefused { why: "no permission".into() }, true),
    ];
    for (about, problem, expected) in table {
        assert_eq!(is_responsible(true, &"a".into(), &problem, [], &alive), Some(expected), "{about}");
    }
}

#[test]
fn it_is_unknown_who_reports_while_it_is_unknown_who_is_alive() {
    let gateway = refused(Refusal::NextHop { address: [192, 0, 2, 1].into() });
    for problem in [seen_by_all(), gateway] {
        assert_eq!(is_responsible(false, &"a".into(), &problem, [], &BTreeSet::new()), None);
    }
}

#[test]
fn a_problem_is_reported_when_it_has_stood_for_a_second_and_then_every_ten_minutes() {
    let mut reporting = Reporting::default();
    assert_eq!(reporting.next_deadline(), None);
    reporting.begin(service("web"), seen_by_all(), BEGIN);
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN), []);
    let mut times = Vec::new();
    for _ in 0..7 {
        let next = reporting.next_deadline().expect("the problem lasts");
        assert_eq!(reporting.due(|_, _| Some(true), next), [(service("web"), seen_by_all())]);
        assert_eq!(reporting.due(|_, _| Some(true), next + SECOND), []);
        times.push(next.saturating_since(BEGIN + SECOND));
    }
    assert_eq!(times, [0, 10, 20, 30, 40, 50, 60].map(|minutes| MINUTE * minutes));
    reporting.end(&service("web"), &seen_by_all());
    assert_eq!(reporting.next_deadline(), None);
}

#[test]
fn a_problem_that_is_over_before_is_not_reported_and_another_is() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), seen_by_all(), BEGIN);
    reporting.begin(service("web"), on_an_interface_of("b"), BEGIN);
    reporting.end(&service("web"), &seen_by_all());
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND), [(service("web"), on_an_interface_of("b"))]);
    reporting.end(&service("web"), &on_an_interface_of("b"));
    reporting.begin(service("mail"), seen_by_all(), BEGIN);
    reporting.end(&service("mail"), &seen_by_all());
    assert_eq!(reporting.next_deadline(), None);
}

#[test]
fn a_node_that_takes_over_reports_new_problems_at_once_and_old_ones_within_ten_minutes() {
    let mut reporting = Reporting::default();
    reporting.begin(service("old"), seen_by_all(), BEGIN);
    reporting.begin(service("fresh"), seen_by_all(), BEGIN + SECOND * 50);
    for second in 1..=62 {
        assert_eq!(reporting.due(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    let reported = reporting.due(|_, _| Some(true), BEGIN + SECOND * 63);
    assert_eq!(reported, [(service("fresh"), seen_by_all())]);
    let next = reporting.next_deadline().expect("both last");
    assert_eq!(next, BEGIN + MINUTE * 11);
    assert_eq!(reporting.due(|_, _| Some(true), next), [(service("old"), seen_by_all())]);
}

#[test]
fn a_problem_that_began_while_no_node_was_known_alive_is_reported_later() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), seen_by_all(), BEGIN);
    for second in 1..=600 {
        assert_eq!(reporting.due(|_, _| None, BEGIN + SECOND * second), []);
    }
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND * 601), [(service("web"), seen_by_all())]);
}

/// Prevents that a node that takes over the responsibility finds the problem too old to report.
#[test]
fn a_problem_ages_from_when_it_is_known_who_reports_it() {
    let mut reporting = Reporting::default();
    for name in ["first", "second"] {
        reporting.begin(service(name), seen_by_all(), BEGIN);
    }
    for second in 1..=300 {
        assert_eq!(reporting.due(|_, _| None, BEGIN + SECOND * second), []);
    }
    for second in 301..360 {
        assert_eq!(reporting.due(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    let taken_over = reporting.due(|_, _| Some(true), BEGIN + SECOND * 360);
    assert_eq!(taken_over, ["first", "second"].map(|name| (service(name), seen_by_all())));
}

#[test]
fn who_reports_an_old_problem_is_looked_up_every_ten_minutes() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), seen_by_all(), BEGIN);
    for second in 1..=60 {
        assert_eq!(reporting.due(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    assert_eq!(reporting.next_deadline(), Some(BEGIN + MINUTE * 11));
}
