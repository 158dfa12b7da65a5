use super::*;

/// Returns a world with 192.0.2.11 on eth0, a gateway, an API server, and two nodes.
fn lan() -> World {
    let mut world = World::new();
    world.node("node-a", &["192.0.2.11", "2001:db8::11"]);
    world.node("node-b", &["192.0.2.12", "203.0.113.12"]);
    let mut addresses = host("eth0", &["192.0.2.11/24", "192.0.2.60/24", "192.0.2.61/32", "192.0.2.128/25"]);
    addresses.extend(host("eth1", &["198.51.100.5/32"]));
    addresses.extend(host("eth2", &["10.9.9.9/31"]));
    addresses.extend(host("lo", &["127.0.0.1/8", "192.0.2.50/32", "198.51.100.5/32"]));
    addresses.extend(host("kube-ipvs0", &["192.0.2.51/32"]));
    addresses.extend(host("dummy0", &["10.77.0.1/24"]));
    addresses.push(HostAddress { ours: true, ..host("lo", &["192.0.2.52/32"]).remove(0) });
    let next_hops = [v4("192.0.2.1")].into();
    world.tell(Event::HostNetwork(HostNetwork { addresses, next_hops }));
    world.tell(Event::ApiEndpoints([ip("192.0.2.20"), ip("2001:db8::20")].into()));
    let nets = ["192.0.2.12/24", "192.0.2.62/24", "192.0.2.63/32", "10.5.0.0/24", "10.6.0.4/31"];
    let nets = nets.iter().map(|net| net.parse().expect("an address with a prefix length")).collect();
    world.tell(Event::NodeInterfaces { node: "node-b".into(), nets });
    world
}

#[test]
fn an_address_that_is_taken_or_cannot_be_a_vip_is_refused_with_the_reason_and_the_way_out() {
    let table = [
        ("a Node's address", "192.0.2.11", Some("it is an address of Node node-a")),
        ("another Node's, in another network", "203.0.113.12", Some("it is an address of Node node-b")),
        ("on our interface", "192.0.2.60", Some("this host has it as 192.0.2.60/24 on eth0")),
        ("bound as /32 beside other addresses", "192.0.2.61", None),
        (
            "the only kind of address on its interface",
            "198.51.100.5",
            Some("this host has it as 198.51.100.5/32 on eth1"),
        ),
        ("bound for local delivery", "192.0.2.50", None),
        ("bound by kube-proxy", "192.0.2.51", None),
        ("bound by us", "192.0.2.52", None),
        (
            "on an interface that leads to no segment",
            "10.77.0.1",
            Some("this host has it as 10.77.0.1/24 on dummy0"),
        ),
        ("broadcast of such a subnet", "10.77.0.255", None),
        ("on a node's interface", "192.0.2.62", Some("node node-b has it as 192.0.2.62/24")),
        ("bound on another node", "192.0.2.63", None),
        ("half of a point-to-point link elsewhere", "10.6.0.4", Some("node node-b has it as 10.6.0.4/31")),
        ("the other half", "10.6.0.5", None),
        ("half of a point-to-point link here", "10.9.9.9", Some("this host has it as 10.9.9.9/31 on eth2")),
        ("its other half", "10.9.9.8", None),
        ("a gateway", "192.0.2.1", Some("it is a gateway of this host (ip route show via 192.0.2.1)")),
        ("the API server", "192.0.2.20", Some("the API server is there")),
        ("network address", "192.0.2.0", Some("it is the network address of 192.0.2.0/24")),
        ("broadcast address", "192.0.2.255", Some("it is the broadcast address of 192.0.2.0/24")),
        (
            "our own, and a network address too",
            "192.0.2.128",
            Some("this host has it as 192.0.2.128/25 on eth0"),
        ),
        ("network address elsewhere", "10.5.0.0", Some("it is the network address of 10.5.0.0/24")),
        ("broadcast address elsewhere", "10.5.0.255", Some("it is the broadcast address of 10.5.0.0/24")),
        ("unspecified", "0.0.0.0", Some("it means \"this host\"")),
        ("loopback", "127.0.0.2", Some("it is a loopback address")),
        ("multicast", "224.0.0.5", Some("it is a multicast address")),
        ("limited broadcast", "255.255.255.255", Some("it is a broadcast or reserved address")),
        ("reserved", "240.0.0.1", Some("it is a broadcast or reserved address")),
        ("link-local", "169.254.1.1", Some("it is a link-local address")),
        ("any other", "192.0.2.53", None),
    ];
    for (description, address, reason) in table {
        let mut world = lan();
        world.put(service("default/web").addressed(address));
        assert_eq!(
            world.demands.contains_key(&v4(address)),
            reason.is_none(),
            "{description}: {:?}",
            world.words()
        );
        match (reason, &world.words()[..]) {
            (None, []) => {}
            (Some(reason), [told]) => {
                let words = format!(
                    "default/web: {address} (annotation vipward.io/addresses) is not announced: {reason}"
                );
                assert!(told.starts_with(&words), "{description}: {told}");
                assert!(
                    ["choose", "give", "name"].iter().any(|way_out| told.contains(way_out)),
                    "{description}: {told}"
                );
            }
            (expected, told) => panic!("{description}: {expected:?}, but {told:?}"),
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
        [
            "default/web: 192.0.2.47 (annotation vipward.io/addresses) is not announced: it is in none of the networks that \
             --allow-address permits (192.0.2.48/28, 198.51.100.0/24); choose one of those, or have its network added"
        ]
    );
}

#[test]
fn a_status_full_of_node_addresses_is_refused_as_a_whole() {
    let mut world = lan();
    world.put(service("kube-system/traefik").status("k3s", &["192.0.2.11", "192.0.2.12"]));
    assert!(world.demands.is_empty());
    let words = world.words();
    assert_eq!(words.len(), 2);
    for (told, node) in words.iter().zip(["node-a", "node-b"]) {
        assert!(told.contains(&format!(
            "(status.loadBalancer.ingress) is not announced: it is an address of Node {node}"
        )));
        assert!(told.contains("ServiceLB"), "{told}");
    }
}

#[test]
fn a_vip_leaves_when_its_address_is_taken_and_comes_back_when_it_is_free() {
    let at = |addresses: Vec<HostAddress>, hops: &[&str]| {
        let next_hops = hops.iter().map(|hop| v4(hop)).collect();
        Event::HostNetwork(HostNetwork { addresses, next_hops })
    };
    let node = |address: &str| Event::NodeAddresses { node: "node-c".into(), addresses: vec![ip(address)] };
    let interfaces = |net: &str| Event::NodeInterfaces {
        node: "node-c".into(),
        nets: vec![net.parse().expect("an address with a prefix length")],
    };
    let table = [
        ("a node has it", node("192.0.2.7"), node("192.0.2.8")),
        ("a node has it, and goes", node("192.0.2.7"), Event::NodeGone("node-c".into())),
        ("a node's interface has it", interfaces("192.0.2.7/24"), interfaces("192.0.2.9/24")),
        ("a node's interface has it, and goes", interfaces("192.0.2.7/24"), Event::NodeGone("node-c".into())),
        ("our interface gets it", at(host("eth0", &["192.0.2.7/24"]), &[]), at(Vec::new(), &[])),
        ("it becomes a broadcast address", at(host("eth0", &["192.0.2.5/29"]), &[]), at(Vec::new(), &[])),
        ("it becomes a gateway", at(Vec::new(), &["192.0.2.7"]), at(Vec::new(), &["192.0.2.1"])),
        (
            "the API server moves there",
            Event::ApiEndpoints([ip("192.0.2.7")].into()),
            Event::ApiEndpoints(BTreeSet::new()),
        ),
    ];
    for (description, taken, free) in table {
        let mut world = World::new();
        world.put(service("a/web").addressed("192.0.2.7"));
        world.put(service("a/other").addressed("192.0.2.70"));
        world.tell(taken.clone());
        assert_eq!(world.vips(), ["192.0.2.70"], "{description}");
        assert_eq!(world.problems.len(), 1, "{description}");
        assert_eq!(world.tell(taken), [], "{description}: no news");
        world.tell(free);
        assert_eq!(world.vips(), ["192.0.2.7", "192.0.2.70"], "{description}");
        assert_eq!(world.problems, [], "{description}");
    }
}

#[test]
fn an_address_is_free_when_the_last_reason_against_it_is_gone() {
    let mut world = World::new();
    world.put(service("a/web").addressed("192.0.2.7"));
    world.node("node-a", &["192.0.2.7"]);
    world.node("node-b", &["192.0.2.7"]);
    world.tell(Event::ApiEndpoints([ip("192.0.2.7")].into()));
    world.tell(Event::NodeGone("node-a".into()));
    assert!(world.words()[0].contains("Node node-b"), "{:?}", world.words());
    world.tell(Event::NodeGone("node-b".into()));
    assert!(world.words()[0].contains("the API server"), "{:?}", world.words());
    world.tell(Event::ApiEndpoints(BTreeSet::new()));
    assert_eq!(world.vips(), ["192.0.2.7"]);
}
