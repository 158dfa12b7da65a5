use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use proptest::prelude::*;

use super::*;
use crate::{
    host::{net::Interface, placement::Obstacle},
    services::{HostAddress, HostNetwork, Refusal},
};

fn net(text: &str) -> IpNet {
    text.parse().expect("an address with its prefix length")
}

/// An interface's addresses. A `!` before one marks a lifetime, a `*` an agent's mark.
fn interface(index: u32, name: &str, addresses: &[&str]) -> Interface {
    let marked = |mark: char| -> BTreeSet<IpAddr> {
        addresses.iter().filter_map(|text| Some(net(text.strip_prefix(mark)?).addr())).collect()
    };
    let addresses_of = addresses.iter().map(|text| net(text.trim_start_matches(['!', '*'])));
    Interface {
        addresses: addresses_of.collect(),
        leased: marked('!'),
        ours: marked('*'),
        loopback: name == "lo",
        ethernet: name != "lo",
        lower: (name == "vrrp.7").then_some(2),
        kind: if name == "vrrp.7" { "macvlan".to_owned() } else { String::new() },
        ..Interface::sample(index, name)
    }
}

fn view(interfaces: &[(&str, &[&str])]) -> NetView {
    let numbered = (1..).zip(interfaces);
    let interfaces = numbered.map(|(index, (name, addresses))| (index, interface(index, name, addresses)));
    NetView { interfaces: interfaces.collect(), ..NetView::default() }
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn an_address_by_which_the_host_is_reached_is_its_own() {
    let lo: (&str, &[&str]) = ("lo", &[]);
    let lan: (&str, &[&str]) = ("eth0", &["192.0.2.22/24"]);
    for (description, interfaces, ifindex, address, expected) in [
        ("with its subnet", vec![lo, lan], 2, "192.0.2.22/24", Owner::Host),
        (
            "a second one of the subnet",
            vec![lo, ("eth0", &["192.0.2.22/24", "192.0.2.23/24"])],
            2,
            "192.0.2.23/24",
            Owner::Host,
        ),
        (
            "a /32 beside it",
            vec![lo, ("eth0", &["192.0.2.22/24", "192.0.2.10/32"])],
            2,
            "192.0.2.10/32",
            Owner::Program,
        ),
        (
            "a /32 alone, as in clouds",
            vec![lo, ("eth0", &["192.0.2.10/32"])],
            2,
            "192.0.2.10/32",
            Owner::Host,
        ),
        (
            "two /32 alone",
            vec![lo, ("eth0", &["192.0.2.10/32", "192.0.2.11/32"])],
            2,
            "192.0.2.11/32",
            Owner::Host,
        ),
        (
            "a /32 by DHCP",
            vec![lo, ("eth0", &["192.0.2.22/24", "!192.0.2.10/32"])],
            2,
            "192.0.2.10/32",
            Owner::Host,
        ),
        (
            "a /32 beside one by DHCP",
            vec![lo, ("eth0", &["!192.0.2.10/32", "192.0.2.11/32"])],
            2,
            "192.0.2.11/32",
            Owner::Program,
        ),
        (
            "a /128 by DHCP",
            vec![lo, ("eth0", &["2001:db8::1/64", "!2001:db8::10/128"])],
            2,
            "2001:db8::10/128",
            Owner::Host,
        ),
        (
            "a /128 beside an IPv4 subnet",
            vec![lo, ("eth0", &["192.0.2.22/24", "2001:db8::10/128"])],
            2,
            "2001:db8::10/128",
            Owner::Host,
        ),
        (
            "a /128 beside its subnet",
            vec![lo, ("eth0", &["2001:db8::1/64", "2001:db8::10/128"])],
            2,
            "2001:db8::10/128",
            Owner::Program,
        ),
        (
            "keepalived's, on a macvlan",
            vec![lo, lan, ("vrrp.7", &["192.0.2.10/32"])],
            3,
            "192.0.2.10/32",
            Owner::Program,
        ),
        (
            "on another segment",
            vec![lo, lan, ("eth1", &["198.51.100.1/32"])],
            3,
            "198.51.100.1/32",
            Owner::Host,
        ),
        ("on lo", vec![("lo", &["192.0.2.10/32"]), lan], 1, "192.0.2.10/32", Owner::Unclear),
        (
            "on lo of a host without a subnet",
            vec![("lo", &["192.0.2.10/32"])],
            1,
            "192.0.2.10/32",
            Owner::Host,
        ),
        (
            "an agent's",
            vec![lo, ("eth0", &["192.0.2.22/24", "*192.0.2.10/32"])],
            2,
            "192.0.2.10/32",
            Owner::Agent,
        ),
        (
            "an agent's is no sign of another",
            vec![lo, ("eth0", &["*192.0.2.11/32", "192.0.2.10/32"])],
            2,
            "192.0.2.10/32",
            Owner::Host,
        ),
        ("an interface that has gone", vec![lo], 9, "192.0.2.10/32", Owner::Host),
    ] {
        assert_eq!(view(&interfaces).owner_of(ifindex, &net(address)), expected, "{description}");
    }
}

#[test]
fn of_a_host_address_at_another_node_it_is_known_only_for_ipv4_that_it_is_a_programs() {
    let lan: [IpAddr; 2] = [[192, 0, 2, 22].into(), "2001:db8::22".parse().expect("an address")];
    for (address, own, expected) in [
        ("192.0.2.10/32", &lan[..], Owner::Program),
        ("192.0.2.10/32", &lan[1..], Owner::Host),
        ("192.0.2.10/24", &lan[..], Owner::Host),
        ("2001:db8::10/128", &lan[..], Owner::Unclear),
        ("2001:db8::10/128", &lan[..1], Owner::Host),
    ] {
        assert_eq!(Owner::at_node(&net(address), own.iter().copied()), expected, "{address} {own:?}");
    }
    let remedy = Owner::Unclear.remedy("node b", &net("2001:db8::10/128"), "eth0");
    assert!(!remedy.contains("address del"), "{remedy}");
}

/// Returns all texts about an address that is to be a VIP.
fn texts(view: &NetView, ifindex: u32, net: IpNet) -> Vec<String> {
    let owner = view.owner_of(ifindex, &net);
    let obstacle = Obstacle::OwnAddress { vip: net.addr(), net, interface: view.name_of(ifindex), owner };
    let network = HostNetwork::of("node-a".into(), view, &[ifindex], BTreeSet::new());
    let own = network.addresses.into_iter().filter(|found| found.net == net);
    let refusals = own.map(|HostAddress { interface, net, owner, .. }| {
        let refusal = Refusal::OwnAddress { node: "node-a".into(), net, interface, owner };
        [refusal.to_string(), refusal.conflict()]
    });
    refusals.flatten().chain([obstacle.to_string()]).collect()
}

fn address() -> impl Strategy<Value = String> {
    let length = prop_oneof![Just(32), 24..32_u8];
    ("[!*]?", 1..5_u8, length).prop_map(|(mark, host, length)| format!("{mark}192.0.2.{host}/{length}"))
}

proptest! {
    #[test]
    fn no_text_has_a_host_take_away_or_force_the_last_of_its_own_addresses(
        addresses in prop::collection::btree_map(1..5_u8, address(), 1..4)
    ) {
        let addresses: Vec<&str> = addresses.values().map(String::as_str).collect();
        let view = view(&[("lo", &[]), ("eth0", &addresses)]);
        let eth0 = &view.interfaces[&2];
        for net in &eth0.addresses {
            // Written from the promise: what the host keeps if all that is named is removed.
            let kept = eth0.addresses.iter().filter(|net| {
                let texts = texts(&view, 2, **net);
                !texts.iter().any(|text| text.contains(&format!("ip address del {net}")))
            });
            let of_agent = eth0.ours.contains(&net.addr());
            prop_assert!(kept.count() > 0 || eth0.foreign_addresses().next().is_none(), "{addresses:?}");
            if !of_agent && (net.prefix_len() < 32 || eth0.leased.contains(&net.addr())) {
                for text in texts(&view, 2, *net) {
                    prop_assert!(!text.contains("address del") && !text.contains("force"), "{text}");
                    prop_assert!(text.contains("own address: choose another VIP"), "{text}");
                }
            }
        }
    }
}
