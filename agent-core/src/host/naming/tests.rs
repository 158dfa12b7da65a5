use super::*;

/// Returns a host with a card (eth0), which was called lan-old, and what `change` adds.
fn host(change: impl FnOnce(&mut Vec<Interface>)) -> NetView {
    let altnames = ["lan-old", "enp6s0"].map(str::to_owned).to_vec();
    let mut interfaces = vec![Interface { altnames, ..Interface::sample(2, "eth0") }];
    change(&mut interfaces);
    let interfaces = interfaces.into_iter().map(|interface| (interface.index, interface)).collect();
    NetView { interfaces, ..NetView::default() }
}

fn pattern(text: &str) -> InterfacePattern {
    text.parse().expect("a good pattern")
}

#[test]
fn a_user_names_an_interface_by_its_name_by_an_alternative_one_or_by_its_mac() {
    let view = host(|interfaces| interfaces.push(Interface::sample(3, "eth1")));
    for (text, named) in [
        ("eth0", Some(2)),
        ("lan-old", Some(2)),
        ("enp6s0", Some(2)),
        ("02:00:00:00:00:02", Some(2)),
        ("02-00-00-00-00-03", Some(3)),
        ("lan", None),
        ("02:00:00:00:00:04", None),
        ("00:00:00:00:00:00", None),
    ] {
        assert_eq!(view.named(text).map(|it| it.index), named, "{text}");
    }
    for (text, matched) in [
        ("enp6s0", vec![2]),
        ("lan-*", vec![2]),
        ("e*", vec![2, 3]),
        ("eth*", vec![2, 3]),
        ("02-00-00-00-00-03", vec![3]),
        ("02*", vec![]),
    ] {
        let pattern = pattern(text);
        let found = view.interfaces.values().filter(|it| view.matches(&pattern, it));
        assert_eq!(found.map(|it| it.index).collect::<Vec<_>>(), matched, "{text}");
    }
    let listed: Vec<_> = view.interfaces.values().map(Interface::listed).collect();
    assert_eq!(listed, ["eth0 (also lan-old, enp6s0)", "eth1"]);
}

/// One device on eth0's card: its index, its master, and the interface below it.
type Device = (u32, Option<u32>, Option<u32>);

/// A case, the master of eth0, the other devices, and the device that the MAC names.
type Row = (&'static str, Option<u32>, &'static [Device], Option<u32>);

#[test]
fn a_mac_names_the_lowest_device_of_its_card_that_speaks_for_itself() {
    let rows: [Row; 8] = [
        ("a VLAN on it", None, &[(4, None, Some(2))], Some(2)),
        ("a VLAN on its VLAN", None, &[(4, None, Some(2)), (5, None, Some(4))], Some(2)),
        ("a bond of it and another", Some(4), &[(3, Some(4), None), (4, None, None)], Some(4)),
        ("a bridge over it", Some(4), &[(4, None, None)], Some(4)),
        ("a bridge over it, with a VLAN", Some(4), &[(4, None, None), (5, None, Some(4))], Some(4)),
        ("a bridge over its VLAN", None, &[(4, Some(5), Some(2)), (5, None, None)], Some(2)),
        (
            "a bridge over it, and one over its VLAN",
            Some(6),
            &[(4, Some(5), Some(2)), (5, None, None), (6, None, None)],
            Some(6),
        ),
        ("another card with its MAC", None, &[(4, None, None)], None),
    ];
    for (what, master, devices, expected) in rows {
        let view = host(|interfaces| {
            let mac = interfaces[0].mac;
            interfaces[0].master = master;
            let device = |(index, master, lower): &Device| {
                let name = format!("dev{index}");
                Interface { mac, master: *master, lower: *lower, ..Interface::sample(*index, &name) }
            };
            interfaces.extend(devices.iter().map(device));
        });
        assert_eq!(view.named("02:00:00:00:00:02").map(|it| it.index), expected, "{what}");
        let matching = view.interfaces.values().filter(|it| view.matches(&pattern("02:00:00:00:00:02"), it));
        assert_eq!(matching.map(|it| it.index).next(), expected, "{what}");
    }
}

#[test]
fn a_mac_of_its_own_names_a_device_above_another() {
    let view = host(|interfaces| {
        interfaces.push(Interface { lower: Some(2), ..Interface::sample(4, "macvlan0") });
        interfaces[0].master = Some(5);
        interfaces.push(Interface::sample(5, "br0"));
    });
    assert_eq!(view.named("02:00:00:00:00:04").map(|it| it.index), Some(4));
    assert_eq!(view.named("02:00:00:00:00:02").map(|it| it.index), Some(2), "a port of a bridge");
}
