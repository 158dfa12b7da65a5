use std::{collections::BTreeMap, net::IpAddr};

use proptest::prelude::*;
use vipward_common::{ETHERTYPE_8021AD, ETHERTYPE_8021Q, MacAddr, Role, VlanKey};

use super::*;
use crate::{
    config::Config,
    host::{
        net::ConnectedRoute,
        placement::{Wanted, place},
    },
};

#[derive(Clone, Debug)]
enum Link {
    Card { strips: bool },
    Vlan { service: bool, id: u16, on: u32 },
    Macvlan { on: u32 },
    Master { kind: &'static str, ports: Vec<u32> },
}

/// Returns a view of links, whose index is their position from 1. Each has a subnet of its own.
fn view(links: &[Link]) -> NetView {
    let mut view = NetView::default();
    for (index, link) in (1..).zip(links) {
        let mut interface = Interface::sample(index, &format!("if{index}"));
        match link {
            Link::Card { strips } => interface.strips_tags = *strips,
            Link::Vlan { service, id, on } => {
                let ethertype = if *service { ETHERTYPE_8021AD } else { ETHERTYPE_8021Q };
                interface.kind = "vlan".to_owned();
                (interface.vlan, interface.lower) = (Some(VlanTag::new(ethertype, *id)), Some(*on));
            }
            Link::Macvlan { on } => (interface.kind, interface.lower) = ("macvlan".to_owned(), Some(*on)),
            Link::Master { kind, .. } => interface.kind = (*kind).to_owned(),
        }
        let subnet = format!("10.0.{index}.1/24").parse().expect("a subnet");
        interface.addresses.push(subnet);
        view.routes.push(ConnectedRoute { prefix: subnet.trunc(), interface: index, metric: 0 });
        view.interfaces.insert(index, interface);
    }
    for (index, link) in (1..).zip(links) {
        let Link::Master { ports, .. } = link else { continue };
        for port in ports {
            view.interfaces.get_mut(port).expect("a port").master = Some(index);
        }
    }
    view
}

fn key(ifindex: u32, outer: u16, inner: u16) -> VlanKey {
    VlanKey { ifindex, outer, inner }
}

fn point(view: &NetView, device: u32, programs: &[(u32, Mode)]) -> Option<(VlanKey, Mode)> {
    let mode_of = |ifindex| programs.iter().find(|(index, _)| *index == ifindex).map(|(_, mode)| *mode);
    let point = view.point_of(&view.interfaces[&device], mode_of)?;
    Some((VlanKey::new(point.ifindex, point.tags), point.mode))
}

#[test]
fn the_program_of_the_lowest_interface_that_sees_the_tags_decides_for_a_vlan_device() {
    use Mode::{Native, Tc};
    let card = |strips| Link::Card { strips };
    let vlan = |id, on| Link::Vlan { service: false, id, on };
    let qinq = [card(false), Link::Vlan { service: true, id: 100, on: 1 }, vlan(7, 2), vlan(9, 3)];
    let on_a_bond = [card(true), Link::Master { kind: "bond", ports: vec![1] }, vlan(7, 2)];
    let rows = [
        ("native", point(&view(&[card(false), vlan(7, 1)]), 2, &[(1, Native)]), Some((key(1, 7, 0), Native))),
        ("no program below", point(&view(&[card(false), vlan(7, 1)]), 2, &[]), None),
        ("a card that strips, in XDP", point(&view(&[card(true), vlan(7, 1)]), 2, &[(1, Native)]), None),
        (
            "a card that strips, in tc",
            point(&view(&[card(true), vlan(7, 1)]), 2, &[(1, Tc)]),
            Some((key(1, 7, 0), Tc)),
        ),
        ("a service tag in XDP", point(&view(&qinq), 2, &[(1, Native)]), None),
        ("a service tag in tc", point(&view(&qinq), 2, &[(1, Tc)]), Some((key(1, 0x8064, 0), Tc))),
        ("two tags", point(&view(&qinq), 3, &[(1, Tc)]), Some((key(1, 0x8064, 7), Tc))),
        ("two tags, from the middle", point(&view(&qinq), 3, &[(2, Tc)]), Some((key(2, 7, 0), Tc))),
        ("the lowest of two", point(&view(&qinq), 3, &[(1, Tc), (2, Tc)]), Some((key(1, 0x8064, 7), Tc))),
        ("three tags", point(&view(&qinq), 4, &[(1, Tc)]), None),
        ("three tags, from the middle", point(&view(&qinq), 4, &[(2, Tc)]), Some((key(2, 7, 9), Tc))),
        ("on a bond", point(&view(&on_a_bond), 3, &[(2, Tc)]), Some((key(2, 7, 0), Tc))),
        ("its own program is none below", point(&view(&on_a_bond), 3, &[(3, Tc)]), None),
        ("a bond's port is not below a tag", point(&view(&on_a_bond), 3, &[(1, Tc)]), None),
        ("no VLAN device", point(&view(&on_a_bond), 2, &[(1, Tc)]), None),
        ("VLAN 0", point(&view(&[card(false), vlan(0, 1)]), 2, &[(1, Tc)]), None),
    ];
    for (what, found, expected) in rows {
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn ports_and_macvlan_devices_are_on_the_segment_of_their_interface_and_vlan_devices_on_their_own() {
    let view = view(&[
        Link::Card { strips: false },
        Link::Master { kind: "bond", ports: vec![1] },
        Link::Macvlan { on: 2 },
        Link::Vlan { service: false, id: 7, on: 2 },
        Link::Macvlan { on: 4 },
        Link::Master { kind: "vrf", ports: vec![4] },
        Link::Card { strips: false },
    ]);
    let expected = [(1, 2), (2, 2), (3, 2), (4, 4), (5, 4), (6, 6), (7, 7), (99, 99)];
    assert_eq!(expected.map(|(ifindex, _)| (ifindex, view.segment_of(ifindex))), expected);
}

#[test]
fn xdp_sees_the_tags_that_stand_in_the_frame() {
    use Mode::{Generic, Native, Tc};
    let vlan = |on| Link::Vlan { service: false, id: 7, on };
    let card = |strips| Link::Card { strips };
    let bond = |strips| view(&[card(strips), Link::Master { kind: "bond", ports: vec![1] }, vlan(2)]);
    let bridge = view(&[card(false), Link::Master { kind: "bridge", ports: vec![1] }, vlan(2)]);
    let macvlan = view(&[card(false), Link::Macvlan { on: 1 }, vlan(2)]);
    let rows = [
        ("a card", view(&[card(false), vlan(1)]), 1, [(Native, false), (Generic, false), (Tc, false)]),
        (
            "a card that strips",
            view(&[card(true), vlan(1)]),
            1,
            [(Native, true), (Generic, true), (Tc, false)],
        ),
        ("no VLAN device", view(&[card(true)]), 1, [(Native, false), (Generic, false), (Tc, false)]),
        ("a bond, on its ports", bond(false), 2, [(Native, false), (Generic, true), (Tc, false)]),
        ("a bond whose port strips", bond(true), 2, [(Native, true), (Generic, true), (Tc, false)]),
        ("a bridge", bridge, 2, [(Native, true), (Generic, true), (Tc, false)]),
        ("a macvlan device", macvlan, 2, [(Native, true), (Generic, true), (Tc, false)]),
    ];
    for (what, view, ifindex, modes) in rows {
        for (mode, hides) in modes {
            assert_eq!(view.hides_tags(&view.interfaces[&ifindex], mode), hides, "{what}, {mode}");
        }
    }
}

#[test]
fn a_bonds_frames_are_seen_on_its_active_port_or_on_all_in_native_mode_and_on_itself_in_tc() {
    let card = || Link::Card { strips: false };
    let vlan = Link::Vlan { service: false, id: 7, on: 3 };
    let mut view = view(&[card(), card(), Link::Master { kind: "bond", ports: vec![1, 2] }, vlan]);
    let keys = |view: &NetView, mode, tags| view.keys_of(&Point { ifindex: 3, mode, tags });
    let tags = VlanTags::NONE.then(VlanTag::new(ETHERTYPE_8021Q, 7));
    assert_eq!(keys(&view, Mode::Native, VlanTags::NONE), [key(1, 0, 0), key(2, 0, 0)].into());
    assert_eq!(keys(&view, Mode::Native, tags), [key(1, 7, 0), key(2, 7, 0)].into());
    assert_eq!(keys(&view, Mode::Tc, tags), [key(3, 7, 0)].into());
    view.interfaces.get_mut(&3).expect("the bond").active_port = Some(2);
    assert_eq!(keys(&view, Mode::Native, VlanTags::NONE), [key(2, 0, 0)].into(), "the other has copies");
    assert_eq!(keys(&view, Mode::Native, tags), [key(2, 7, 0)].into());
}

#[test]
fn nothing_below_answers_for_a_device_that_is_down() {
    let mut view = view(&[Link::Card { strips: false }, Link::Vlan { service: false, id: 7, on: 1 }]);
    view.interfaces.get_mut(&2).expect("the device").up = false;
    assert_eq!(point(&view, 2, &[(1, Mode::Tc)]), None);
}

/// Returns a link above those with smaller indices. `free` are those without a master.
fn link(index: u32) -> impl Strategy<Value = (u8, u32, Vec<u32>, bool, u16)> {
    let below = 1..index.max(2);
    let ports = proptest::collection::vec(below.clone(), 1..4);
    (0_u8..5, below, ports, any::<bool>(), 1_u16..4_095)
}

fn stacks() -> impl Strategy<Value = Vec<Link>> {
    (2_u32..10).prop_flat_map(|count| (1..=count).map(link).collect::<Vec<_>>()).prop_map(|choices| {
        let mut taken = BTreeSet::new();
        let mut links: Vec<Link> = Vec::new();
        for (kind, on, ports, flag, id) in choices {
            let is_first = links.is_empty();
            let mut free = |ports: Vec<u32>| ports.into_iter().filter(|port| taken.insert(*port)).collect();
            links.push(match kind {
                1 if !is_first => Link::Vlan { service: flag, id, on },
                2 if !is_first => Link::Macvlan { on },
                3 if !is_first => Link::Master { kind: "bond", ports: free(ports) },
                4 if !is_first => Link::Master { kind: "bridge", ports: free(ports) },
                _ => Link::Card { strips: flag },
            });
        }
        links
    })
}

/// Returns the links below one, from the definition of the stack.
fn below(links: &[Link], index: u32) -> BTreeSet<u32> {
    let direct = match &links[index as usize - 1] {
        Link::Card { .. } => Vec::new(),
        Link::Vlan { on, .. } | Link::Macvlan { on } => vec![*on],
        Link::Master { ports, .. } => ports.clone(),
    };
    direct.into_iter().flat_map(|link| below(links, link).into_iter().chain([link])).collect()
}

proptest! {
    /// Wherever a VIP is in a stack, this host is silent about it on all interfaces except its own
    /// and those below.
    #[test]
    fn no_silent_entry_is_on_a_link_over_which_the_vips_frames_arrive(links in stacks()) {
        let view = view(&links);
        let all: BTreeSet<u32> = view.interfaces.keys().copied().collect();
        let names: Vec<String> = all.iter().map(|index| format!("if{index}")).collect();
        let vips: Vec<String> = all.iter().map(|index| format!("{{address: 10.0.{index}.10}}")).collect();
        let text = format!("interfaces: [{}]\nvips: [{}]\n", names.join(", "), vips.join(", "));
        let config = Config::parse(&text, "vipward.yaml", "host").expect("a good configuration");
        let wanted = config.vips.iter().map(Wanted::from);
        let placement = place(&config.selection(), wanted, &view, &BTreeMap::new(), &|_| false, 1_024);
        for index in &all {
            let addr = IpAddr::from([10, 0, u8::try_from(*index).expect("few"), 10]);
            let entries = placement.desired.entries.iter().filter(|(key, _)| key.addr == addr);
            let (held, silent): (Vec<_>, Vec<_>) = entries.partition(|(_, entry)| entry.role == Role::Held);
            prop_assert_eq!(held.iter().map(|(key, _)| key.ifindex).collect::<Vec<_>>(), [*index]);
            let silent: BTreeSet<u32> = silent.iter().map(|(key, _)| key.ifindex).collect();
            let path = below(&links, *index);
            let expected: BTreeSet<u32> =
                all.iter().copied().filter(|other| other != index && !path.contains(other)).collect();
            prop_assert_eq!(silent, expected, "of the VIP on if{}", index);
        }
    }

    /// A frame of a VLAN device comes to its point with the tags of the devices in between.
    #[test]
    fn a_point_is_reached_over_vlan_devices_alone(
        links in stacks(),
        programs in proptest::collection::vec(any::<Option<bool>>(), 10),
    ) {
        let view = view(&links);
        let mode_of = |ifindex: u32| {
            programs[ifindex as usize].map(|tc| if tc { Mode::Tc } else { Mode::Native })
        };
        for device in view.interfaces.values() {
            let Some(point) = view.point_of(device, mode_of) else { continue };
            let (mut at, mut tags) = (device.index, Vec::new());
            while at != point.ifindex {
                let Link::Vlan { service, id, on } = links[at as usize - 1] else { panic!("no VLAN device") };
                tags.insert(0, if service { 0x8000 | id } else { id });
                at = on;
            }
            tags.resize(2, 0);
            prop_assert_eq!(VlanKey::new(point.ifindex, point.tags), key(point.ifindex, tags[0], tags[1]));
            prop_assert_eq!(Some(point.mode), mode_of(point.ifindex));
        }
    }
}

#[test]
fn a_loop_of_links_ends() {
    let mut view = view(&[Link::Card { strips: false }, Link::Macvlan { on: 1 }]);
    view.interfaces.get_mut(&1).expect("a card").lower = Some(2);
    assert_eq!(view.path(2), BTreeSet::from([1]));
    assert_ne!(view.interfaces[&1].mac, MacAddr::ZERO);
}
