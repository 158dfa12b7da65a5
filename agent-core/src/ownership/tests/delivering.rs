//! Local VIPs follow what the nodes' service proxies deliver, and no node takes a VIP before its proxy.

use super::world::*;
use crate::{
    ownership::Event,
    records::{ClaimState, Delivers, Demand, HealthPort, LeaseRecord, Local, NodeRecord, Proxy, Reach},
};

const PORT: HealthPort = HealthPort { number: 30_001, is_ipv6: false };

/// The endpoints of a node, and what its proxy says: `r` ready, `d` one that drains, `+` the proxy
/// delivers, `-` it does not, `?` the node states nothing, `s` its proxy is starting, `~` its port is not
/// reached, `0` none ever was, `w` there is no answer yet.
type Node = &'static str;

fn local(a: Node, b: Node) -> Demand {
    let with = |mark: char| [("a", a), ("b", b)].into_iter().filter(move |(_, node)| node.contains(mark));
    let names = |mark| with(mark).map(|(name, _)| name.into()).collect();
    let reach = Reach::On(Local { ready: names('r'), draining: names('d'), health_port: Some(PORT) });
    Demand { reach, ..demand() }
}

fn proxy(node: Node) -> Option<Proxy> {
    match node.chars().last() {
        Some('+') => Some(Proxy::Delivers([(PORT, Delivers::Yes)].into())),
        Some('~') => Some(Proxy::Delivers([(PORT, Delivers::Unreached)].into())),
        Some('w') => Some(Proxy::Delivers([(PORT, Delivers::Unanswered)].into())),
        Some('0') => Some(Proxy::Silent),
        Some('-') => Some(Proxy::Delivers([].into())),
        Some('s') => Some(Proxy::Starting),
        _ => None,
    }
}

/// Has both nodes state what their proxies deliver, and the slices name these endpoints.
fn set(world: &mut World, a: Node, b: Node) -> Vec<String> {
    let mut lines = world.notify(Event::Proxy(proxy(a)));
    lines.extend(world.lease(LeaseRecord { proxy: proxy(b), ..world.stored_lease("b") }));
    lines.extend(world.want_so(local(a, b)));
    lines
}

#[test]
fn a_holder_hands_over_when_another_node_delivers_better_and_never_before() {
    let table: [(&str, Node, Node, &str); 28] = [
        ("both deliver", "r+", "r+", "keeps"),
        ("the proxy there is behind", "d+", "r-", "keeps"),
        ("and here no longer says that it has a ready one", "d-", "r-", "keeps"),
        ("the proxy there has it", "d+", "r+", "offers"),
        ("the proxy there says nothing: the slices count", "d+", "r?", "offers"),
        ("no proxy says anything", "d?", "r?", "offers"),
        ("both drain", "d-", "d-", "keeps"),
        ("it drains here and nothing is there", "d-", "-", "keeps"),
        ("nothing is left here, and the proxy there is behind", "-", "r-", "keeps"),
        ("nothing is left here, and the proxy there is starting", "-", "rs", "keeps"),
        ("nothing is left here, and the proxy there has it", "-", "r+", "offers"),
        ("nothing is left here, and it drains there", "-", "d-", "offers"),
        ("nothing is left at all", "-", "-", "releases"),
        ("the proxy here lost it, and the other has one", "r-", "r+", "offers"),
        ("the proxy here lost it, and the other drains", "r-", "d-", "offers"),
        ("both proxies lost it", "r-", "r-", "keeps"),
        ("a new endpoint here drains the old one", "rd-", "r-", "keeps"),
        ("the proxy here starts again as a new one", "rs", "r-", "keeps"),
        ("it drains here, and the proxy there is not reached", "d+", "r~", "keeps"),
        ("it drains here, and the proxy there never was reached", "d+", "r0", "keeps"),
        ("no proxy was ever reached", "d0", "r0", "offers"),
        ("the proxy here is no longer reached", "r~", "r+", "offers"),
        ("the proxy here is no longer reached, and it drains there", "r~", "d+", "offers"),
        ("neither is reached", "r~", "r~", "keeps"),
        ("the proxy here lost it, and the other is not reached", "r-", "r~", "offers"),
        ("nothing is left here, and the proxy there is not reached", "-", "r~", "offers"),
        ("the proxy here has not answered yet", "rw", "r+", "keeps"),
        ("nothing is here, the proxy there is starting without an endpoint", "-", "s", "releases"),
    ];
    for (description, a, b, outcome) in table {
        let mut world = World::holding(&["b"]);
        set(&mut world, "r+", "");
        let mut lines = set(&mut world, a, b);
        lines.extend(world.after(ms(9_000)));
        let did = |what: &str| lines.iter().any(|line| line.contains(what));
        let found = match (did("offered to b1"), did("write claim: released")) {
            (true, _) => "offers",
            (false, true) => "releases",
            (false, false) => "keeps",
        };
        assert_eq!(found, outcome, "{description}: {lines:?}");
    }
}

#[test]
fn a_holder_hands_over_in_the_moment_in_which_the_other_proxy_delivers() {
    let mut world = World::holding(&["b"]);
    set(&mut world, "d+", "r-");
    assert_eq!(world.after(ms(700)), [""; 0]);
    let lines = world.lease(LeaseRecord { proxy: proxy("+"), ..world.stored_lease("b") });
    assert_eq!(lines, ["entry handover b for 4.275s", "write claim: offered to b1 by a1, epoch 2"]);
}

#[test]
fn a_holder_with_a_hard_reason_waits_for_another_proxy_and_not_for_ever() {
    let mut world = World::holding(&["b"]);
    set(&mut world, "r+", "r-");
    let excluded = "node.kubernetes.io/exclude-from-external-load-balancers";
    let labels = [(excluded.to_owned(), String::new())].into();
    let mut lines = world.notify(Event::Node(NodeRecord { labels, ..node("a") }));
    lines.extend(world.after(ms(9_900)));
    assert_eq!(lines, [""; 0]);
    assert_eq!(world.after(ms(200)), ["entry foreign ?", "write claim: released, epoch 1"]);
}

#[test]
fn endpoints_that_terminate_and_a_node_that_is_not_ready_take_nothing_from_each_other() {
    let not_ready = |name: &str| Event::Node(NodeRecord { ready: false, ..node(name) });
    for (a, b, is_not_ready) in [("d+", "r+", "b"), ("r+", "d-", "a")] {
        let mut world = World::holding(&["b"]);
        world.notify(not_ready(is_not_ready));
        let mut lines = set(&mut world, a, b);
        lines.extend(world.after(ms(900)));
        assert!(!lines.iter().any(|line| line.contains("offered")), "{a} {b}: {lines:?}");
    }
}

#[test]
fn a_train_of_answers_of_a_proxy_is_few_renewals() {
    let mut world = World::holding(&["b"]);
    let mut versions = std::collections::BTreeSet::new();
    for number in 1..=100 {
        let ports = (1..=number).map(|number| (HealthPort { number, is_ipv6: false }, Delivers::Yes));
        world.notify(Event::Proxy(Some(Proxy::Delivers(ports.collect()))));
        if number == 1 {
            assert!(world.stored_lease("a").proxy.is_some(), "the first change goes out at once");
        }
        world.after(ms(10));
        versions.insert(format!("{:?}", world.stored_lease("a").version));
    }
    assert!((4..=8).contains(&versions.len()), "in one second: {versions:?}");
    world.after(ms(300));
    let stated = world.stored_lease("a").proxy;
    assert!(matches!(stated, Some(Proxy::Delivers(ports)) if ports.len() == 100), "the last one is there");
}

#[test]
fn a_free_vip_is_taken_by_a_node_whose_proxy_delivers() {
    let table: [(&str, Node, Node, bool); 12] = [
        ("it delivers", "r+", "", true),
        ("its proxy is behind", "r-", "", false),
        ("its proxy is behind, and it drains there", "r-", "d-", false),
        ("it says nothing", "r?", "", true),
        ("it drains, and nothing better is there", "d-", "r-", true),
        ("it drains, and the other delivers", "d-", "r+", false),
        ("its proxy is starting", "rs", "", false),
        ("the other's proxy is starting", "r+", "rs", true),
        ("nothing is here", "+", "r-", false),
        ("its proxy is not reached, and nothing better is there", "r~", "r-", true),
        ("no proxy of it was ever reached", "r0", "", true),
        ("its proxy has not answered yet", "rw", "", false),
    ];
    for (description, a, b, takes) in table {
        let mut world = World::living("a", &["b"]);
        world.claim(held("b"), 1);
        world.want();
        world.after(REST);
        set(&mut world, a, b);
        let mut lines = world.claim(ClaimState::Released, 1);
        lines.extend(world.after(ms(400)));
        let taken = lines.iter().any(|line| line == "write claim: held by a1, epoch 2");
        assert_eq!(taken, takes, "{description}: {lines:?}");
    }
}

#[test]
fn under_any_policy_a_node_takes_no_vip_while_its_proxy_is_starting_and_other_nodes_know() {
    let mut world = World::living("a", &["b"]).by_hand();
    let lines = world.notify(Event::Proxy(Some(Proxy::Starting)));
    assert!(lines[0].starts_with("write lease of a"), "the Lease says so at once: {lines:?}");
    world.answer();
    let mut world = world.automatic();
    world.want();
    let lines = world.after(ms(900));
    assert!(!lines.iter().any(|line| line.contains("held")), "{lines:?}");
    assert_eq!(world.stored_lease("a").proxy, Some(Proxy::Starting));
    let lines = world.notify(Event::Proxy(Some(Proxy::Delivers([].into()))));
    assert!(lines.contains(&"create claim: held by a1, epoch 1".to_owned()), "{lines:?}");
}

#[test]
fn a_vip_that_waits_for_a_proxy_is_reported_after_seconds() {
    let mut world = World::living("a", &[]);
    world.notify(Event::Proxy(proxy("-")));
    world.want_so(local("r-", ""));
    let is_reported = |line: &String| line.contains("healthCheckNodePort 30001");
    assert!(!world.after(ms(4_500)).iter().any(is_reported));
    assert!(world.after(ms(1_000)).iter().any(is_reported));
}

#[test]
fn a_change_of_a_proxy_concerns_only_the_vips_of_its_port() {
    let mut world = World::holding(&["b"]);
    set(&mut world, "d+", "r-");
    let other = Proxy::Delivers([(HealthPort { number: 30_002, ..PORT }, Delivers::Yes)].into());
    world.lease(LeaseRecord { proxy: Some(other), ..world.stored_lease("b") });
    assert_eq!(world.after(ms(1_000)), [""; 0]);
    assert!(world.holds());
}
