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

impl Reporting {
    /// What is told when there is room for everything.
    fn told(
        &mut self,
        is_ours: impl Fn(&ServiceName, &Problem) -> Option<bool>,
        now: Monotonic,
    ) -> Vec<(ServiceName, Problem)> {
        let mut told = Vec::new();
        let tell = |service: &ServiceName, problem: &Problem| {
            told.push((service.clone(), problem.clone()));
            true
        };
        self.due(is_ours, tell, now);
        told
    }
}

#[test]
fn a_problem_is_told_once_when_it_has_stood_for_a_second() {
    let mut reporting = Reporting::default();
    assert_eq!(reporting.next_deadline(), None);
    reporting.begin(service("web"), everyones(), BEGIN);
    assert_eq!(reporting.told(|_, _| Some(true), BEGIN), []);
    assert_eq!(reporting.next_deadline(), Some(BEGIN + SECOND));
    assert_eq!(reporting.told(|_, _| Some(true), BEGIN + SECOND), [(service("web"), everyones())]);
    assert_eq!(reporting.next_deadline(), None);
    assert_eq!(reporting.told(|_, _| Some(true), BEGIN + SECOND * 2), []);
}

#[test]
fn what_is_over_before_is_not_told_and_the_other_problem_is() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    reporting.begin(service("web"), on_an_interface_of("b"), BEGIN);
    reporting.end(&service("web"), &everyones());
    assert_eq!(
        reporting.told(|_, _| Some(true), BEGIN + SECOND),
        [(service("web"), on_an_interface_of("b"))]
    );
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
        assert_eq!(reporting.told(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    let told = reporting.told(|_, _| Some(true), BEGIN + SECOND * 63);
    assert_eq!(told, [(service("fresh"), everyones())]);
}

#[test]
fn what_began_while_nobody_was_known_to_be_alive_is_told_when_somebody_is() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    for second in 1..=600 {
        assert_eq!(reporting.told(|_, _| None, BEGIN + SECOND * second), []);
    }
    assert_eq!(reporting.told(|_, _| Some(true), BEGIN + SECOND * 601), [(service("web"), everyones())]);
}

#[test]
fn what_there_is_no_room_for_is_told_as_soon_as_there_is_and_nothing_twice() {
    const PROBLEMS: usize = 1_000;
    let mut reporting = Reporting::default();
    for number in 0..PROBLEMS {
        reporting.begin(service(&format!("{number:04}")), everyones(), BEGIN);
    }
    let mut told = Vec::new();
    let mut asked = 0;
    let mut second = 0;
    while reporting.next_deadline().is_some() {
        second += 1;
        assert!(second <= 1_000, "it ends");
        let mut room = if second == 1 { 50 } else { 1 };
        let tell = |service: &ServiceName, _: &Problem| {
            asked += 1;
            let has_room = room > 0;
            if has_room {
                room -= 1;
                told.push(service.clone());
            }
            has_room
        };
        reporting.due(|_, _| Some(true), tell, BEGIN + SECOND * second);
    }
    let expected: Vec<ServiceName> = (0..PROBLEMS).map(|number| service(&format!("{number:04}"))).collect();
    assert_eq!(told, expected);
    assert!(asked <= PROBLEMS * 2, "each time one is turned away, at most: {asked}");
}

#[test]
fn what_is_over_before_there_is_room_for_it_is_not_told() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    reporting.due(|_, _| Some(true), |_, _| false, BEGIN + SECOND);
    assert_eq!(reporting.next_deadline(), Some(BEGIN + SECOND * 2));
    reporting.end(&service("web"), &everyones());
    assert_eq!(reporting.next_deadline(), None);
}

/// Whoever is to tell it next may be this node again; and nobody has told it yet.
#[test]
fn a_problem_ages_from_when_it_could_be_told() {
    let table = [("there was no room", Some(true)), ("nobody was known to be alive", None)];
    for (about, is_ours) in table {
        let mut reporting = Reporting::default();
        for name in ["first", "second"] {
            reporting.begin(service(name), everyones(), BEGIN);
        }
        for second in 1..=300 {
            reporting.due(|_, _| is_ours, |_, _| false, BEGIN + SECOND * second);
        }
        for second in 301..360 {
            assert_eq!(reporting.told(|_, _| Some(false), BEGIN + SECOND * second), [], "{about}");
        }
        let taken_over = reporting.told(|_, _| Some(true), BEGIN + SECOND * 360);
        assert_eq!(taken_over, ["first", "second"].map(|name| (service(name), everyones())), "{about}");
    }
}

#[test]
fn what_another_node_is_to_tell_is_forgotten_a_minute_after_it_could() {
    let mut reporting = Reporting::default();
    reporting.begin(service("web"), everyones(), BEGIN);
    reporting.due(|_, _| Some(true), |_, _| false, BEGIN + SECOND * 10);
    for second in 11..=70 {
        assert_eq!(reporting.told(|_, _| Some(false), BEGIN + SECOND * second), []);
    }
    assert_eq!(reporting.next_deadline(), None);
}
