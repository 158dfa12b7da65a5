use super::*;
use crate::records::Selector;

pub(super) const VIP: &str = "192.0.2.7";

pub(super) fn on_vip(name: &str) -> ServiceRecord {
    service(name).addressed(VIP)
}

fn claimed(services: &[&str]) -> Event {
    claim(ip(VIP), (true, true), services, None)
}

/// Returns a claim of the VIP that this node holds.
pub(super) fn held_on(node: &str, services: &[&str]) -> Event {
    let mut event = claimed(services);
    if let Event::Claim { sessions, .. } = &mut event {
        *sessions = vec![(node.into(), session(1))];
    }
    event
}

#[test]
fn the_owner_of_a_vip_decides_where_it_may_be_and_later_services_which_nodes_come_first() {
    type Row = (
        &'static str,
        bool,
        &'static [&'static str],
        bool,
        &'static [&'static str],
        Option<Vec<&'static str>>,
        bool,
    );
    let table: [Row; 7] = [
        ("the same nodes", true, &["node-a"], true, &["node-a"], Some(vec!["node-a"]), false),
        ("more nodes", true, &["node-a"], true, &["node-a", "node-b"], Some(vec!["node-a"]), false),
        ("fewer nodes", true, &["node-a", "node-b"], true, &["node-b"], Some(vec!["node-a", "node-b"]), true),
        ("other nodes", true, &["node-a"], true, &["node-b"], Some(vec!["node-a"]), true),
        ("some nodes instead of all", false, &[], true, &["node-b"], None, true),
        ("none", true, &["node-a"], true, &[], Some(vec!["node-a"]), false),
        ("the owner has no endpoint", true, &[], true, &["node-b"], Some(vec!["node-b"]), false),
    ];
    for (description, owner_is_local, owners, later_is_local, laters, nodes, is_limited) in table {
        let mut world = World::new();
        world.put(ServiceRecord { created: 1, local: owner_is_local, ..on_vip("x/b").ports(&[1]) });
        world.put(ServiceRecord { created: 2, local: later_is_local, ..on_vip("x/a").ports(&[2]) });
        world.notify(Event::Slice(slice("x/a", "a-1", laters, &[])));
        world.notify(Event::Slice(slice("x/b", "b-1", owners, &[])));
        assert_eq!(world.local(VIP), nodes, "{description}");
        let own = (named("x/a"), Reach::On(laters.iter().map(|node| NodeName::from(*node)).collect()));
        let besides = if is_limited { vec![own] } else { Vec::new() };
        assert_eq!(world.demand(VIP).besides, besides, "{description}");
        assert_eq!(world.problems, [], "{description}: no node has it yet");
    }
}

#[test]
fn a_service_that_its_vip_does_not_serve_is_reported_while_that_lasts() {
    // The Services own the VIP in this order. Each has endpoints on these nodes, or is for all of them.
    type Row = (&'static str, [Option<&'static [&'static str]>; 3], &'static [(&'static str, &'static str)]);
    let (all, a, b, c): (Option<&[&str]>, _, _, _) =
        (None, Some(&["a"][..]), Some(&["b"][..]), Some(&["c"][..]));
    let table: [Row; 9] = [
        ("all serve all", [all, all, all], &[]),
        ("a node without an endpoint", [all, b, all], &[("x/2", "comes first after")]),
        ("two of them", [all, b, b], &[("x/2", "comes first after"), ("x/3", "comes first after")]),
        ("no node has both", [all, b, c], &[("x/2", "comes first after"), ("x/3", "and of Service x/2,")]),
        ("no node has the owner's", [a, b, c], &[("x/2", "Service x/1,"), ("x/3", "Service x/1,")]),
        (
            "one that none serves keeps no other out",
            [Some(&["a", "b"]), c, b],
            &[("x/2", "Service x/1,"), ("x/3", "comes first after")],
        ),
        (
            "no two are apart, but all three are",
            [Some(&["b", "c"]), Some(&["a", "b"]), Some(&["c"])],
            &[("x/3", "Service x/2,")],
        ),
        ("one is without endpoints", [all, Some(&[]), all], &[]),
        ("the owner's are elsewhere: it moves at once", [b, all, all], &[]),
    ];
    for (description, reaches, expected) in table {
        let mut world = World::new();
        for (number, nodes) in (1..).zip(reaches) {
            let name = format!("x/{number}");
            world.notify(Event::Slice(slice(&name, &name, nodes.unwrap_or(&["a", "b", "c"]), &[])));
            let record = on_vip(&name).ports(&[number]).created(number.into());
            world.put(ServiceRecord { local: nodes.is_some(), ..record });
        }
        world.notify(held_on("a", &["x/1", "x/2", "x/3"]));
        let words = world.words();
        assert_eq!(words.len(), expected.len(), "{description}: {words:?}");
        for (notified, (service, why)) in words.iter().zip(expected) {
            let begin = format!("{service}: VIP 192.0.2.7 is on a node without an endpoint of this Service");
            assert!(notified.starts_with(&begin) && notified.contains(why), "{description}: {notified}");
        }
        let moved = world.notify(held_on("b", &["x/1", "x/2", "x/3"]));
        let is_over = |service: &str| world.words().iter().all(|notified| !notified.starts_with(service));
        assert!(reaches[1] != b || is_over("x/2"), "{description}: {moved:?}");
    }
}

#[test]
fn two_services_with_one_port_on_one_vip_are_refused_the_later_one() {
    let mut world = World::new();
    world.put(on_vip("x/b").ports(&[80, 443, 443]).created(1));
    world.put(on_vip("x/c").ports(&[81, 443]).created(2));
    let mut udp = on_vip("x/udp").ports(&[443]).created(3);
    udp.ports[0].protocol = Protocol::Udp;
    world.put(udp);
    let clash = |name: &str, port, with: &str| {
        format!(
            "{name}: 192.0.2.7 (annotation vipward.io/addresses) is not announced for this Service: its \
             port {port}/TCP is that of Service {with}, which had it first; change the port, or give \
             one of them another address"
        )
    };
    assert_eq!(world.words(), [clash("x/c", 443, "x/b")]);
    assert_eq!(world.demand(VIP).services, [named("x/b"), named("x/udp")]);
    world.put(on_vip("x/a").ports(&[80]).created(4));
    // A refused Service keeps no port from those after it.
    world.put(on_vip("x/d").ports(&[81]).created(5));
    assert_eq!(world.words(), [clash("x/a", 80, "x/b"), clash("x/c", 81, "x/d")]);
    assert_eq!(world.demand(VIP).services, [named("x/b"), named("x/udp"), named("x/d")]);
    world.notify(Event::ServiceGone(named("x/b")));
    // The port is that of x/d, although x/c is older.
    assert_eq!(world.demand(VIP).services, [named("x/udp"), named("x/d"), named("x/a")]);
    assert_eq!(world.words(), [clash("x/c", 81, "x/d")]);
}

#[test]
fn a_service_keeps_its_rights_to_a_vip_that_its_claim_records() {
    let mut world = World::new();
    // An older Service requests the address when another one has it.
    world.put(on_vip("x/young").ports(&[1]).created(9));
    world.notify(claimed(&["x/young"]));
    world.put(on_vip("x/old").ports(&[1]).created(1));
    assert_eq!(world.demand(VIP).services, [named("x/young")]);
    world.put(on_vip("x/old").ports(&[2]).created(1));
    assert_eq!(world.demand(VIP).services, [named("x/young"), named("x/old")]);
    // A user deletes the claim.
    world.notify(Event::ClaimGone(ip(VIP)));
    world.put(on_vip("x/third").ports(&[3]).created(0));
    assert_eq!(world.demand(VIP).services[0], named("x/young"));
    // The owner leaves. The next of its namespace that had the VIP is the heir.
    world.notify(claimed(&["x/young", "y/guest", "x/old"]));
    world.notify(Event::ServiceGone(named("x/young")));
    world.put(on_vip("y/guest").ports(&[4]).created(0));
    assert_eq!(world.demand(VIP).services, [named("x/old"), named("x/third")]);
    // A user edits the claim.
    world.notify(claimed(&["y/guest"]));
    assert_eq!(world.demand(VIP).services[0], named("y/guest"), "it names a Service that there is");
    world.notify(claimed(&["x/old"]));
    world.notify(claimed(&["z/gone"]));
    assert_eq!(world.demand(VIP).services[0], named("x/old"), "it names none, and its holder repairs it");
}

#[test]
fn before_a_claim_names_a_service_the_order_is_that_of_statuses_and_age_and_then_it_stays() {
    let had_it = |name: &str| on_vip(name).status("vipward", &[VIP]);
    let mut world = World::unsynced(Role::Alone, Settings::default());
    world.put(on_vip("x/old").ports(&[1]).created(1));
    world.put(had_it("y/had-it").ports(&[2]).created(2));
    world.notify(Event::Synced);
    assert_eq!(world.demand(VIP).services, [named("y/had-it")]);
    let mut world = World::new();
    world.put(on_vip("x/first").created(5));
    world.put(on_vip("y/older").created(1));
    assert_eq!(world.demand(VIP).services, [named("x/first")], "while the claim is written");
}

#[test]
fn a_guest_inherits_neither_the_vip_nor_its_standing() {
    let mut world = two_tenants(["team", "team"], &["y"]);
    world.notify(claimed(&["x/web", "y/web"]));
    world.notify(Event::ServiceGone(named("x/web")));
    assert_eq!(world.demands, BTreeMap::new(), "who consented is gone");
    // The address is a node's by now.
    world.node("node-a", &[VIP]);
    world.notify(Event::ClaimGone(ip(VIP)));
    assert_eq!(world.demands, BTreeMap::new(), "it was held for another");
    world.node("node-a", &[]);
    assert_eq!(world.demand(VIP).services, [named("y/web")]);
}

#[test]
fn a_guest_for_which_the_vip_is_reserved_has_it_once_no_service_of_the_owners_namespace_does() {
    let shared = [("vipward.io/addresses", VIP), ("vipward.io/share", "team")];
    let reserved = Reservation { service: named("y/web"), pool: None, kept: None };
    let claimed = |reservation| claim(ip(VIP), (true, true), &["x/web", "x/api", "y/web"], reservation);
    let mut world = two_tenants(["team", "team"], &["y"]);
    world.put(service("x/api").annotated(&shared).ports(&[3]).created(3));
    world.notify(claimed(None));
    world.notify(Event::ServiceGone(named("x/web")));
    world.notify(claimed(Some(reserved)));
    assert_eq!(world.demand(VIP).services[0], named("x/api"), "its namespace has it still");
    world.notify(Event::ServiceGone(named("x/api")));
    assert_eq!(world.demand(VIP).services, [named("y/web")]);
}

#[test]
fn a_guest_decides_about_the_nodes_only_if_no_service_of_the_owners_namespace_can() {
    let mut world = two_tenants(["team", "team"], &["y"]);
    let shared = [("vipward.io/addresses", VIP), ("vipward.io/share", "team")];
    world.put(service("x/web").annotated(&shared).ports(&[1]).created(1).local());
    world.put(service("y/web").annotated(&shared).ports(&[2]).created(2).local());
    world.put(on_vip("x/api").ports(&[3]).created(3).local());
    world.notify(Event::Slice(slice("y/web", "1", &["node-b"], &[])));
    assert_eq!(world.local(VIP), Some(vec!["node-b"]));
    world.notify(Event::Slice(slice("x/api", "1", &["node-a"], &[])));
    assert_eq!(world.local(VIP), Some(vec!["node-a"]));
}

#[test]
fn a_service_that_is_deleted_and_created_again_finds_its_vip_free() {
    let mut world = World::new();
    world.put(on_vip("x/web").created(5));
    world.notify(claimed(&["x/web"]));
    world.put(on_vip("y/web").created(1));
    world.notify(Event::ServiceGone(named("x/web")));
    assert_eq!(world.demands, BTreeMap::new(), "the stranger waits until the claim is gone");
    assert!(world.words()[0].contains("it belongs to Service x/web"), "{:?}", world.words());
    world.put(on_vip("x/again").created(6));
    assert_eq!(world.demand(VIP).services, [named("x/again")], "its namespace does not wait");
    world.notify(claimed(&["x/again"]));
    world.notify(Event::ServiceGone(named("x/again")));
    world.notify(Event::ClaimGone(ip(VIP)));
    assert_eq!(world.demand(VIP).services, [named("y/web")]);
    assert_eq!(world.problems, []);
}

/// Has x/web own the VIP, y/web want it too, and namespace x list those.
fn two_tenants(keys: [&'static str; 2], listed: &[&str]) -> World {
    let shared = |name: &str, key, port| {
        service(name).annotated(&[("vipward.io/addresses", VIP), ("vipward.io/share", key)]).ports(&[port])
    };
    let mut world = World::new();
    world.notify(consent("x", listed));
    world.put(shared("x/web", keys[0], 1).created(1));
    world.put(shared("y/web", keys[1], 2).created(2));
    world
}

#[test]
fn a_vip_of_another_namespace_needs_its_consent() {
    type Row = (&'static str, [&'static str; 2], &'static [&'static str], bool);
    let table: [Row; 8] = [
        ("nothing", ["", ""], &[], false),
        ("the key alone", ["team", "team"], &[], false),
        ("the list alone", ["", ""], &["y"], false),
        ("blank keys", [" ", " "], &["y"], false),
        ("other keys", ["team", "staff"], &["y"], false),
        ("another namespace", ["team", "team"], &["z", "yy"], false),
        ("both", ["team", "team"], &["z", "y"], true),
        ("both, with a blank", ["team", " team "], &["y"], true),
    ];
    for (description, keys, listed, shares) in table {
        let world = two_tenants(keys, listed);
        let services: &[&str] = if shares { &["x/web", "y/web"] } else { &["x/web"] };
        let services: Vec<_> = services.iter().map(|name| named(name)).collect();
        assert_eq!(world.demand(VIP).services, services, "{description}");
        let refusal = "y/web: 192.0.2.7 (annotation vipward.io/addresses) is not announced for this \
                       Service: it belongs to Service x/web. Choose another address; or, to share it, give \
                       both Services the same annotation vipward.io/share, and have the Namespace x list y \
                       in its annotation vipward.io/share-with";
        let refusals: &[&str] = if shares { &[] } else { &[refusal] };
        assert_eq!(world.words(), refusals, "{description}");
    }
}

#[test]
fn consent_can_be_given_and_withdrawn_and_is_not_mutual() {
    let mut world = two_tenants(["team", "team"], &[]);
    world.notify(consent("y", &["x"]));
    assert_eq!(world.demand(VIP).services, [named("x/web")], "only the owner's namespace is asked");
    world.notify(consent("x", &["y"]));
    assert_eq!(world.demand(VIP).services, [named("x/web"), named("y/web")]);
    assert_eq!(world.notify(consent("x", &["y"])), [], "no news");
    world.notify(Event::NamespaceGone("x".into()));
    assert_eq!(world.demand(VIP).services, [named("x/web")]);
}

#[test]
fn whatever_a_service_of_another_namespace_requests_a_vip_stays_where_it_may_be() {
    let mut world = World::new();
    world.put(on_vip("x/web").local().created(2));
    world.notify(Event::Slice(slice("x/web", "1", &["node-a"], &[])));
    let before = world.demand(VIP).clone();
    let limits = [("vipward.io/nodes", "no=such"), ("vipward.io/interface", "eth9")];
    let mut all = vec![("vipward.io/addresses", VIP)];
    all.extend(limits);
    // The other Service has the same port, and endpoints elsewhere.
    world.put(service("y/web").annotated(&all).local().created(3));
    world.notify(Event::Slice(slice("y/web", "1", &["node-b"], &[])));
    assert_eq!(world.demand(VIP), &before);
    world.hold(VIP, true);
    world.put(service("y/web").status("vipward", &[VIP]).addressed(VIP).created(3));
    assert_eq!(
        world.duties.get(&named("y/web")),
        Some(&Command::ClearIngress { service: named("y/web") }),
        "the status that it had is cleared"
    );
    assert_eq!(world.demand(VIP).services, before.services);
}

#[test]
fn only_the_owners_limits_are_in_effect() {
    let limited = |name: &str, created, port, limits: [(&'static str, &'static str); 3]| {
        let mut all = vec![("vipward.io/addresses", VIP)];
        all.extend(limits);
        service(name).annotated(&all).ports(&[port]).created(created)
    };
    let keys = ["vipward.io/nodes", "vipward.io/preferred-nodes", "vipward.io/interface"];
    let [nodes, preferred, interface] = keys;
    let mut world = World::new();
    world.put(limited("x/c", 1, 1, [(nodes, "zone=a"), (preferred, ""), (interface, "eth0")]));
    world.put(limited("x/b", 2, 2, [(nodes, "zone=b"), (preferred, "rack=1"), (interface, "eth0")]));
    world.put(on_vip("x/a").ports(&[3]).created(3));
    let demand = world.demand(VIP);
    assert_eq!(demand.nodes.as_ref().map(Selector::as_str), Some("zone=a"));
    assert_eq!(demand.preferred, None);
    assert_eq!(demand.interfaces.iter().map(ToString::to_string).collect::<Vec<_>>(), ["eth0"]);
    let disagrees = |key: &str, value: &str, used: &str| {
        format!(
            "x/b: annotation {key} is {value:?} for VIP {VIP}, and has no effect: Service x/c, which has \
             the VIP longer, decides, and has {used}; make them the same, or give one of them another \
             address"
        )
    };
    assert_eq!(
        world.words(),
        [disagrees(nodes, "zone=b", "\"zone=a\""), disagrees(preferred, "rack=1", "none")]
    );
    world.notify(Event::ServiceGone(named("x/c")));
    assert_eq!(world.problems, []);
    assert_eq!(world.demand(VIP).nodes.as_ref().map(Selector::as_str), Some("zone=b"));
}

#[test]
fn one_change_among_many_services_touches_only_its_own_vip() {
    let allow = vec!["10.0.0.0/16".parse().expect("a network")];
    let mut world = World::unsynced(Role::Alone, Settings { allow, ..Settings::default() });
    for number in 0..1_000_u16 {
        let [high, low] = number.to_be_bytes();
        let mut record = service(&format!("x/{number}"));
        record.load_balancer_ip = Some(format!("10.0.{high}.{low}").into());
        world.put(record);
    }
    world.node("node-a", &["10.9.0.1"]);
    world.notify(Event::Synced);
    // While no subnet is known, 10.0.0.0 is not the first address of a network.
    assert_eq!(world.demands.len(), 1_000);
    let mut changed = service("x/500").local();
    changed.load_balancer_ip = Some("10.0.1.244".into());
    let commands = world.put(changed);
    assert!(
        matches!(commands[..], [Command::Demand(vip, Some(_))] if vip == ip("10.0.1.244")),
        "{commands:?}"
    );
}
