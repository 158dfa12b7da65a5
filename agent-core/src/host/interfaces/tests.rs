use vipward_common::MacAddr;

use super::*;
use crate::config::Config;

struct Host(NetView);

impl Host {
    /// Returns a host with a NIC, a NIC that is down, a bond of two, a bridge over a NIC,
    /// containers, a tunnel, a VRF, and an interface without a MAC.
    fn new() -> Self {
        let mut host = Self(NetView::default());
        host.add(1, "lo", |it| {
            it.loopback = true;
            it.ethernet = false;
            it.mac = MacAddr::ZERO;
        });
        host.add(2, "eth0", |_| {});
        host.add(3, "eth1", |it| it.up = false);
        host.add(4, "ens1", |it| it.master = Some(6));
        host.add(5, "ens2", |it| it.master = Some(6));
        host.add(6, "bond0", |it| it.kind = "bond".to_owned());
        host.add(7, "docker0", |it| it.kind = "bridge".to_owned());
        host.add(8, "veth12ab", |it| it.master = Some(7));
        host.add(9, "br-lan", |it| it.kind = "bridge".to_owned());
        host.add(10, "enp3s0", |it| it.master = Some(9));
        host.add(11, "wg0", |it| it.ethernet = false);
        host.add(12, "blue", |it| it.kind = "vrf".to_owned());
        host.add(14, "ib0", |it| it.mac = MacAddr::ZERO);
        host.add(13, "eth2", |it| it.master = Some(12));
        host
    }

    fn add(&mut self, index: u32, name: &str, change: impl FnOnce(&mut Interface)) {
        let mut interface = Interface::sample(index, name);
        change(&mut interface);
        self.0.interfaces.insert(index, interface);
    }

    /// Returns the names that are chosen with these `interfaces`, and the problems in
    /// words. `named` are the interfaces that VIPs name.
    fn choose(&self, patterns: &[&str], named: &[&str]) -> (Vec<String>, Vec<String>) {
        let list = |patterns: &[&str]| {
            patterns.iter().map(|pattern| format!("'{pattern}'")).collect::<Vec<_>>().join(", ")
        };
        let interfaces =
            if patterns.is_empty() { String::new() } else { format!("interfaces: [{}]", list(patterns)) };
        let vip = |(last, name): (usize, &&str)| format!("{{address: 192.0.2.{last}, interface: '{name}'}}");
        let vips = (1..).zip(named).map(vip).collect::<Vec<_>>().join(", ");
        let text = format!("vips: [{vips}]\n{interfaces}\n");
        let config = Config::parse(&text, "vipward.yaml", "host").expect("a good configuration");
        let (chosen, problems) = choose(&config.selection(), &self.0, &BTreeSet::new());
        let names = chosen.iter().map(|interface| interface.name.clone()).collect();
        (names, problems.iter().map(Obstacle::to_string).collect())
    }
}

#[test]
fn the_default_is_every_interface_that_leads_to_a_segment() {
    let usual = vec!["eth0", "bond0", "br-lan", "eth2"];
    let table = [
        ("nothing is named", &[][..], usual.clone()),
        ("a VIP names an excluded one", &["docker0"], vec!["eth0", "bond0", "docker0", "br-lan", "eth2"]),
        ("a VIP names a member of a bond", &["ens1"], vec!["eth0", "ens1", "bond0", "br-lan", "eth2"]),
        ("a VIP's glob adds nothing", &["docker*"], usual.clone()),
        ("a VIP names one that does not exist", &["eth9"], usual.clone()),
        ("a VIP names one that is down", &["eth1"], usual.clone()),
        ("VIPs name some without ARP", &["wg0", "lo", "blue", "ib0"], usual),
    ];
    for (what, named, expected) in table {
        let (names, problems) = Host::new().choose(&[], named);
        assert_eq!(names, expected, "{what}");
        assert_eq!(problems, Vec::<String>::new(), "{what}");
    }
}

#[test]
fn patterns_choose_by_name_alone_but_for_members() {
    let not_ethernet = |name: &str| format!("interface {name} is no Ethernet interface; no VIP can be on it");
    let down = "interface eth1 is down; waiting for it to be set up".to_owned();
    let members = |patterns: &str, masters: &str| {
        format!(
            "{patterns} matches members of {masters} only, which speak through it; name it in `interfaces`"
        )
    };
    let table = [
        (vec!["eth0"], vec!["eth0"], vec![]),
        (vec!["eth*"], vec!["eth0", "eth2"], vec![]),
        (vec!["docker*", "eth0"], vec!["eth0", "docker0"], vec![]),
        (vec!["ens1"], vec!["ens1"], vec![]),
        (vec!["ens*"], vec![], vec![members("ens*", "bond0")]),
        (vec!["en*", "wg*"], vec![], vec![members("en*, wg*", "bond0, br-lan")]),
        (vec!["en*", "e*[12]"], vec!["eth2"], vec![]),
        (vec!["eth1"], vec![], vec![down.clone()]),
        (vec!["eth1", "eth0"], vec!["eth0"], vec![down]),
        (vec!["eth9"], vec![], vec!["interface eth9 does not exist; waiting for it".to_owned()]),
        (vec!["lo"], vec![], vec![not_ethernet("lo")]),
        (vec!["wg0"], vec![], vec![not_ethernet("wg0")]),
        (vec!["ib0"], vec![], vec![not_ethernet("ib0")]),
        (vec!["blue"], vec![], vec![not_ethernet("blue")]),
        (
            vec!["wg*", "tun*"],
            vec![],
            vec!["no up Ethernet interface matches wg*, tun*; waiting for one".to_owned()],
        ),
        (vec!["eth0", "wg*"], vec!["eth0"], vec![]),
    ];
    for (patterns, expected, expected_problems) in table {
        // With a list, a VIP's own `interface` adds nothing to it.
        let (names, problems) = Host::new().choose(&patterns, &["br-lan"]);
        assert_eq!(names, expected, "{patterns:?}");
        assert_eq!(problems, expected_problems, "{patterns:?}");
    }
}

#[test]
fn an_interface_is_chosen_by_an_alternative_name_and_by_its_mac() {
    let several = "02:00:00:00:00:02 is the MAC of several interfaces (eth0, eth5); name one of them";
    let mut host = Host::new();
    host.add(2, "eth0", |it| it.altnames = vec!["lan-old".to_owned()]);
    host.add(3, "eth1", |it| {
        it.up = false;
        it.altnames = vec!["wan".to_owned()];
    });
    host.add(4, "ens1", |it| {
        it.master = Some(6);
        it.altnames = vec!["port".to_owned()];
    });
    host.add(7, "docker0", |it| {
        it.kind = "bridge".to_owned();
        it.altnames = vec!["inner".to_owned()];
    });
    let table: [(&[&str], &[&str], &[&str]); 9] = [
        (&["lan-old"], &["eth0"], &[]),
        (&["lan*"], &["eth0"], &[]),
        (&["02:00:00:00:00:02"], &["eth0"], &[]),
        (&["inner"], &["docker0"], &[]),
        (&["02:00:00:00:00:07"], &["docker0"], &[]),
        (&["port"], &["ens1"], &[]),
        (
            &["port*"],
            &[],
            &["port* matches members of bond0 only, which speak through it; name it in `interfaces`"],
        ),
        (&["wan"], &[], &["interface eth1 is down; waiting for it to be set up"]),
        (&["02:00:00:00:00:7f"], &[], &["interface 02:00:00:00:00:7f does not exist; waiting for it"]),
    ];
    for (patterns, expected, problems) in table {
        let (names, found) = host.choose(patterns, &[]);
        assert_eq!(names, expected, "{patterns:?}");
        assert_eq!(found, problems, "{patterns:?}");
    }
    for named in ["inner", "02:00:00:00:00:07"] {
        let (names, _) = host.choose(&[], &[named]);
        assert!(names.iter().any(|name| name == "docker0"), "a VIP names an excluded one: {named}");
    }
    let mac = host.0.interfaces[&2].mac;
    host.add(15, "eth5", |it| it.mac = mac);
    let (names, found) = host.choose(&["02:00:00:00:00:02"], &[]);
    assert_eq!((names, found), (vec![], vec![several.to_owned()]));
}

/// An operator may call a card as container software calls its devices. The card stays in use.
#[test]
fn an_alternative_name_excludes_no_interface() {
    let mut host = Host::new();
    host.add(2, "eth0", |it| it.altnames = vec!["vnet-lan".to_owned(), "vrrp0".to_owned()]);
    let (names, _) = host.choose(&[], &[]);
    assert!(names.iter().any(|name| name == "eth0"), "{names:?}");
}

#[test]
fn container_side_names_are_excluded() {
    let excluded = [
        "veth0",
        "cali1a2b",
        "lxc_health",
        "cilium_host",
        "cni0",
        "flannel.1",
        "docker0",
        "virbr0",
        "kube-ipvs0",
        "br-1a2b3c4d5e6f",
        "podman0",
        "weave",
        "tunl0",
        "wg0",
        "nodelocaldns",
        "dummy0",
        "vnet3",
    ];
    for name in excluded {
        assert!(is_excluded(name), "{name}");
    }
    for name in ["eth0", "ens1f0", "enp3s0", "eno1", "bond0", "br0", "vlan10", "wlan0", "vmbr0", "uplink"] {
        assert!(!is_excluded(name), "{name}");
    }
}

#[test]
fn an_interface_that_has_vips_stays_when_it_is_set_down() {
    let host = Host::new();
    for (rest, problems) in [("", 0), ("interfaces: [eth1]\n", 1), ("interfaces: ['eth1*']\n", 0)] {
        let text = format!("vips: []\n{rest}");
        let config = Config::parse(&text, "vipward.yaml", "host").expect("a good configuration");
        let (chosen, found) = choose(&config.selection(), &host.0, &BTreeSet::from([3]));
        assert!(chosen.iter().any(|interface| interface.name == "eth1"), "{rest}");
        assert_eq!(found.len(), problems, "{rest}: {found:?}");
    }
}

#[test]
fn a_lease_lists_the_addresses_of_other_programs_and_the_gateways_of_each_segment() {
    let mut view = NetView::default();
    let mut add = |index, name: &str, nets: &[&str]| {
        let mut interface = Interface::sample(index, name);
        interface.addresses = nets.iter().map(|net| net.parse().expect("an address")).collect();
        view.interfaces.insert(index, interface);
    };
    add(1, "lo", &["192.0.2.50/32"]);
    add(2, "eth0", &["192.0.2.5/24", "192.0.2.10/32", "192.0.2.11/32", "10.7.7.7/32"]);
    add(3, "eth1", &["198.51.100.5/24"]);
    view.interfaces.get_mut(&2).expect("eth0").ours.insert([192, 0, 2, 11].into());
    let hops = [[192, 0, 2, 1], [198, 51, 100, 1], [203, 0, 113, 1]];
    view.next_hops = hops.map(IpAddr::from).into();
    let interfaces = node_interfaces(&view, &[2, 3], |_| Default::default());
    let listed = |of: fn(&NodeInterface) -> &Vec<IpAddr>| {
        interfaces.iter().map(|interface| of(interface).clone()).collect::<Vec<_>>()
    };
    let expected: [&[[u8; 4]]; 2] = [&[[10, 7, 7, 7], [192, 0, 2, 10]], &[]];
    let addresses = |list: &[[u8; 4]]| list.iter().copied().map(IpAddr::from).collect::<Vec<_>>();
    assert_eq!(listed(|interface| &interface.bound), expected.map(addresses));
    let expected: [&[[u8; 4]]; 2] = [&[[192, 0, 2, 1]], &[[198, 51, 100, 1]]];
    assert_eq!(listed(|interface| &interface.gateways), expected.map(addresses));
}

#[test]
fn a_host_with_thousands_of_addresses_and_gateways_lists_some_of_them() {
    let mut view = NetView::default();
    let many = |from: u32| (from..from + 3_000).map(|number| IpAddr::V4(number.into()));
    for index in 2..4_u32 {
        let mut interface = Interface::sample(index, &format!("eth{index}"));
        interface.addresses = many(index << 24).map(IpNet::from).collect();
        interface.addresses.push(IpNet::new(IpAddr::V4((index << 24).into()), 8).expect("a subnet"));
        view.interfaces.insert(index, interface);
        view.next_hops.extend(many((index << 24) + 10_000));
    }
    let interfaces = node_interfaces(&view, &[2, 3], |_| Default::default());
    let count = |of: fn(&NodeInterface) -> usize| interfaces.iter().map(of).sum::<usize>();
    assert_eq!(count(|interface| interface.bound.len()), MOST_ADDRESSES);
    assert_eq!(count(|interface| interface.gateways.len()), MOST_ADDRESSES);
}

#[test]
fn dns_servers_are_read_as_the_resolver_reads_them() {
    let text = "# nameserver 192.0.2.9\nsearch example.com\nnameserver 192.0.2.53\n  nameserver\t192.0.2.54 \n\
                nameserver 2001:db8::53\nnameserver\nnameservers 192.0.2.55\n";
    let found = ["192.0.2.53", "192.0.2.54", "2001:db8::53"].map(|text| text.parse().expect("an address"));
    assert_eq!(name_servers(text), BTreeSet::from(found));
    assert_eq!(name_servers(""), BTreeSet::new());
}
