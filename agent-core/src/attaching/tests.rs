use super::*;

fn view(interfaces: &[&Interface]) -> NetView {
    let interfaces = interfaces.iter().map(|interface| (interface.index, (*interface).clone())).collect();
    NetView { interfaces, ..NetView::default() }
}

fn interface(kind: &str) -> Interface {
    Interface { kind: kind.to_owned(), ..Interface::sample(2, "eth0") }
}

#[test]
fn hardware_gets_native_first_and_software_gets_tc() {
    use Mode::{Generic, Native, Tc};
    let rows: [(&str, Attach, &[Mode]); 11] = [
        ("", Attach::Auto, &[Native, Tc]),
        ("veth", Attach::Auto, &[Tc]),
        ("vlan", Attach::Auto, &[Tc]),
        ("bond", Attach::Auto, &[Tc]),
        ("", Attach::Native, &[Native]),
        ("bond", Attach::Native, &[]),
        ("team", Attach::Native, &[]),
        ("bond", Attach::Generic, &[Generic]),
        ("", Attach::Tc, &[Tc]),
        ("", Attach::Generic, &[Generic]),
        ("veth", Attach::Generic, &[Generic]),
    ];
    for (kind, attach, expected) in rows {
        assert_eq!(attach.modes(&interface(kind), &NetView::default()), expected, "{attach:?} on {kind:?}");
    }
}

#[test]
fn hardware_that_carries_vlans_gets_tc() {
    let nic = interface("");
    let vlan = Interface { kind: "vlan".to_owned(), lower: Some(2), ..Interface::sample(3, "eth0.10") };
    let macvlan = Interface { kind: "macvlan".to_owned(), ..vlan.clone() };
    assert_eq!(Attach::Auto.modes(&nic, &view(&[&nic, &vlan])), [Mode::Tc]);
    assert_eq!(Attach::Auto.modes(&nic, &view(&[&nic, &macvlan])), [Mode::Native, Mode::Tc]);
    assert_eq!(Attach::Native.modes(&nic, &view(&[&nic, &vlan])), [Mode::Native], "by name");
    let why = WhyNotNative::of(&nic, &view(&[&nic, &vlan]), None, Some(true));
    assert_eq!(why, WhyNotNative::CarriesVlans);
}

#[test]
fn another_xdp_program_is_the_reason_before_the_driver_is() {
    let mut nic = interface("");
    let why = |nic: &Interface, own, offers| WhyNotNative::of(nic, &NetView::default(), own, offers);
    assert_eq!(why(&nic, None, Some(true)), WhyNotNative::Refused);
    assert_eq!(why(&nic, None, Some(false)), WhyNotNative::NotOffered);
    assert_eq!(why(&nic, None, None), WhyNotNative::Unknown);
    nic.xdp_programs = vec![40];
    assert_eq!(why(&nic, Some(40), Some(true)), WhyNotNative::Refused, "its own");
    assert_eq!(why(&nic, Some(41), Some(true)), WhyNotNative::Occupied);
    assert_eq!(why(&interface("bridge"), None, Some(true)), WhyNotNative::Software);
}
