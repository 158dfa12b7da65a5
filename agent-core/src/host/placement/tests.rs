use ipnet::IpNet;
use proptest::prelude::*;

use vipward_common::{ETHERTYPE_8021Q, VlanTag};

use super::*;
use crate::{config::Config, host::net::ConnectedRoute};

/// A host with eth0 (10.0.0.5/24) and eth1 (10.0.1.5/24). Tests change it.
struct Host {
    view: NetView,
    placed: BTreeMap<IpAddr, u32>,
    there: BTreeSet<VipKey>,
    max_vips: u32,
}

impl Host {
    fn new() -> Self {
        let mut host =
            Self { view: NetView::default(), placed: BTreeMap::new(), there: BTreeSet::new(), max_vips: 64 };
        host.add(1, "lo", &["127.0.0.1/8"]);
        host.add(2, "eth0", &["10.0.0.5/24"]);
        host.add(3, "eth1", &["10.0.1.5/24"]);
        host
    }

    fn add(&mut self, index: u32, name: &str, nets: &[&str]) {
        let addresses: Vec<IpNet> = nets.iter().map(|net| net.parse().expect("a subnet")).collect();
        let loopback = name == "lo";
        let routes = addresses.iter().filter(|net| !loopback && net.prefix_len() < 32);
        let routes = routes.map(|net| ConnectedRoute { prefix: net.trunc(), interface: index, metric: 0 });
        self.view.routes.extend(routes);
        let sample = Interface::sample(index, name);
        let mac = if loopback { MacAddr::ZERO } else { sample.mac };
        let interface = Interface { mac, ethernet: !loopback, loopback, addresses, ..sample };
        self.view.interfaces.insert(index, interface);
    }

    fn route(&mut self, prefix: &str, interface: u32, metric: u32) {
        let prefix = prefix.parse().expect("a subnet");
        self.view.routes.push(ConnectedRoute { prefix, interface, metric });
    }

    fn drop_addresses(&mut self, index: u32) {
        self.view.routes.retain(|route| route.interface != index);
        self.view.interfaces.get_mut(&index).expect("an interface").addresses.clear();
    }

    fn place(&self, config: &str) -> Placement {
        let config = Config::parse(config, "vipward.yaml", "host").expect("a good configuration");
        let vips = config.vips.iter().map(Wanted::from);
        place(
            &config.selection(),
            vips,
            &self.view,
            &self.placed,
            &|key| self.there.contains(key),
            self.max_vips,
        )
    }
}

fn mac(index: u32) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, u8::try_from(index).expect("few interfaces")])
}

fn homes(placement: &Placement) -> Vec<(String, u32)> {
    let entries = placement.desired.entries.iter();
    let here = entries.filter(|(_, entry)| entry.role == Role::Held || !entry.mac.is_zero());
    here.map(|(key, _)| (key.addr.to_string(), key.ifindex)).collect()
}

fn words(placement: &Placement) -> Vec<String> {
    placement.problems.iter().map(Obstacle::to_string).collect()
}

#[test]
fn a_vip_is_held_on_one_interface_and_foreign_on_the_others() {
    let got = Host::new().place(
        "vips: [{address: 10.0.0.10}, {address: 10.0.1.1, mac: '02:00:00:00:01:01'}]\n\
         peers: ['02:00:00:00:0a:02', '02:00:00:00:00:03']\n",
    );
    let entry = |role, mac| DesiredEntry::new(role, mac);
    let at = |ifindex, addr| VipKey::new(ifindex, addr);
    let peer = MacAddr([2, 0, 0, 0, 10, 2]);
    let expected = Placement {
        attach: vec![2, 3],
        desired: Desired {
            entries: [
                (at(2, [10, 0, 0, 10]), entry(Role::Held, mac(2))),
                (at(3, [10, 0, 0, 10]), entry(Role::Foreign, MacAddr::ZERO)),
                (at(2, [10, 0, 1, 1]), entry(Role::Foreign, MacAddr::ZERO)),
                (at(3, [10, 0, 1, 1]), entry(Role::Foreign, MacAddr([2, 0, 0, 0, 1, 1]))),
            ]
            .into(),
            own_macs: [(2, mac(2)), (3, mac(3))].into(),
            // The list also has eth1's own MAC, which is a peer's on eth0 only.
            peers: [(2, peer), (3, peer), (2, mac(3))].into(),
            binds: BTreeSet::new(),
        },
        left_out: Vec::new(),
        problems: Vec::new(),
    };
    assert_eq!(got, expected);
}

/// Adds a device of a kind with 10.0.9.5/24, on or of eth0 (2), and returns the interfaces with an
/// entry of a VIP on it.
fn entries_with(kind: &str, relate: fn(&mut NetView)) -> BTreeMap<u32, Role> {
    let mut host = Host::new();
    host.add(4, "top", &["10.0.9.5/24"]);
    host.view.interfaces.get_mut(&4).expect("top").kind = kind.to_owned();
    relate(&mut host.view);
    let placement = host.place("interfaces: [eth0, eth1, top]\nvips: [{address: 10.0.9.10}]\n");
    placement.desired.entries.iter().map(|(key, entry)| (key.ifindex, entry.role)).collect()
}

#[test]
fn a_vip_is_foreign_on_no_interface_over_which_its_frames_arrive() {
    use Role::{Foreign, Held};
    let all = BTreeMap::from([(2, Foreign), (3, Foreign), (4, Held)]);
    let without_eth0 = BTreeMap::from([(3, Foreign), (4, Held)]);
    let on_eth0 = |view: &mut NetView| view.interfaces.get_mut(&4).expect("top").lower = Some(2);
    let of_top = |view: &mut NetView| view.interfaces.get_mut(&2).expect("eth0").master = Some(4);
    let over_a_bridge = |view: &mut NetView| {
        let bridge = Interface { kind: "bridge".to_owned(), ..Interface::sample(5, "br0") };
        view.interfaces.insert(5, bridge);
        view.interfaces.get_mut(&4).expect("top").lower = Some(5);
        view.interfaces.get_mut(&2).expect("eth0").master = Some(5);
    };
    assert_eq!(entries_with("macvlan", on_eth0), without_eth0);
    assert_eq!(entries_with("bond", of_top), without_eth0);
    assert_eq!(entries_with("macvlan", over_a_bridge), without_eth0, "on a bridge that has eth0");
    assert_eq!(entries_with("vlan", on_eth0), without_eth0);
    assert_eq!(entries_with("veth", |_| {}), all, "unrelated");
}

#[test]
fn a_vip_goes_where_the_kernel_would_send() {
    let mut longest = Host::new();
    longest.route("10.0.0.0/28", 3, 500);
    let mut metric = Host::new();
    metric.add(4, "eth2", &["10.0.0.6/24"]);
    metric.view.routes[0].metric = 200;
    let mut order = Host::new();
    order.add(4, "eth2", &["10.0.0.6/24"]);
    let mut default_route = Host::new();
    default_route.route("0.0.0.0/0", 3, 0);
    default_route.drop_addresses(2);
    default_route.add(2, "eth0", &["10.0.0.5/24"]);
    let mut no_route = Host::new();
    no_route.view.routes.clear();
    let table = [
        ("the one subnet", Host::new(), 2),
        ("the longest prefix", longest, 3),
        ("the lowest metric", metric, 4),
        ("the kernel's order", order, 2),
        ("a default route is no subnet", default_route, 2),
        ("an address without a route", no_route, 2),
    ];
    for (what, host, expected) in table {
        let got = host.place("vips: [{address: 10.0.0.10}]");
        assert_eq!(homes(&got), [("10.0.0.10".to_owned(), expected)], "{what}");
        assert_eq!(words(&got), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn a_vip_that_names_its_vlan_goes_to_a_device_of_it() {
    let mut host = Host::new();
    for (index, name, id, lower) in [(4, "eth0.10", 10, 2), (5, "storage", 20, 2), (6, "eth1.10", 10, 3)] {
        host.add(index, name, &[]);
        let device = host.view.interfaces.get_mut(&index).expect("it was added");
        device.kind = "vlan".to_owned();
        (device.lower, device.vlan) = (Some(lower), Some(VlanTag::new(ETHERTYPE_8021Q, id)));
    }
    let missing = |vlan: u16, lower: &str, name: &str| {
        format!(
            "VIP 10.0.9.10 belongs to VLAN {vlan}, which has no device on {lower}: its card would drop the \
             frames, and this host the traffic; make one: ip link add link {lower} name {name} type vlan \
             id {vlan} && ip link set {name} up"
        )
    };
    let unattached = "VIP 10.0.9.10 belongs to interface storage, which is not there or not attached; \
                      attached are: eth0; waiting for it";
    let table = [
        ("vlan: 10", "", vec![4], vec![]),
        ("vlan: 20", "", vec![5], vec![]),
        ("vlan: 10, interface: eth1", "", vec![6], vec![]),
        ("vlan: 10, interface: eth1.10", "", vec![6], vec![]),
        ("vlan: 20, interface: 'stor*'", "", vec![5], vec![]),
        ("vlan: 30", "", vec![], vec![missing(30, "eth0", "eth0.30")]),
        ("vlan: 20, interface: eth1", "", vec![], vec![missing(20, "eth1", "eth1.20")]),
        ("vlan: 20, interface: ens1", "", vec![], vec![missing(20, "eth0", "ens1")]),
        ("vlan: 20", "interfaces: [eth0]", vec![], vec![unattached.to_owned()]),
    ];
    for (keys, rest, expected, problems) in table {
        let got = host.place(&format!("vips: [{{address: 10.0.9.10, bind: lo, {keys}}}]\n{rest}\n"));
        let on: Vec<_> = homes(&got).into_iter().map(|(_, ifindex)| ifindex).collect();
        assert_eq!(on, expected, "{keys} {rest}");
        assert_eq!(words(&got), problems, "{keys} {rest}");
    }
}

#[test]
fn a_vip_that_names_its_interface_goes_there() {
    let elsewhere = |interface: &str, attached: &str| {
        format!(
            "VIP 10.0.0.10 belongs to interface {interface}, which is not there or not attached; attached are: \
             {attached}; waiting for it"
        )
    };
    let table = [
        ("eth1", "", vec![3], vec![]),
        ("eth*", "", vec![2], vec![]),
        ("eth[1-9]", "", vec![3], vec![]),
        ("eth9", "", vec![], vec![elsewhere("eth9", "eth0, eth1")]),
        ("ens*", "", vec![], vec![elsewhere("ens*", "eth0, eth1")]),
        ("lo", "", vec![], vec![elsewhere("lo", "eth0, eth1")]),
        ("eth1", "interfaces: [eth0]", vec![], vec![elsewhere("eth1", "eth0")]),
        (
            "eth1",
            "interfaces: [eth7]",
            vec![],
            vec!["interface eth7 does not exist; waiting for it".to_owned(), elsewhere("eth1", "none")],
        ),
    ];
    for (interface, rest, expected, problems) in table {
        let got = Host::new()
            .place(&format!("vips: [{{address: 10.0.0.10, interface: '{interface}', bind: lo}}]\n{rest}\n"));
        let on: Vec<_> = homes(&got).into_iter().map(|(_, ifindex)| ifindex).collect();
        assert_eq!(on, expected, "{interface} {rest}");
        assert_eq!(words(&got), problems, "{interface} {rest}");
        assert_eq!(got.desired.entries.len(), got.attach.len(), "an entry everywhere: {interface} {rest}");
        assert_eq!(got.desired.binds.len(), on.len(), "bound only where it is held: {interface} {rest}");
    }
}

#[test]
fn a_vip_goes_to_the_interface_that_it_names_by_an_alternative_name_or_a_mac() {
    let mut host = Host::new();
    host.add(4, "eth1.20", &[]);
    let vlan = host.view.interfaces.get_mut(&4).expect("the VLAN device");
    (vlan.lower, vlan.mac) = (Some(3), mac(3));
    vlan.vlan = Some(VlanTag::new(ETHERTYPE_8021Q, 20));
    host.view.interfaces.get_mut(&3).expect("eth1").altnames = vec!["lan-old".to_owned()];
    let table = [
        ("interface: lan-old, bind: lan-old", 3, Some("eth1")),
        ("interface: 'lan*', bind: '02:00:00:00:00:03'", 3, Some("eth1")),
        ("interface: '02-00-00-00-00-03'", 3, None),
        ("interface: lan-old, vlan: 20", 4, None),
        ("interface: '02:00:00:00:00:03', vlan: 20", 4, None),
    ];
    for (keys, expected, bound) in table {
        let got = host.place(&format!("vips: [{{address: 10.0.0.10, {keys}}}]"));
        assert_eq!(homes(&got), [("10.0.0.10".to_owned(), expected)], "{keys}");
        assert_eq!(words(&got), [""; 0], "{keys}");
        let binds: Vec<_> = got.desired.binds.iter().map(|(interface, _)| interface.as_str()).collect();
        assert_eq!(binds, bound.into_iter().collect::<Vec<_>>(), "{keys}");
    }
    let got = host.place("vips: [{address: 10.0.0.10, interface: lan-older}]");
    let expected = "VIP 10.0.0.10 belongs to interface lan-older, which is not there or not attached; attached are: \
                    eth0, eth1 (also lan-old), eth1.20; waiting for it";
    assert_eq!(words(&got), [expected]);
    let got = host.place("vips: [{address: 10.0.0.10, interface: '02:00:00:00:00:03', vlan: 30}]");
    let expected = "VIP 10.0.0.10 belongs to VLAN 30, which has no device on eth1: its card would drop the frames, \
                    and this host the traffic; make one: ip link add link eth1 name eth1.30 type vlan id 30 && ip \
                    link set eth1.30 up";
    assert_eq!(words(&got), [expected]);
}

#[test]
fn a_vip_whose_glob_matches_several_stays_on_the_one_it_is_on() {
    let config = "vips: [{address: 172.16.0.10, interface: 'eth*'}]";
    let mut host = Host::new();
    assert_eq!(homes(&host.place(config)), [("172.16.0.10".to_owned(), 2)], "the first");
    host.placed.insert(IpAddr::from([172, 16, 0, 10]), 3);
    let got = host.place(config);
    assert_eq!((homes(&got), words(&got)), (vec![("172.16.0.10".to_owned(), 3)], vec![]), "where it is");
    host.add(2, "eth0", &["172.16.0.1/24"]);
    assert_eq!(homes(&host.place(config)), [("172.16.0.10".to_owned(), 2)], "one has the subnet now");
}

#[test]
fn a_vip_without_a_subnet_says_what_was_looked_at_and_leaks_nowhere() {
    let mut host = Host::new();
    host.drop_addresses(3);
    // A default route leads everywhere, even one without a gateway. It leads to no segment.
    host.route("0.0.0.0/0", 3, 0);
    let got = host.place("vips: [{address: 192.0.2.10, bind: lo}]");
    let expected = "VIP 192.0.2.10 is in the subnet of no attached interface; inspected: eth0 (10.0.0.5/24), eth1 (no \
                    address); name one with `interface:`, or give an interface an address in its subnet";
    assert_eq!(words(&got), [expected]);
    let shadow = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
    let entries = [2, 3].map(|ifindex| (VipKey::new(ifindex, [192, 0, 2, 10]), shadow));
    assert_eq!(got.desired.entries, entries.into());
    assert_eq!(got.desired.binds, BTreeSet::new());

    host.view.interfaces.clear();
    let got = host.place("vips: [{address: 192.0.2.10}]");
    let expected = "VIP 192.0.2.10 is in the subnet of no attached interface; inspected: none; name one with \
                    `interface:`, or give an interface an address in its subnet";
    assert_eq!(words(&got), [expected]);
}

#[test]
fn a_vip_stays_where_it_is_when_an_address_flaps() {
    let address = IpAddr::from([10, 0, 0, 10]);
    let warning = "VIP 10.0.0.10 is in the subnet of no interface any more; it stays on eth0, where it is";
    let mut flapped = Host::new();
    flapped.drop_addresses(2);
    let mut elsewhere = Host::new();
    elsewhere.drop_addresses(2);
    elsewhere.add(4, "eth2", &["10.0.0.6/24"]);
    let table = [
        ("the address is gone", flapped, 2, Some(2), Some(warning)),
        ("another interface has the subnet now", elsewhere, 2, Some(4), None),
        ("it was elsewhere", Host::new(), 3, Some(2), None),
    ];
    for (what, mut host, on, expected, problem) in table {
        host.placed.insert(address, on);
        for mac in ["", ", mac: '02:00:00:00:00:99'"] {
            let got = host.place(&format!("vips: [{{address: 10.0.0.10{mac}}}]"));
            let home = homes(&got).first().map(|(_, ifindex)| *ifindex);
            assert_eq!((home, words(&got).first().map(String::as_str)), (expected, problem), "{what}{mac}");
        }
    }
}

#[test]
fn a_vip_whose_interface_is_gone_has_no_place() {
    let mut host = Host::new();
    host.view.interfaces.remove(&2);
    host.view.routes.retain(|route| route.interface != 2);
    host.placed.insert(IpAddr::from([10, 0, 0, 10]), 2);
    let got = host.place("vips: [{address: 10.0.0.10}]");
    assert_eq!(homes(&got), []);
    let begin = "VIP 10.0.0.10 is in the subnet of no attached interface; inspected: eth1 (10.0.1.5/24);";
    assert!(words(&got)[0].starts_with(begin), "{:?}", got.problems);
}

#[test]
fn a_vip_keeps_its_place_on_an_interface_that_is_set_down() {
    let address = IpAddr::from([10, 0, 0, 10]);
    let mut host = Host::new();
    host.view.interfaces.get_mut(&2).expect("eth0").up = false;
    assert_eq!(homes(&host.place("vips: [{address: 10.0.0.10}]")), [], "it is not taken there");
    host.placed.insert(address, 2);
    assert_eq!(homes(&host.place("vips: [{address: 10.0.0.10}]")), [(address.to_string(), 2)]);
}

#[test]
fn the_first_and_last_address_of_a_subnet_are_left_to_the_kernel() {
    let mut host = Host::new();
    host.add(4, "eth2", &["10.2.0.0/31", "2001:db8::5/64"]);
    let problem = |what: &str| vec![format!("VIP {what}; no host can have it")];
    let table = [
        ("10.0.0.0", problem("10.0.0.0 is the network address of 10.0.0.0/24 on eth0"), 0),
        ("10.0.0.255", problem("10.0.0.255 is the broadcast address of 10.0.0.0/24 on eth0"), 0),
        ("'2001:db8::'", problem("2001:db8:: is the address of all routers of 2001:db8::/64 on eth2"), 0),
        ("10.2.0.1", vec![], 3),
        ("'2001:db8::ffff:ffff:ffff:ffff'", vec![], 3),
    ];
    for (address, expected, entries) in table {
        for mac in ["", ", mac: '02:00:00:00:00:99'"] {
            let got = host.place(&format!("vips: [{{address: {address}{mac}}}]"));
            assert_eq!(words(&got), expected, "{address}");
            assert_eq!(got.desired.entries.len(), entries, "{address}");
        }
    }
}

#[test]
fn a_vip_may_be_on_one_of_the_hosts_interfaces_already() {
    let mut on_the_segment = Host::new();
    on_the_segment.add(2, "eth0", &["10.0.0.5/24", "10.0.0.10/32"]);
    let mut ipvs = Host::new();
    ipvs.add(4, "kube-ipvs0", &["10.0.0.10/32"]);
    let mut loopback = Host::new();
    loopback.add(1, "lo", &["127.0.0.1/8", "10.0.0.10/32"]);
    for (what, host) in [("eth0", on_the_segment), ("kube-ipvs0", ipvs), ("lo", loopback)] {
        let got = host.place("vips: [{address: 10.0.0.10}]");
        assert_eq!((homes(&got), words(&got)), (vec![("10.0.0.10".to_owned(), 2)], vec![]), "{what}");
    }
}

#[test]
fn a_held_vip_is_bound_where_that_is_possible() {
    let got = Host::new().place("vips: [{address: 10.0.0.10, bind: lo}, {address: 10.0.0.11, bind: dummy0}]");
    assert_eq!(got.desired.binds, [("lo".to_owned(), IpAddr::from([10, 0, 0, 10]))].into());
    assert_eq!(words(&got), ["VIP 10.0.0.11 is to be bound to dummy0, which does not exist; waiting for it"]);
    assert_eq!(homes(&got).len(), 2, "both are held");
}

#[test]
fn vips_that_do_not_fit_are_left_out_and_the_others_work() {
    let mut host = Host::new();
    host.max_vips = 3;
    let got = host.place(
        "vips: [{address: 10.0.0.12}, {address: 10.0.0.255}, {address: 10.0.0.11}, {address: 10.0.0.10}, \
         {address: 10.0.0.9}]",
    );
    let held: Vec<_> = homes(&got).into_iter().map(|(address, _)| address).collect();
    assert_eq!(held, ["10.0.0.10", "10.0.0.11", "10.0.0.12"], "the first three of the file that can be held");
    assert_eq!(
        words(&got)[1..],
        [
            "the map holds 3 entries: 3 entries are missing on interfaces where VIPs are not held, so that an address \
             bound there may leak; start the agent with a larger --max-vips",
            "10.0.0.9 does not fit: 1 VIPs are left out, since the map holds 3 entries; start the agent with a larger \
             --max-vips",
        ]
    );
}

#[test]
fn no_vip_that_has_room_is_turned_out_for_one_that_comes_first() {
    let mut host = Host::new();
    host.max_vips = 2;
    let before = host.place("vips: [{address: 10.0.0.11}, {address: 10.0.0.12}, {address: 10.0.0.13}]");
    host.there = before.desired.entries.keys().copied().collect();
    let all = "vips: [{address: 10.0.0.9}, {address: 10.0.0.11}, {address: 10.0.0.10}, {address: 10.0.0.12}]";
    let got = host.place(all);
    assert_eq!(homes(&got), homes(&before));
    assert_eq!(got.left_out, [IpAddr::from([10, 0, 0, 9]), IpAddr::from([10, 0, 0, 10])]);
    host.max_vips = 3;
    assert_eq!(
        host.place(all).left_out,
        [IpAddr::from([10, 0, 0, 10])],
        "the first of the file of those that are new"
    );
    host.max_vips = 1;
    let smaller = [IpAddr::from([10, 0, 0, 12]), IpAddr::from([10, 0, 0, 9]), IpAddr::from([10, 0, 0, 10])];
    assert_eq!(host.place(all).left_out, smaller, "a smaller map");
}

#[test]
fn an_interface_that_comes_up_takes_no_held_vips_room() {
    let mut host = Host::new();
    host.max_vips = 6;
    let vips = "vips: [{address: 10.0.0.10}, {address: 10.0.0.11}, {address: 10.0.0.12}]";
    let before = homes(&host.place(vips));
    host.add(4, "eth2", &["10.7.0.1/24"]);
    let got = host.place(vips);
    assert_eq!(homes(&got), before);
    assert_eq!(got.desired.entries.len(), 6);
    assert!(words(&got)[0].contains("3 entries are missing"), "{:?}", words(&got));
}

#[test]
fn a_host_does_not_guard_an_address_at_its_own_mac() {
    let got = Host::new().place("vips: [{address: 10.0.0.10, mac: '02:00:00:00:00:02'}]");
    assert_eq!(got.desired.entries.len(), 0);
    assert_eq!(
        words(&got),
        ["VIP 10.0.0.10 is guarded at 02:00:00:00:00:02, which is this host's own eth0: it is not \
          guarded here, or its kernel could not answer for it"]
    );
}

proptest! {
    #[test]
    fn every_vip_has_one_home_at_most_and_with_room_an_entry_everywhere_or_nowhere(
        hosts in proptest::collection::btree_set(0_u8..=255, 0..20),
        nets in proptest::collection::vec((0_u8..4, 20_u8..=32), 0..4),
        max_vips in 0_u32..60,
    ) {
        let mut host = Host::new();
        host.max_vips = max_vips;
        for (index, (third, length)) in (4..).zip(nets) {
            host.add(index, &format!("ens{index}"), &[&format!("10.0.{third}.7/{length}")]);
        }
        let list: Vec<_> = hosts.iter().map(|last| format!("{{address: 10.0.0.{last}}}")).collect();
        let got = host.place(&format!("vips: [{}]", list.join(", ")));
        prop_assert!(got.desired.entries.len() <= max_vips as usize);
        for last in hosts {
            let of_vip = |(key, _): &(&VipKey, &DesiredEntry)| key.addr == IpAddr::from([10, 0, 0, last]);
            let entries: Vec<_> = got.desired.entries.iter().filter(of_vip).collect();
            let full = got.desired.entries.len() == max_vips as usize;
            prop_assert!(full || entries.is_empty() || entries.len() == got.attach.len(), "{:?}", entries);
            let held: Vec<_> = entries.iter().filter(|(_, entry)| entry.role == Role::Held).collect();
            prop_assert!(held.len() <= 1, "{:?}", held);
            for (key, entry) in held {
                prop_assert_eq!(Some(&entry.mac), got.desired.own_macs.get(&key.ifindex));
            }
        }
    }
}

#[test]
fn a_new_vip_that_another_program_has_on_a_segments_interface_leaves_the_kernel_audible_there() {
    let vip = IpAddr::from([10, 0, 0, 10]);
    let at = |ifindex| VipKey::new(ifindex, vip);
    let silent = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
    let left = |nets: &[&str], lo: &[&str], ours: bool, role, is_new: bool| {
        let mut host = Host::new();
        host.add(1, "lo", lo);
        host.add(2, "eth0", nets);
        if ours {
            host.view.interfaces.get_mut(&2).expect("eth0").ours.insert(vip);
        }
        let home = DesiredEntry { role, ..silent };
        let entries = BTreeMap::from([(at(2), home), (at(3), silent)]);
        let mut desired = Desired { entries, ..Desired::default() };
        desired.leave_audible(&host.view, |_| is_new);
        desired.entries.keys().map(|key| key.ifindex).collect::<Vec<_>>()
    };
    let eth0 = ["10.0.0.5/24", "10.0.0.10/32"];
    assert_eq!(left(&eth0, &[], false, Role::Foreign, true), [3], "kube-vip has it on eth0");
    assert_eq!(left(&["10.0.0.10/24"], &[], false, Role::Foreign, true), [3], "with any prefix length");
    assert_eq!(left(&eth0, &[], false, Role::Foreign, false), [2, 3], "the VIP has had a holder");
    assert_eq!(left(&eth0, &[], false, Role::Held, true), [2, 3], "this node holds it");
    assert_eq!(left(&eth0, &[], true, Role::Foreign, true), [2, 3], "the agent has bound it");
    assert_eq!(left(&["10.0.0.5/24"], &["10.0.0.10/32"], false, Role::Foreign, true), [2, 3], "it is on lo");
}

#[test]
fn a_digest_changes_with_each_part_of_a_placement() {
    type Change = fn(&mut Placement);

    const VIPS: &str = "vips: [{address: 10.0.0.10, bind: lo}, {address: 192.0.2.10}]";
    let digest = |change: Change| {
        let mut placement = Host::new().place(VIPS);
        change(&mut placement);
        placement.digest()
    };
    let same = digest(|_| ());
    assert_eq!(digest(|_| ()), same);
    let table: [(&str, Change); 7] = [
        ("an interface", |placement| placement.attach.truncate(1)),
        ("an entry", |placement| _ = placement.desired.entries.pop_first()),
        ("a role", |placement| {
            let entry = placement.desired.entries.values_mut().next();
            entry.expect("a VIP is placed").role = Role::Handover;
        }),
        ("an own MAC", |placement| _ = placement.desired.own_macs.pop_first()),
        ("a bound address", |placement| placement.desired.binds.clear()),
        ("an obstacle", |placement| placement.problems.clear()),
        ("a VIP without room", |placement| placement.left_out.push([10, 0, 0, 11].into())),
    ];
    for (what, change) in table {
        assert_ne!(digest(change), same, "without or with another: {what}");
    }
}
