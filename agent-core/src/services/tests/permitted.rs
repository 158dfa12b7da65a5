use super::*;

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

fn dns() -> ServiceRecord {
    let cluster_ips = vec![ip("192.0.2.40"), ip("2001:db8::40")];
    ServiceRecord { load_balancer: false, cluster_ips, ..service("kube-system/dns") }
}

/// Returns a world whose segment contains networks of Pods and Services.
fn cluster(settings: Settings) -> World {
    let mut world = World::with(settings);
    world.put(dns());
    world.notify(Event::NodeAddresses {
        node: "node-a".into(),
        labels: BTreeMap::new(),
        addresses: vec![ip("192.0.2.11")],
        pod_cidrs: ["192.0.2.64/28", "2001:db8::64:0/112"]
            .map(|net| net.parse().expect("a network"))
            .to_vec(),
    });
    let nets = ["192.0.2.96/28", "2001:db8::96:0/112"].map(|net| net.parse().expect("a network")).to_vec();
    world.notify(Event::ServiceCidr { name: "kubernetes".into(), nets });
    world
}

#[test]
fn addresses_inside_of_the_cluster_are_refused_wherever_a_service_names_them() {
    let table = [
        ("192.0.2.40", Some("it is the ClusterIP of Service kube-system/dns")),
        ("2001:db8::40", Some("it is the ClusterIP of Service kube-system/dns")),
        ("2001:db8::64:1", Some("it is in 2001:db8::64:0/112, the network of the Pods on node node-a")),
        (
            "2001:db8::96:1",
            Some("it is in 2001:db8::96:0/112, where the ClusterIPs are (ServiceCIDR kubernetes)"),
        ),
        ("2001:db8::63", None),
        ("192.0.2.63", None),
        ("192.0.2.64", Some("it is in 192.0.2.64/28, the network of the Pods on node node-a")),
        ("192.0.2.79", Some("it is in 192.0.2.64/28, the network of the Pods on node node-a")),
        ("192.0.2.80", None),
        ("192.0.2.96", Some("it is in 192.0.2.96/28, where the ClusterIPs are (ServiceCIDR kubernetes)")),
        ("192.0.2.112", None),
        ("192.0.2.200", Some("it is in 192.0.2.200/30, which --refuse-address excludes")),
        ("192.0.2.204", None),
    ];
    let settings =
        Settings { external_ips: true, refuse: vec![net("192.0.2.200/30")], ..Settings::default() };
    for (address, reason) in table {
        let mut spec = service("default/spec");
        spec.load_balancer_ip = Some(address.into());
        let mut external = service("default/external");
        external.external_ips = vec![ip(address)];
        let records = [
            ("annotation vipward.io/addresses", service("default/annotated").addressed(address)),
            ("spec.loadBalancerIP", spec),
            ("spec.externalIPs", external),
            ("status.loadBalancer.ingress", service("default/status").status("controller", &[address])),
        ];
        for (place, record) in records {
            let mut world = cluster(settings.clone());
            let name = record.name.clone();
            world.put(record);
            world.problems.retain(|(_, problem)| *problem != Problem::ExternalIps);
            assert_eq!(world.demands.contains_key(&ip(address)), reason.is_none(), "{place}: {address}");
            let notified = world.words();
            match reason {
                None => assert_eq!(notified, [""; 0], "{place}: {address}"),
                Some(reason) => {
                    let words = format!("{name}: {address} ({place}) is not announced: {reason}");
                    assert!(notified.len() == 1 && notified[0].starts_with(&words), "{words}: {notified:?}");
                }
            }
        }
    }
}

#[test]
fn an_address_is_free_again_when_the_cluster_has_it_no_more() {
    let mut world = cluster(Settings::default());
    world.put(service("default/web").addressed("192.0.2.40,192.0.2.65,192.0.2.97"));
    assert_eq!(world.demands, BTreeMap::new());
    world.notify(Event::ServiceGone(named("kube-system/dns")));
    assert_eq!(world.vips(), ["192.0.2.40"]);
    world.notify(Event::ServiceCidr { name: "kubernetes".into(), nets: Vec::new() });
    assert_eq!(world.vips(), ["192.0.2.40", "192.0.2.97"]);
    world.notify(Event::NodeGone("node-a".into()));
    assert_eq!(world.vips(), ["192.0.2.40", "192.0.2.65", "192.0.2.97"]);
    // A ClusterIP that appears later withdraws no VIP that has had a holder.
    world.claim("192.0.2.40", true, false);
    world.put(dns());
    assert_eq!(world.vips(), ["192.0.2.40", "192.0.2.65", "192.0.2.97"]);
    assert!(
        world.words()[0].starts_with("default/web: VIP 192.0.2.40 stays announced"),
        "{:?}",
        world.words()
    );
}

#[test]
fn users_get_addresses_of_the_segments_and_other_controllers_and_admins_give_others() {
    let everywhere = || Settings { allow: vec![net("0.0.0.0/0")], ..Settings::default() };
    let refusal = "default/web: 1.1.1.1 (annotation vipward.io/addresses) is not announced: it is in no subnet of an \
                   interface on which a node announces; choose one from there, or have an admin permit its network \
                   (--allow-address)";
    let hostile = || {
        let asked = [("vipward.io/addresses", "1.1.1.1,192.0.2.7"), ("vipward.io/interface", "*")];
        service("default/web").annotated(&asked)
    };
    let mut world = World::new();
    world.put(hostile());
    assert_eq!((world.vips(), world.words()), (vec!["192.0.2.7".to_owned()], vec![refusal.to_owned()]));
    let mut world = World::with(everywhere());
    world.put(hostile());
    assert_eq!(world.vips(), ["1.1.1.1", "192.0.2.7"]);
    let mut world = World::new();
    world.put(service("default/web").status("controller", &["1.1.1.1"]));
    assert_eq!(world.vips(), ["1.1.1.1"]);
    // A VIP that has had a holder stays when the last node of its segment goes.
    let mut world = World::new();
    world.put(hostile());
    world.claim("192.0.2.7", true, false);
    world.notify(Event::NodeGone("node-z".into()));
    assert_eq!(world.vips(), ["192.0.2.7"]);
    // The subnets of this host count too.
    world.notify(Event::HostNetwork(network(host("eth0", &["1.1.1.9/28"]), &[])));
    assert_eq!(world.vips(), ["1.1.1.1", "192.0.2.7"]);
    world.notify(Event::HostNetwork(network(host("dummy0", &["1.1.1.9/28"]), &[])));
    assert_eq!(world.vips(), ["192.0.2.7"], "no segment is there");
}

#[test]
fn a_status_names_only_addresses_of_segments_and_those_that_were_held() {
    let allow = vec![net("0.0.0.0/0")];
    let mut world = World::with(Settings { allow, ..Settings::default() });
    let name = named("default/web");
    let written = |addresses: &[&str]| Command::WriteIngress {
        service: named("default/web"),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
    };
    world.put(service("default/web").addressed("192.0.2.10,8.8.8.8,192.0.2.11"));
    world.hold("192.0.2.10", true);
    assert_eq!(world.duties.get(&name), Some(&written(&["192.0.2.10", "192.0.2.11"])));
    // Another node takes it.
    world.claim("8.8.8.8", true, false);
    assert_eq!(world.duties.get(&name), Some(&written(&["192.0.2.10", "8.8.8.8", "192.0.2.11"])));
    world.put(service("default/web").addressed("192.0.2.10,9.9.9.9"));
    assert_eq!(world.duties.get(&name), Some(&written(&["192.0.2.10"])));
    world.hold("9.9.9.9", true);
    assert_eq!(world.duties.get(&name), Some(&written(&["192.0.2.10", "9.9.9.9"])));
}

#[test]
fn a_service_has_its_first_sixteen_addresses() {
    let list = |from: u16, count: u16| {
        (from..from + count).map(|last| format!("192.0.2.{last}")).collect::<Vec<_>>().join(",")
    };
    let with = |text: String| {
        let mut record = service("default/web");
        record.annotations.addresses = Some(text.into());
        record
    };
    let mut world = World::new();
    world.put(with(list(10, 16)));
    assert_eq!((world.demands.len(), world.words()), (16, Vec::new()));
    world.put(with(list(10, 17)));
    assert_eq!(world.demands.len(), 16);
    let notified = "default/web: it requests 17 addresses, and a Service may have 16 (--max-addresses): only the \
                first of them are announced; give the others to further Services";
    assert_eq!(world.words(), [notified]);
    world.put(with(format!("{},{}", list(10, 16), list(10, 16))));
    assert_eq!((world.demands.len(), world.words()), (16, Vec::new()), "each address counts once");
    // Addresses of IPv6 count, and so do external IPs.
    let settings = Settings { external_ips: true, most_addresses: 3, ..Settings::default() };
    let mut world = World::with(settings);
    let external_ips = vec![ip("192.0.2.30"), ip("192.0.2.31")];
    world.put(ServiceRecord { external_ips, ..with("2001:db8::1, 192.0.2.10".to_owned()) });
    assert_eq!(world.vips(), ["192.0.2.10", "192.0.2.30", "2001:db8::1"]);
    let words = world.words();
    assert_eq!(words.len(), 2, "{words:?}");
    assert!(words[1].starts_with("default/web: spec.externalIPs is deprecated"), "{words:?}");
}

#[test]
fn a_namespace_has_as_many_vips_as_it_may_and_keeps_those_that_were_held() {
    let mut world = World::with(Settings { most_vips: Some(2), ..Settings::default() });
    let beyond = |name: &str, address: &str| {
        format!(
            "{name}: {address} (annotation vipward.io/addresses) is not announced: its namespace has 2 \
             VIPs, and may have no more (--max-vips-per-namespace); remove one, or have an admin raise the \
             limit"
        )
    };
    world.put(service("x/new").addressed("192.0.2.3,192.0.2.4").created(3));
    world.put(service("y/web").addressed("192.0.2.9").created(9));
    assert_eq!(world.vips(), ["192.0.2.3", "192.0.2.4", "192.0.2.9"]);
    // The oldest Service comes first, and a VIP with a holder before all.
    world.put(service("x/old").addressed("192.0.2.5").created(1));
    assert_eq!(world.vips(), ["192.0.2.3", "192.0.2.5", "192.0.2.9"]);
    world.claim("192.0.2.4", true, false);
    assert_eq!(world.vips(), ["192.0.2.4", "192.0.2.5", "192.0.2.9"]);
    assert_eq!(world.words(), [beyond("x/new", "192.0.2.3")]);
    world.claim("192.0.2.3", true, false);
    assert_eq!(world.vips(), ["192.0.2.3", "192.0.2.4", "192.0.2.9"]);
    assert_eq!(world.words(), [beyond("x/old", "192.0.2.5")]);
    // An address beyond the limit of one namespace is free for another.
    world.put(service("z/web").addressed("192.0.2.5").created(8));
    assert_eq!(world.demand("192.0.2.5").services, [named("z/web")]);
    world.notify(Event::ServiceGone(named("z/web")));
    world.put(service("x/new").addressed("192.0.2.4").created(3));
    assert_eq!(
        (world.vips(), world.words()),
        (vec!["192.0.2.4".into(), "192.0.2.5".into(), "192.0.2.9".into()], vec![])
    );
}

#[test]
fn very_many_addresses_make_a_short_message() {
    let many = (0_u16..20_000).map(|number| {
        let [high, low] = number.to_be_bytes();
        format!("10.0.{high}.{low}")
    });
    let mut asked = service("default/web");
    asked.annotations.addresses = Some(many.collect::<Vec<_>>().join(",").into());
    let ingress = vec![Ingress { ip: Some(ip("192.0.2.8")), mode: IpMode::Vip }; 20_000];
    for record in [ServiceRecord { ingress, ..asked.clone() }, asked] {
        let mut world = World::new();
        world.put(record);
        let notified = world.words();
        assert!(!notified.is_empty());
        assert!(notified.iter().all(|notified| notified.chars().count() < 1_500), "{notified:?}");
    }
}
