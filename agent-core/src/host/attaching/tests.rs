use vipward_common::{ETHERTYPE_8021AD, ETHERTYPE_8021Q, VlanTag};

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
        ("bond", Attach::Native, &[Native]),
        ("team", Attach::Native, &[Native]),
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
fn hardware_that_takes_the_tags_of_its_vlan_devices_off_gets_tc() {
    let sees_tags = interface("");
    let strips = Interface { strips_tags: true, ..sees_tags.clone() };
    let device = |tag| {
        let device = Interface::sample(3, "eth0.10");
        Interface { kind: "vlan".to_owned(), lower: Some(2), vlan: Some(tag), ..device }
    };
    let vlan = device(VlanTag::new(ETHERTYPE_8021Q, 10));
    let service = device(VlanTag::new(ETHERTYPE_8021AD, 10));
    let macvlan = Interface { kind: "macvlan".to_owned(), vlan: None, ..vlan.clone() };
    let other_service = Interface { index: 4, ..service.clone() };
    let software = Interface { strips_tags: true, ..interface("bridge") };
    let native_first = [Mode::Native, Mode::Tc];
    assert_eq!(Attach::Auto.modes(&strips, &view(&[&strips, &vlan])), [Mode::Tc]);
    assert_eq!(Attach::Auto.modes(&sees_tags, &view(&[&sees_tags, &vlan])), native_first);
    assert_eq!(Attach::Auto.modes(&sees_tags, &view(&[&sees_tags, &service])), [Mode::Tc], "perhaps");
    assert_eq!(Attach::Auto.modes(&strips, &view(&[&strips, &macvlan])), native_first, "no VLAN device");
    assert_eq!(Attach::Native.modes(&strips, &view(&[&strips, &vlan])), [Mode::Native], "by name");
    let why = |nic: &Interface| WhyNotNative::of(nic, &view(&[nic, &vlan]), None, Some(true));
    assert_eq!(why(&strips), WhyNotNative::StripsTags);
    assert_eq!(why(&sees_tags), WhyNotNative::Refused);
    let rows = [
        ("a VLAN device", &strips, vec![&vlan], true),
        ("the card leaves tags on", &sees_tags, vec![&vlan], false),
        ("no VLAN device", &strips, vec![&macvlan], false),
        ("service tags too", &strips, vec![&vlan, &other_service], false),
        ("a software device", &software, vec![&vlan], false),
    ];
    for (what, nic, devices, expected) in rows {
        let view = view(&[&[nic], &*devices].concat());
        assert_eq!(WhyNotNative::is_offload_alone(nic, &view), expected, "{what}");
    }
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

/// A description, the wanted modes, the program's, true if it runs, true if a better one was refused,
/// and the step.
type Row = (&'static str, &'static [Mode], Mode, bool, bool, Step<'static>);

#[test]
fn a_better_mode_is_tried_beside_the_program_that_runs_until_it_is_refused() {
    use Mode::{Generic, Native, Tc};
    const AUTO: &[Mode] = &[Native, Tc];
    let rows: [Row; 9] = [
        ("the best", AUTO, Native, true, false, Step::Keep),
        ("a better one is possible", AUTO, Tc, true, false, Step::Add(&[Native])),
        ("the better one was refused", AUTO, Tc, true, true, Step::Keep),
        ("only another is wanted", &[Tc], Native, true, false, Step::Add(&[Tc])),
        ("only another is wanted, and one was refused", &[Tc], Native, true, true, Step::Add(&[Tc])),
        ("two kinds of XDP exclude each other", &[Generic], Native, true, false, Step::Replace),
        ("neither of two is this one", AUTO, Generic, true, false, Step::Replace),
        ("it does not run", AUTO, Native, false, false, Step::Replace),
        ("it does not run, and is the only one", &[Tc], Tc, false, true, Step::Replace),
    ];
    for (what, modes, mode, runs, refused, expected) in rows {
        assert_eq!(Step::of(modes, mode, runs, refused), expected, "{what}");
    }
}
