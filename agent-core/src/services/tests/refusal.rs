use std::time::Duration;

use super::*;

/// Returns a world with 192.0.2.11 on eth0, a gateway, an API server, and two nodes.
fn lan() -> World {
    let mut world = World::new();
    world.node("node-a", &["192.0.2.11", "2001:db8::11"]);
    world.node("node-b", &["192.0.2.12", "203.0.113.12"]);
    let mut addresses = host("eth0", &["192.0.2.11/24", "192.0.2.60/24", "192.0.2.61/32", "192.0.2.128/25"]);
    addresses.extend(host("eth0", &["2001:db8::60/64", "2001:db8::61/128", "fd00:0:0:1::5/127"]));
    addresses.extend(host("lo", &["::1/128", "2001:db8::50/128"]));
    addresses.extend(host("eth1", &["198.51.100.5/32"]));
    addresses.extend(host("eth2", &["10.9.9.9/31"]));
    addresses.extend(host("lo", &["127.0.0.1/8", "192.0.2.50/32", "198.51.100.5/32"]));
    addresses.extend(host("kube-ipvs0", &["192.0.2.51/32"]));
    addresses.extend(host("dummy0", &["10.77.0.1/24"]));
    let name_servers = [ip("192.0.2.2"), ip("2001:db8::2")].into();
    world.notify(Event::HostNetwork(HostNetwork {
        name_servers,
        ..network(addresses, &["192.0.2.1", "2001:db8::1"])
    }));
    world.notify(api_servers(&["192.0.2.20", "2001:db8::20"]));
    let mut eth0 = interface(&[
        "192.0.2.12/24",
        "192.0.2.62/24",
        "10.5.0.0/24",
        "10.6.0.4/31",
        "10.7.0.9/32",
        "2001:db8:5::62/64",
    ]);
    eth0.bound = vec![ip("192.0.2.63"), ip("2001:db8::63")];
    eth0.gateways = vec![ip("192.0.2.3"), ip("2001:db8::3")];
    world.notify(on_node("node-b", eth0));
    world
}

#[test]
fn an_address_that_is_taken_or_cannot_be_a_vip_is_refused_with_the_reason_and_the_way_out() {
    let table = [
        ("a Node's address", "192.0.2.11", "it is an address of Node node-a"),
        ("another Node's, in another network", "203.0.113.12", "it is an address of Node node-b"),
        ("on our interface", "192.0.2.60", "node node-a has it as 192.0.2.60/24 on eth0"),
        (
            "another program's VIP on a segment's interface",
            "192.0.2.61",
            "node node-a has it as 192.0.2.61/32 on eth0",
        ),
        (
            "the only kind of address on its interface",
            "198.51.100.5",
            "node node-a has it as 198.51.100.5/32 on eth1",
        ),
        ("bound for local delivery", "192.0.2.50", ""),
        ("bound by kube-proxy", "192.0.2.51", ""),
        (
            "on an interface that leads to no segment",
            "10.77.0.1",
            "node node-a has it as 10.77.0.1/24 on dummy0",
        ),
        ("broadcast of such a subnet", "10.77.0.255", "it is in no subnet of an interface"),
        ("on a node's interface", "192.0.2.62", "node node-b has it as 192.0.2.62/24 on eth0"),
        (
            "another program's VIP on another node",
            "192.0.2.63",
            "node node-b has it as 192.0.2.63/32 on eth0",
        ),
        ("a route to one host elsewhere", "10.7.0.9", "it is in no subnet of an interface"),
        ("half of a point-to-point link elsewhere", "10.6.0.4", "node node-b has it as 10.6.0.4/31 on eth0"),
        ("the other half", "10.6.0.5", ""),
        ("half of a point-to-point link here", "10.9.9.9", "node node-a has it as 10.9.9.9/31 on eth2"),
        ("its other half", "10.9.9.8", ""),
        ("a gateway", "192.0.2.1", "it is a gateway of this host (ip route show table all via 192.0.2.1)"),
        (
            "a gateway of another node",
            "192.0.2.3",
            "it is a gateway of node node-b (ip route show table all via 192.0.2.3)",
        ),
        ("a DNS server", "192.0.2.2", "it is a DNS server of this host"),
        ("the API server", "192.0.2.20", "the API server is there"),
        ("network address", "192.0.2.0", "it is the network address of 192.0.2.0/24"),
        ("broadcast address", "192.0.2.255", "it is the broadcast address of 192.0.2.0/24"),
        ("our own, and a network address too", "192.0.2.128", "node node-a has it as 192.0.2.128/25 on eth0"),
        ("network address elsewhere", "10.5.0.0", "it is the network address of 10.5.0.0/24"),
        ("broadcast address elsewhere", "10.5.0.255", "it is the broadcast address of 10.5.0.0/24"),
        ("unspecified", "0.0.0.0", "it means \"this host\""),
        ("loopback", "127.0.0.2", "it is a loopback address"),
        ("multicast", "224.0.0.5", "it is a multicast address"),
        ("limited broadcast", "255.255.255.255", "it is a broadcast or reserved address"),
        ("reserved", "240.0.0.1", "it is a broadcast or reserved address"),
        ("link-local", "169.254.1.1", "it is a link-local address"),
        ("any other", "192.0.2.53", ""),
    ];
    each_is_refused(&table);
}

#[test]
fn an_ipv6_address_that_is_taken_or_cannot_be_a_vip_is_refused_too() {
    let table = [
        ("a Node's address of IPv6", "2001:db8::11", "it is an address of Node node-a"),
        ("on our interface, of IPv6", "2001:db8::60", "node node-a has it as 2001:db8::60/64 on eth0"),
        (
            "another program's VIP of IPv6 on a segment's interface",
            "2001:db8::61",
            "node node-a has it as 2001:db8::61/128 on eth0",
        ),
        ("bound for local delivery, of IPv6", "2001:db8::50", ""),
        (
            "on a node's interface, of IPv6",
            "2001:db8:5::62",
            "node node-b has it as 2001:db8:5::62/64 on eth0",
        ),
        (
            "another program's VIP of IPv6 on another node",
            "2001:db8::63",
            "node node-b has it as 2001:db8::63/128 on eth0",
        ),
        (
            "half of a point-to-point link of IPv6",
            "fd00:0:0:1::5",
            "node node-a has it as fd00:0:0:1::5/127 on eth0",
        ),
        ("its other half, a ULA", "fd00:0:0:1::4", ""),
        (
            "a gateway of IPv6",
            "2001:db8::1",
            "it is a gateway of this host (ip route show table all via 2001:db8::1)",
        ),
        (
            "a gateway of IPv6 of another node",
            "2001:db8::3",
            "it is a gateway of node node-b (ip route show table all via 2001:db8::3)",
        ),
        ("a DNS server of IPv6", "2001:db8::2", "it is a DNS server of this host"),
        ("the API server, by IPv6", "2001:db8::20", "the API server is there"),
        ("all routers of a subnet", "2001:db8::", "it is the address of all routers of 2001:db8::/64"),
        ("all routers elsewhere", "2001:db8:5::", "it is the address of all routers of 2001:db8:5::/64"),
        ("the last address of IPv6", "2001:db8::ffff:ffff:ffff:ffff", ""),
        ("unspecified, of IPv6", "::", "it means \"this host\""),
        ("loopback, of IPv6", "::1", "it is a loopback address"),
        ("multicast, of IPv6", "ff02::1:ff00:1", "it is a multicast address"),
        ("link-local, of IPv6", "fe80::1", "it is a link-local address"),
        ("IPv4 in IPv6", "::ffff:192.0.2.10", "it is an IPv4 address in an IPv6 address"),
        ("of IPv6 in no subnet", "2001:db8:9::1", "it is in no subnet of an interface"),
        ("any other of IPv6", "2001:db8::53", ""),
    ];
    each_is_refused(&table);
}

/// Checks that a Service's address is refused for the reason of its row, or served.
fn each_is_refused(table: &[(&str, &'static str, &str)]) {
    for (description, address, reason) in table.iter().copied() {
        let mut world = lan();
        world.put(service("default/web").addressed(address));
        assert_eq!(
            world.demands.contains_key(&ip(address)),
            reason.is_empty(),
            "{description}: {:?}",
            world.words()
        );
        match (reason, &world.words()[..]) {
            ("", []) => {}
            (reason, [notified]) if !reason.is_empty() => {
                let words = format!(
                    "default/web: {address} (annotation vipward.io/addresses) is not announced: {reason}"
                );
                assert!(notified.starts_with(&words), "{description}: {notified}");
                assert!(
                    ["choose", "give", "name", "write"].iter().any(|way_out| notified.contains(way_out)),
                    "{description}: {notified}"
                );
            }
            (expected, notified) => panic!("{description}: {expected:?}, but {notified:?}"),
        }
    }
}

#[test]
fn only_addresses_that_are_allowed_are_announced() {
    let allow = ["192.0.2.48/28", "198.51.100.0/24"].map(|net| net.parse().expect("a network")).to_vec();
    let mut world = World::with(Settings { allow, ..Settings::default() });
    world.put(service("default/web").addressed("192.0.2.47,192.0.2.48,198.51.100.7"));
    assert_eq!(world.vips(), ["192.0.2.48", "198.51.100.7"]);
    assert_eq!(
        world.words(),
        ["default/web: 192.0.2.47 (annotation vipward.io/addresses) is not announced: it is in none of \
          the networks that --allow-address permits (192.0.2.48/28, 198.51.100.0/24); choose one of \
          those, or have its network added"]
    );
}

#[test]
fn a_status_full_of_node_addresses_is_refused_as_a_whole() {
    let mut world = lan();
    world.put(service("kube-system/traefik").status("k3s", &["192.0.2.11", "192.0.2.12"]));
    assert!(world.demands.is_empty());
    let words = world.words();
    assert_eq!(words.len(), 2);
    for (notified, node) in words.iter().zip(["node-a", "node-b"]) {
        assert!(notified.contains(&format!(
            "(status.loadBalancer.ingress) is not announced: it is an address of Node {node}"
        )));
        assert!(notified.contains("ServiceLB"), "{notified}");
    }
}

#[test]
fn a_vip_leaves_when_its_address_is_taken_and_comes_back_when_it_is_free() {
    let at = |addresses: Vec<HostAddress>, hops: &[&str]| Event::HostNetwork(network(addresses, hops));
    let node = |address: &str| node_at("node-c", &[address]);
    let interfaces = |net: &str| on_node("node-c", interface(&[net]));
    let bound = |bound: Option<&str>| {
        on_node("node-c", NodeInterface { bound: bound.map(ip).into_iter().collect(), ..interface(&[]) })
    };
    let table = [
        ("a node's interface has it as /32", bound(Some("192.0.2.7")), bound(None)),
        ("our interface gets it as /32", at(host("eth0", &["192.0.2.7/32"]), &[]), at(Vec::new(), &[])),
        ("a node has it", node("192.0.2.7"), node("192.0.2.8")),
        ("a node has it, and goes", node("192.0.2.7"), Event::NodeGone("node-c".into())),
        ("a node's interface has it", interfaces("192.0.2.7/24"), interfaces("192.0.2.9/24")),
        ("a node's interface has it, and goes", interfaces("192.0.2.7/24"), Event::NodeGone("node-c".into())),
        (
            "the Lease of a node without a Node has it, and goes",
            interfaces("192.0.2.7/24"),
            Event::LeaseGone("node-c".into()),
        ),
        ("our interface gets it", at(host("eth0", &["192.0.2.7/24"]), &[]), at(Vec::new(), &[])),
        ("it becomes a broadcast address", at(host("eth0", &["192.0.2.5/29"]), &[]), at(Vec::new(), &[])),
        ("it becomes a gateway", at(Vec::new(), &["192.0.2.7"]), at(Vec::new(), &["192.0.2.1"])),
        ("the API server moves there", api_servers(&["192.0.2.7"]), api_servers(&[])),
    ];
    for (description, taken, free) in table {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.put(service("a/other").addressed("192.0.2.70"));
        world.notify(taken.clone());
        assert_eq!(world.vips(), ["192.0.2.70"], "{description}");
        assert_eq!(world.problems.len(), 1, "{description}");
        assert_eq!(world.notify(taken), [], "{description}: no news");
        world.notify(free);
        assert_eq!(world.vips(), ["192.0.2.7", "192.0.2.70"], "{description}");
        assert_eq!(world.problems, [], "{description}");
    }
}

#[test]
fn a_lease_that_another_node_wrote_frees_no_address_of_a_node_whose_node_stands() {
    let of = |interfaces: &[&str], session| {
        let interfaces = interfaces.iter().map(|net| interface(&[net])).collect();
        Event::NodeInterfaces { node: "node-c".into(), interfaces, session }
    };
    for (what, has_node, lease, is_free) in [
        ("another node wrote it", true, of(&[], None), false),
        ("its own, without an interface", true, of(&[], Some(session(1))), true),
        ("its own, with another address", true, of(&["192.0.2.9/24"], None), true),
        ("there is no Node", false, of(&[], None), true),
        ("the Lease is gone", true, Event::LeaseGone("node-c".into()), false),
    ] {
        let mut world = World::new();
        if has_node {
            world.notify(node_at("node-c", &["192.0.2.3"]));
        }
        world.notify(of(&["192.0.2.7/24"], Some(session(1))));
        world.put(service("a/web").addressed("192.0.2.7"));
        assert_eq!(world.vips(), [""; 0], "{what}");
        world.notify(lease);
        assert_eq!(!world.vips().is_empty(), is_free, "{what}");
    }
}

fn api_servers(addresses: &[&str]) -> Event {
    let addresses = addresses.iter().map(|address| ip(address)).collect();
    Event::ApiServers { slice: Some("kubernetes".into()), addresses }
}

#[test]
fn an_address_is_free_when_the_last_reason_against_it_is_gone() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7"));
    world.node("node-a", &["192.0.2.7"]);
    world.node("node-b", &["192.0.2.7"]);
    world.notify(api_servers(&["192.0.2.7"]));
    world.notify(Event::ApiServers { slice: None, addresses: vec![ip("192.0.2.7")] });
    world.notify(Event::NodeGone("node-a".into()));
    assert!(world.words()[0].contains("Node node-b"), "{:?}", world.words());
    world.notify(Event::NodeGone("node-b".into()));
    assert!(world.words()[0].contains("the API server"), "{:?}", world.words());
    world.notify(api_servers(&[]));
    assert!(world.words()[0].contains("the API server"), "{:?}", world.words());
    world.notify(Event::ApiServers { slice: None, addresses: Vec::new() });
    assert_eq!(world.vips(), ["192.0.2.7"]);
}

/// Returns each other use of the address 192.0.2.7, with its text and its end.
fn needs() -> Vec<(Event, &'static str, Event)> {
    let at = |addresses: Vec<HostAddress>, hops: &[&str]| Event::HostNetwork(network(addresses, hops));
    let resolver = HostNetwork { name_servers: [ip("192.0.2.7")].into(), ..network(Vec::new(), &[]) };
    let elsewhere = |interface| on_node("node-c", interface);
    let free = || elsewhere(interface(&["192.0.2.9/24"]));
    let gateway = NodeInterface { gateways: vec![ip("192.0.2.7")], ..interface(&[]) };
    let bound = NodeInterface { bound: vec![ip("192.0.2.7")], ..interface(&[]) };
    let beside = NodeInterface { subnets: interface(&["192.0.2.9/24"]).subnets, ..bound.clone() };
    vec![
        (
            elsewhere(interface(&["192.0.2.7/24"])),
            "192.0.2.7 is node node-c's own address: choose another VIP",
            free(),
        ),
        (
            elsewhere(beside),
            "node node-c has it as 192.0.2.7/32 on eth0 too; choose another VIP, or remove it there (ip \
            address del 192.0.2.7/32 dev eth0)",
            free(),
        ),
        (elsewhere(bound), "192.0.2.7 is node node-c's own address", free()),
        (elsewhere(interface(&["192.0.2.0/29"])), "the first or last address of 192.0.2.0/29", free()),
        (elsewhere(gateway), "node node-c routes through it", free()),
        (at(host("eth0", &["192.0.2.7/24"]), &[]), "node node-a has it as 192.0.2.7/24", at(Vec::new(), &[])),
        (at(host("eth0", &["192.0.2.7/32"]), &[]), "dev eth0", at(Vec::new(), &[])),
        (at(Vec::new(), &["192.0.2.7"]), "this host routes through it", at(Vec::new(), &[])),
        (Event::HostNetwork(resolver), "/etc/resolv.conf", at(Vec::new(), &[])),
        (node_at("node-c", &["192.0.2.7"]), "Node node-c lists it", node_at("node-c", &[])),
        (api_servers(&["192.0.2.7"]), "API server", api_servers(&[])),
    ]
}

#[test]
fn what_is_learnt_later_withdraws_no_vip_that_a_node_holds_and_is_a_conflict() {
    for (need, words, over) in needs() {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.claim("192.0.2.7", true, false);
        // What this node needs to read the claim counts more than that another node holds the VIP.
        world.hold("192.0.2.7", words.contains("API server"));
        let demand = world.demand("192.0.2.7").clone();
        let notified = world.notify(need.clone());
        assert!(
            !notified.iter().any(|command| matches!(command, Command::Demand(..))),
            "{words}: {notified:?}"
        );
        assert_eq!(*world.demand("192.0.2.7"), demand, "{words}");
        let [problem] = &world.words()[..] else { panic!("{words}: {:?}", world.words()) };
        assert!(problem.contains("stays announced and is defended") && problem.contains(words), "{problem}");
        let about = world.index().conflict_about(ip("192.0.2.7"));
        assert!(about.is_some_and(|about| about.contains(words)), "{words}");

        let notified = world.notify(over);
        assert!(matches!(notified[..], [Command::ProblemOver { .. }]), "{words}: {notified:?}");
        assert_eq!(world.index().conflict_about(ip("192.0.2.7")), None);

        // The VIP has had no holder yet, or its claim is gone and no node holds it.
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.notify(need);
        assert_eq!(world.vips(), [""; 0], "{words}");
    }
}

#[test]
fn a_vip_whose_claim_was_deleted_by_hand_is_kept_until_no_service_wants_it() {
    let vip = ip("192.0.2.7");
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7"));
    world.claim("192.0.2.7", true, false);
    let taken = on_node("node-c", interface(&["192.0.2.7/24"]));
    world.notify(taken);
    assert_eq!(world.notify(Event::ClaimGone(vip)), [], "its holder writes it again");
    assert_eq!(world.vips(), ["192.0.2.7"]);
    world.put(service("a/web").addressed("192.0.2.8"));
    world.put(service("a/web").addressed("192.0.2.7"));
    assert_eq!(world.vips(), [""; 0], "no Service wanted it for a moment");
}

#[test]
fn a_vip_that_is_found_held_is_kept_until_this_node_has_had_time_to_take_it_back() {
    for (is_held, role) in [(true, "held"), (false, "guarded")] {
        let mut world = World::unsynced(Role::Alone, Settings::default());
        world.notify(Event::Behind(true));
        world.notify(Event::Found([(ip("192.0.2.7"), is_held)].into()));
        world.put(service("a/web").addressed("192.0.2.7"));
        world.notify(on_node("node-c", interface(&["192.0.2.7/24"])));
        world.notify(Event::Synced);
        let kept: &[&str] = if is_held { &["192.0.2.7"] } else { &[] };
        assert_eq!(world.vips(), kept, "{role}");
        let start = Monotonic::default();
        world.pass(start);
        assert_eq!(world.vips(), kept, "{role}");
        world.pass(start + Duration::from_secs(10));
        assert_eq!(world.vips(), [""; 0], "{role}, and not taken back");
    }
}

#[test]
fn a_vip_that_this_node_holds_is_kept_before_its_claim_is_seen() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7"));
    world.hold("192.0.2.7", true);
    world.notify(on_node("node-c", interface(&["192.0.2.7/24"])));
    world.hold("192.0.2.7", false);
    assert_eq!(world.vips(), ["192.0.2.7"]);
}

#[test]
fn force_on_the_claim_takes_another_programs_vip_and_no_address_that_a_host_needs() {
    for (need, words, _) in needs() {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.notify(need);
        world.claim("192.0.2.7", false, true);
        let is_bound = words.contains("/32") || words == "dev eth0";
        assert_eq!(world.demands.contains_key(&ip("192.0.2.7")), is_bound, "{words}: {:?}", world.words());
        if is_bound {
            assert!(world.demand("192.0.2.7").force, "it is taken without a probe");
            // A host that needs the address counts more.
            world.node("node-d", &["192.0.2.7"]);
            assert_eq!(world.vips(), [""; 0]);
        }
    }
}

#[test]
fn force_takes_no_address_that_is_also_a_gateways_or_a_name_servers() {
    let vip = ip("192.0.2.7");
    let bound = host("eth0", &["192.0.2.11/24", "192.0.2.7/32"]);
    let mut eth0 = interface(&["192.0.2.12/24"]);
    (eth0.bound, eth0.gateways) = (vec![vip], vec![vip]);
    let name_servers = [vip].into();
    let needs = [
        Event::HostNetwork(network(bound.clone(), &["192.0.2.7"])),
        Event::HostNetwork(HostNetwork { name_servers, ..network(bound, &[]) }),
        on_node("node-b", eth0),
    ];
    for need in needs {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.notify(need.clone());
        world.claim("192.0.2.7", false, true);
        assert_eq!(world.vips(), [""; 0], "{need:?}");
    }
}

#[test]
fn force_on_a_service_has_no_effect_and_is_reported_with_the_place_for_it() {
    let mut world = World::new();
    let forced = [("vipward.io/addresses", "192.0.2.7"), ("vipward.io/force", "true")];
    world.put(service("a/web").annotated(&forced));
    assert!(!world.demand("192.0.2.7").force);
    let [notified] = &world.words()[..] else { panic!("{:?}", world.words()) };
    assert!(notified.contains("kubectl annotate virtualip NAME vipward.io/force=true"), "{notified}");
    world.put(service("a/web").addressed("192.0.2.7"));
    assert_eq!(world.words(), [""; 0]);
}

#[test]
fn a_vip_that_is_held_leaves_when_its_address_is_no_longer_allowed() {
    let allow = vec!["192.0.2.48/28".parse().expect("a network")];
    let mut world = World::with(Settings { allow, ..Settings::default() });
    world.put(service("a/web").addressed("192.0.2.7"));
    world.claim("192.0.2.7", true, true);
    assert_eq!(world.vips(), [""; 0], "it is not learnt, but configured");
}

/// An Event names the uid of its Service.
#[test]
fn the_problems_of_a_service_begin_anew_for_another_one_of_its_name() {
    let table = [
        ("of its own value", service("b/web").addressed("nonsense")),
        ("of a VIP of another Service", service("b/web").addressed("192.0.2.7")),
    ];
    for (about, record) in table {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.put(record.clone());
        let words = world.words();
        assert_eq!(words.len(), 1, "{about}");
        let notified = world.put(ServiceRecord { uid: "2".into(), ..record });
        let is_problem =
            |command: &&Command| matches!(command, Command::Report { .. } | Command::ProblemOver { .. });
        let notified: Vec<_> = notified.iter().filter(is_problem).collect();
        let is_anew = matches!(notified[..], [Command::ProblemOver { .. }, Command::Report { .. }]);
        assert!(is_anew && world.words() == words, "{about}: {notified:?}");
    }
}
