use super::*;
use crate::cluster::Selector;

const VIP: &str = "192.0.2.7";

fn on_vip(name: &str) -> ServiceRecord {
    service(name).addressed(VIP)
}

#[test]
fn local_traffic_goes_to_nodes_with_endpoints() {
    type Row = (&'static str, bool, bool, Vec<EndpointsRecord>, Option<Vec<&'static str>>);
    let elsewhere = EndpointsRecord { ready_elsewhere: true, ..slice("a/web", "1", &[], &["node-c"]) };
    let table: [Row; 12] = [
        ("policy Cluster", false, false, vec![slice("a/web", "1", &["node-a"], &[])], None),
        ("policy Cluster, no endpoint", false, false, vec![], None),
        ("policy Cluster, no endpoint, withdrawn", false, true, vec![], Some(vec![])),
        (
            "policy Cluster, an empty slice, withdrawn",
            false,
            true,
            vec![slice("a/web", "1", &[], &[])],
            Some(vec![]),
        ),
        ("policy Cluster, one that ends", false, true, vec![slice("a/web", "1", &[], &["node-a"])], None),
        ("policy Cluster, one on no node", false, true, vec![elsewhere.clone()], None),
        (
            "ready ones of all slices",
            true,
            false,
            vec![slice("a/web", "1", &["node-b"], &[]), slice("a/web", "2", &["node-a"], &["node-c"])],
            Some(vec!["node-a", "node-b"]),
        ),
        ("none", true, false, vec![], Some(vec![])),
        (
            "those that end while no other is ready",
            true,
            false,
            vec![slice("a/web", "1", &[], &["node-c"]), slice("a/web", "2", &[], &["node-a"])],
            Some(vec!["node-a", "node-c"]),
        ),
        ("but not while one is ready, be it on no node", true, false, vec![elsewhere], None),
        ("another Service's", true, false, vec![slice("a/other", "1", &["node-a"], &[])], Some(vec![])),
        (
            "one of the same name elsewhere",
            true,
            false,
            vec![slice("b/web", "1", &["node-a"], &[])],
            Some(vec![]),
        ),
    ];
    for (description, local, withdraw_without_endpoints, slices, nodes) in table {
        let settings = Settings { withdraw_without_endpoints, ..Settings::default() };
        let record = ServiceRecord { local, ..on_vip("a/web") };
        let mut slices_first = World::with(settings.clone());
        let mut service_first = World::with(settings);
        service_first.put(record.clone());
        for slice in slices {
            slices_first.tell(Event::Slice(slice.clone()));
            service_first.tell(Event::Slice(slice));
        }
        slices_first.put(record);
        assert_eq!(slices_first.local(VIP), nodes, "{description}");
        assert_eq!(service_first.local(VIP), nodes, "{description}, the Service first");
    }
}

/// Returns the slice that a Gateway makes for its Service. Its
/// only endpoint is ready, and names no node.
fn placeholder(service: &str, name: &str) -> EndpointsRecord {
    EndpointsRecord { ready_elsewhere: true, ..slice(service, name, &[], &[]) }
}

#[test]
fn ready_endpoints_that_name_no_node_limit_a_local_vip_to_no_nodes() {
    type Row = (&'static str, Vec<EndpointsRecord>, Option<Vec<&'static str>>);
    let mixed = EndpointsRecord { ready_elsewhere: true, ..slice("a/web", "1", &["node-a"], &["node-c"]) };
    let table: [Row; 7] = [
        ("a placeholder alone", vec![placeholder("a/web", "1")], None),
        ("two placeholders", vec![placeholder("a/web", "1"), placeholder("a/web", "2")], None),
        (
            "a placeholder beside an empty slice",
            vec![placeholder("a/web", "1"), slice("a/web", "2", &[], &[])],
            None,
        ),
        ("a ready one on a node in the same slice", vec![mixed], Some(vec!["node-a"])),
        (
            "a ready one on a node in another slice",
            vec![placeholder("a/web", "1"), slice("a/web", "2", &["node-b"], &["node-c"])],
            Some(vec!["node-b"]),
        ),
        (
            "one that ends on a node in another slice",
            vec![placeholder("a/web", "1"), slice("a/web", "2", &[], &["node-c"])],
            None,
        ),
        ("a placeholder of another Service", vec![placeholder("a/other", "1")], Some(vec![])),
    ];
    for (description, slices, nodes) in table {
        // The setting concerns Services without an endpoint, and these Services have one.
        for withdraw_without_endpoints in [false, true] {
            let mut world = World::with(Settings { withdraw_without_endpoints, ..Settings::default() });
            world.put(on_vip("a/web").local());
            for slice in &slices {
                world.tell(Event::Slice(slice.clone()));
            }
            assert_eq!(world.local(VIP), nodes, "{description}");
        }
    }
}

#[test]
fn a_local_vip_follows_its_endpoints_from_a_placeholder_to_nodes_and_back() {
    let mut world = World::new();
    world.put(on_vip("a/web").local());
    assert_eq!(world.local(VIP), Some(vec![]), "no endpoint yet");
    world.tell(Event::Slice(placeholder("a/web", "1")));
    assert_eq!(world.local(VIP), None);
    world.tell(Event::Slice(slice("a/web", "2", &["node-b"], &[])));
    assert_eq!(world.local(VIP), Some(vec!["node-b"]));
    world.tell(Event::SliceGone { namespace: "a".into(), slice: "2".into() });
    assert_eq!(world.local(VIP), None);
    world.tell(Event::Slice(slice("a/web", "1", &[], &[])));
    assert_eq!(world.local(VIP), Some(vec![]), "the placeholder is not ready any more");
}

#[test]
fn a_service_with_a_placeholder_leaves_a_shared_vip_to_the_nodes_of_the_others() {
    type Row = (&'static str, &'static [&'static str], bool, Option<Vec<&'static str>>);
    let table: [Row; 4] = [
        ("the other has endpoints on nodes", &["node-b"], true, Some(vec!["node-b"])),
        ("the other has no endpoint", &[], true, None),
        ("the other has no endpoint, and its policy is Cluster", &[], false, None),
        ("the other has endpoints on nodes, and its policy is Cluster", &["node-b"], false, None),
    ];
    for (description, ready, local, nodes) in table {
        let mut world = World::new();
        world.put(on_vip("x/gateway").local().ports(&[1]));
        world.put(ServiceRecord { local, ..on_vip("x/other").ports(&[2]) });
        world.tell(Event::Slice(placeholder("x/gateway", "gateway-1")));
        world.tell(Event::Slice(slice("x/other", "other-1", ready, &[])));
        assert_eq!(world.local(VIP), nodes, "{description}");
        assert_eq!(world.problems, [], "{description}: nothing is impossible");
    }
}

#[test]
fn endpoints_come_and_go_and_slices_change_hands() {
    let mut world = World::new();
    world.put(on_vip("a/web").local());
    world.tell(Event::Slice(slice("a/web", "1", &["node-a"], &[])));
    world.tell(Event::Slice(slice("a/web", "2", &["node-b"], &[])));
    world.tell(Event::Slice(slice("a/web", "1", &["node-c"], &[])));
    assert_eq!(world.local(VIP), Some(vec!["node-b", "node-c"]));
    assert_eq!(world.tell(Event::Slice(slice("a/web", "1", &["node-c"], &[]))), [], "no news");
    world.tell(Event::SliceGone { namespace: "a".into(), slice: "2".into() });
    assert_eq!(world.local(VIP), Some(vec!["node-c"]));
    world.tell(Event::Slice(slice("a/other", "1", &["node-c"], &[])));
    assert_eq!(world.local(VIP), Some(vec![]));
    world.put(on_vip("a/web"));
    assert_eq!(world.local(VIP), None);
    assert_eq!(world.tell(Event::SliceGone { namespace: "a".into(), slice: "9".into() }), []);
}

#[test]
fn services_on_one_vip_share_the_nodes_that_serve_all() {
    struct Case {
        description: &'static str,
        a: &'static [&'static str],
        b: &'static [&'static str],
        /// True if there is a third Service, with policy Cluster.
        cluster: bool,
        nodes: Option<Vec<&'static str>>,
        impossible: bool,
    }
    let table = [
        Case {
            description: "nodes in common",
            a: &["node-a", "node-b"],
            b: &["node-b", "node-c"],
            cluster: false,
            nodes: Some(vec!["node-b"]),
            impossible: false,
        },
        Case {
            description: "nodes in common, and one with policy Cluster",
            a: &["node-a", "node-b"],
            b: &["node-b", "node-c"],
            cluster: true,
            nodes: Some(vec!["node-b"]),
            impossible: false,
        },
        Case {
            description: "none in common",
            a: &["node-a"],
            b: &["node-b"],
            cluster: false,
            nodes: Some(vec![]),
            impossible: true,
        },
        Case {
            description: "one without endpoints takes nothing from the other",
            a: &[],
            b: &["node-b"],
            cluster: false,
            nodes: Some(vec!["node-b"]),
            impossible: false,
        },
        Case {
            description: "nor from one with policy Cluster",
            a: &[],
            b: &[],
            cluster: true,
            nodes: None,
            impossible: false,
        },
        Case {
            description: "no endpoints at all",
            a: &[],
            b: &[],
            cluster: false,
            nodes: Some(vec![]),
            impossible: false,
        },
    ];
    for Case { description, a, b, cluster, nodes, impossible } in table {
        let mut world = World::new();
        world.put(on_vip("x/a").local().ports(&[1]));
        world.put(on_vip("x/b").local().ports(&[2]));
        if cluster {
            world.put(on_vip("x/c").ports(&[3]));
        }
        world.tell(Event::Slice(slice("x/a", "a-1", a, &[])));
        world.tell(Event::Slice(slice("x/b", "b-1", b, &[])));
        assert_eq!(world.local(VIP), nodes, "{description}");
        let words = world.words();
        assert_eq!(words.len(), if impossible { 2 } else { 0 }, "{description}: {words:?}");
        for (told, name) in words.iter().zip(["x/a", "x/b"]) {
            let expected = format!("{name}: VIP {VIP} cannot be announced: x/a, x/b share it with");
            assert!(told.starts_with(&expected), "{description}: {told}");
        }
    }
}

#[test]
fn ports_that_clash_are_reported_on_the_later_service() {
    let mut world = World::new();
    world.put(on_vip("x/b").ports(&[80, 443, 443]));
    world.put(on_vip("x/c").ports(&[443]));
    let mut udp = on_vip("x/udp").ports(&[443]);
    udp.ports[0].protocol = Protocol::Udp;
    world.put(udp);
    assert_eq!(
        world.words(),
        [
            "x/c: port 443/TCP of VIP 192.0.2.7 is also that of Service x/b: only one of them gets its traffic; change the \
             port, or give one of them another address"
        ]
    );
    world.put(on_vip("x/a").ports(&[443]));
    let [b, c] = &world.words()[..] else { panic!("{:?}", world.words()) };
    assert!(b.starts_with("x/b: port 443/TCP of VIP 192.0.2.7 is also that of Service x/a"), "{b}");
    assert!(c.starts_with("x/c: port 443/TCP of VIP 192.0.2.7 is also that of Service x/a"), "{c}");
    world.tell(Event::ServiceGone(named("x/a")));
    world.put(on_vip("x/c").ports(&[444]));
    assert_eq!(world.problems, []);
    assert_eq!(world.demand(VIP).services, [named("x/b"), named("x/c"), named("x/udp")]);
}

#[test]
fn the_first_service_that_says_where_a_vip_may_be_is_followed() {
    let limited = |name: &str, port, limits: [(&'static str, &'static str); 3]| {
        let mut all = vec![("vipward.io/addresses", VIP)];
        all.extend(limits);
        service(name).annotated(&all).ports(&[port])
    };
    let keys = ["vipward.io/nodes", "vipward.io/preferred-nodes", "vipward.io/interface"];
    let [nodes, preferred, interface] = keys;
    let mut world = World::new();
    world.put(on_vip("x/a").ports(&[1]));
    world.put(limited("x/b", 2, [(nodes, "zone=a"), (preferred, "rack=1"), (interface, "eth0")]));
    world.put(limited("x/c", 3, [(nodes, "zone=b"), (preferred, "rack=1"), (interface, "eth1,eth2")]));
    let demand = world.demand(VIP);
    assert_eq!(demand.nodes.as_ref().map(Selector::as_str), Some("zone=a"));
    assert_eq!(demand.preferred.as_ref().map(Selector::as_str), Some("rack=1"));
    assert_eq!(demand.interfaces.iter().map(ToString::to_string).collect::<Vec<_>>(), ["eth0"]);
    let disagrees = |key: &str, value: &str, used: &str| {
        format!(
            "x/c: annotation {key} is {value:?} for VIP {VIP}, but Service x/b, which shares it and comes first by name, has \
             {used:?}, which is in effect; make them the same, or give one of them another address"
        )
    };
    assert_eq!(
        world.words(),
        [disagrees(interface, "eth1,eth2", "eth0"), disagrees(nodes, "zone=b", "zone=a")]
    );
    world.tell(Event::ServiceGone(named("x/b")));
    assert_eq!(world.problems, []);
    assert_eq!(world.demand(VIP).nodes.as_ref().map(Selector::as_str), Some("zone=b"));
}

#[test]
fn one_change_among_many_services_touches_only_its_own_vip() {
    let mut world = World::unsynced(Settings::default());
    for number in 0..1_000_u16 {
        let [high, low] = number.to_be_bytes();
        let mut record = service(&format!("x/{number}"));
        record.load_balancer_ip = Some(format!("10.0.{high}.{low}").into());
        world.put(record);
    }
    world.node("node-a", &["10.9.0.1"]);
    world.tell(Event::Synced);
    // While no subnet is known, 10.0.0.0 is not the first address of a network.
    assert_eq!(world.demands.len(), 1_000);
    let mut changed = service("x/500").local();
    changed.load_balancer_ip = Some("10.0.1.244".into());
    let commands = world.put(changed);
    assert!(
        matches!(commands[..], [Command::Demand(vip, Some(_))] if vip == v4("10.0.1.244")),
        "{commands:?}"
    );
}
