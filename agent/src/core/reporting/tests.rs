use super::*;
use crate::core::services::{Place, Refusal};

const SECOND: Duration = Duration::from_secs(1);
const BEGIN: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn service(name: &str) -> ServiceName {
    ServiceName { namespace: "shop".into(), name: name.into() }
}

fn nodes(names: &[&str]) -> BTreeSet<NodeName> {
    names.iter().map(|name| NodeName::from(*name)).collect()
}

fn everyones() -> Problem {
    Problem::Ipv6 { address: "2001:db8::1".parse().expect("an address"), place: Place::Addresses }
}

fn refused(why: Refusal) -> Problem {
    Problem::Refused { address: [192, 0, 2, 1].into(), place: Place::Addresses, why }
}

fn on_an_interface_of(node: &str) -> Problem {
    refused(Refusal::NodeInterface { node: node.into(), net: "192.0.2.1/24".parse().expect("a network") })
}

/// What it is about, what is told, whom the claims name, who is alive, and who tells it.
type Row = (&'static str, Problem, &'static [&'static str], &'static [&'static str], &'static str);

#[test]
fn one_of_the_nodes_that_are_alive_tells_and_all_come_to_the_same() {
    const ALL: &[&str] = &["a", "b", "c"];
    let table: [Row; 8] = [
        ("without a holder, the first by name", everyones(), &[], ALL, "a"),
        ("the first that is alive", everyones(), &[], &["b", "c"], "b"),
        ("the holder", everyones(), &["c"], ALL, "c"),
        ("the holder of the first of two VIPs", everyones(), &["b", "c"], ALL, "b"),
        ("of those that are alive", everyones(), &["b", "c"], &["a", "c"], "c"),
        ("a holder that is dead tells nothing", everyones(), &["b"], &["a", "c"], "a"),
        ("whoever has the address", on_an_interface_of("b"), &["c"], ALL, "b"),
        ("unless it is dead", on_an_interface_of("b"), &[], &["a", "c"], "a"),
    ];
    for (about, problem, holders, alive, expected) in table {
        let holders: Vec<NodeName> = holders.iter().map(|name| NodeName::from(*name)).collect();
        let alive = nodes(alive);
        let tells = |us: &&NodeName| is_teller(us, &problem, &holders, &alive).expect("somebody is alive");
        let telling: BTreeSet<NodeName> = alive.iter().filter(tells).cloned().collect();
        assert_eq!(telling, nodes(&[expected]), "{about}");
    }
}

#[test]
fn what_others_may_not_see_is_told_by_whoever_sees_it() {
    let gateway = refused(Refusal::NextHop { address: [192, 0, 2, 1].into() });
    let alive = nodes(&["a", "b", "c"]);
    for us in &alive {
        assert_eq!(is_teller(us, &gateway, [], &alive), Some(true), "{us}");
    }
}

#[test]
fn nobody_tells_while_it_is_not_known_who_is_alive() {
    let gateway = refused(Refusal::NextHop { address: [192, 0, 2, 1].into() });
    for problem in [everyones(), gateway] {
        assert_eq!(is_teller(&"a".into(), &problem, [], &BTreeSet::new()), None);
    }
}

#[test]
fn a_problem_is_told_once_when_it_has_stood_for_a_second() {
    let mut reporting = Reporting::default();
    assert_eq!(reporting.next_deadline(), None);
    reporting.begin(service("web"), everyones(), BEGIN);
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN), []);
    assert_eq!(reporting.next_deadline(), Some(BEGIN + SECOND));
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND), [(service("web"), everyones())]);
    assert_eq!(reporting.next_deadline(), None);
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND * 2), []);
}

#[test]
fn what_is_over_before_is_not_told_and_the_other_problem_is() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    reporting.begin(service("web"), on_an_interface_of("b"), BEGIN);
    reporting.end(&service("web"), &everyones());
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND), [(service("web"), on_an_interface_of("b"))]);
    reporting.begin(service("mail"), everyones(), BEGIN);
    reporting.end(&service("mail"), &everyones());
    assert_eq!(reporting.next_deadline(), None);
}

#[test]
fn the_node_that_takes_over_tells_what_is_fresh_and_repeats_nothing_that_is_old() {
    let mut reporting = Reporting::default();
    reporting.begin(service("old"), everyones(), BEGIN);
    reporting.begin(service("fresh"), everyones(), BEGIN + SECOND * 50);
    for second in 1..=62 {
        assert_eq!(reporting.due(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    let told = reporting.due(|_, _| Some(true), BEGIN + SECOND * 63);
    assert_eq!(told, [(service("fresh"), everyones())]);
}

#[test]
fn what_began_while_nobody_was_known_to_be_alive_is_told_when_somebody_is() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    for second in 1..=600 {
        assert_eq!(reporting.due(|_, _| None, BEGIN + SECOND * second), []);
    }
    assert_eq!(reporting.due(|_, _| Some(true), BEGIN + SECOND * 601), [(service("web"), everyones())]);
}
