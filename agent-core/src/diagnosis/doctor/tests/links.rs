use vipward_common::{ETHERTYPE_8021Q, Proof, Role, Twin, VipFault, VlanTag};

use super::*;
use crate::host::attaching::Mode;
use State::{Green, NotApplicable, Red, Unknown, Yellow};

fn generic(facts: &mut Facts) {
    facts.pinned().links[0].mode = Mode::Generic;
}

fn tc(facts: &mut Facts) {
    facts.pinned().links[0].mode = Mode::Tc;
    facts.interface(2).xdp_programs.clear();
    facts.interface(2).tc_programs = Some(vec![OURS]);
    facts.nic_mut().tc = Read(vec![TcProgram { id: OURS, name: None, ingress: true }]);
}

fn veth(facts: &mut Facts) {
    facts.interface(2).kind = "veth".to_owned();
    facts.nic_mut().driver = Read("veth".to_owned());
    facts.nic_mut().peer = Read(Some(3));
}

/// Makes the interface a veth, with its other end in the same namespace.
fn veth_pair(facts: &mut Facts) {
    veth(facts);
    add(facts.view(), 3, "veth-far", |it| it.kind = "veth".to_owned());
    facts.nics.insert(3, nic());
}

fn foreign_program(facts: &mut Facts) {
    facts.interface(2).xdp_programs = vec![99];
    facts.plane = Read(None);
}

fn tc_program(name: Option<&str>, ingress: bool) -> Vec<TcProgram> {
    vec![TcProgram { id: 7, name: name.map(ToOwned::to_owned), ingress }]
}

fn vlan_device(facts: &mut Facts) {
    facts.nic_mut().vlan_offload = Read(true);
    facts.interface(2).strips_tags = true;
    add(facts.view(), 5, "eth0.7", |it| {
        (it.kind, it.up, it.lower) = ("vlan".to_owned(), false, Some(2));
        it.vlan = Some(VlanTag::new(ETHERTYPE_8021Q, 7));
    });
}

fn member_of(facts: &mut Facts, kind: &str) {
    let kind = kind.to_owned();
    facts.interface(2).master = Some(8);
    add(facts.view(), 8, "br0", |it| (it.kind, it.up) = (kind, false));
}

fn twin(facts: &mut Facts, twin: Twin) {
    facts.contents_mut().twins.insert(2, twin);
}

fn finding(facts: &mut Facts, proof: Proof) {
    facts.contents_mut().proofs.insert(2, proof);
}

#[test]
fn whether_the_program_sees_the_frames_that_the_kernel_receives() {
    let other = &["bpftool net show dev eth0", "attach"];
    assert_rows(
        Some("eth0"),
        &[
            ("no own frames", |_| {}, "own-frames", Green, &["none"], &[]),
            ("a loop", |it| twin(it, Twin::Loop), "own-frames", Red, &["has a loop"], &["spanning tree"]),
            (
                "a clone",
                |it| twin(it, Twin::Clone),
                "own-frames",
                Red,
                &["a cloned machine"],
                &["its own MAC"],
            ),
            ("proven", |_| {}, "proof", Green, &["counts the frames"], &[]),
            ("unproven", |it| finding(it, Proof::Unproven), "proof", NotApplicable, &["unproven"], &[]),
            ("blind", |it| finding(it, Proof::Blind), "proof", Red, &["does not count"], other),
            (
                "bypassed",
                |it| finding(it, Proof::Bypassed),
                "proof",
                Red,
                &["bypassed", "get past it"],
                other,
            ),
            (
                "blind, and not attached any more",
                |it| {
                    finding(it, Proof::Blind);
                    it.interface(2).xdp_programs.clear();
                },
                "proof",
                NotApplicable,
                &["not attached"],
                &[],
            ),
            ("nothing is pinned", |it| it.plane = Read(None), "proof", NotApplicable, &["not attached"], &[]),
        ],
    );
}

#[test]
fn whether_the_network_takes_the_frames_from_vips() {
    let words = &["allowed_address_pairs", "forged transmits", "spoofing", "ipfilter", "inspection"];
    assert_rows(
        Some("eth0"),
        &[
            ("nothing speaks against it", |_| {}, "egress", Green, &["drops", "its VIP"], &[]),
            (
                "no VIP is held",
                |it| it.contents_mut().entries.clear(),
                "egress",
                NotApplicable,
                &["no VIP"],
                &[],
            ),
            ("unheard", |it| finding_about_the_vip(it, Role::Held), "egress", Red, &["192.0.2.10"], words),
            (
                "blind",
                |it| {
                    finding_about_the_vip(it, Role::Held);
                    it.contents_mut().entries[0].fault = Some(VipFault::Blind);
                },
                "egress",
                Red,
                &["requests for 192.0.2.10", "unicast"],
                &["broadcasts"],
            ),
            (
                "released since",
                |it| finding_about_the_vip(it, Role::Foreign),
                "egress",
                NotApplicable,
                &[],
                &[],
            ),
            ("no program", |it| it.interface(2).xdp_programs.clear(), "egress", NotApplicable, &[], &[]),
        ],
    );
    let mut facts = healthy();
    finding_about_the_vip(&mut facts, Role::Held);
    assert!(!passes(&examine(&facts), false));
}

fn finding_about_the_vip(facts: &mut Facts, role: Role) {
    let entry = &mut facts.contents_mut().entries[0];
    (entry.role, entry.fault) = (role, Some(VipFault::Unheard));
}

#[test]
fn that_no_request_came_is_a_remark() {
    let remark = |facts: &Facts| {
        let proof = examine(facts).into_iter().find(|it| it.subject == "proof").expect("a row");
        assert_eq!(proof.state, Green);
        proof.details
    };
    let mut facts = healthy();
    assert_eq!(remark(&facts).len(), 1, "{:?}", remark(&facts));
    let count = facts.contents_mut().entries[0].count.as_mut().expect("counters");
    count.answered = 1;
    assert_eq!(remark(&facts), [""; 0]);
    facts.contents_mut().entries[0].count = None;
    assert_eq!(remark(&facts), [""; 0], "unknown");
    facts.contents_mut().entries.clear();
    assert_eq!(remark(&facts), [""; 0], "no VIP is held");
}

#[test]
fn a_wireless_interface_should_be_promiscuous() {
    assert_rows(
        Some("eth0"),
        &[
            ("a cable", |_| {}, "wireless", NotApplicable, &["not wireless"], &[]),
            (
                "wireless",
                |it| it.nic_mut().wireless = Read(Some(Wireless { is_promiscuous: false })),
                "wireless",
                Yellow,
                &["firmware"],
                &["ip link set eth0 promisc on", "who-has"],
            ),
            (
                "promiscuous",
                |it| it.nic_mut().wireless = Read(Some(Wireless { is_promiscuous: true })),
                "wireless",
                Green,
                &["promiscuous"],
                &[],
            ),
        ],
    );
}

#[test]
fn whether_an_interface_carries_and_how_the_program_runs_on_it() {
    assert_rows(
        Some("eth0"),
        &[
            ("carrier", |_| {}, "link", Green, &["up, carrier", "mlx5_core", "02:00:00:00:00:02"], &[]),
            ("down", |it| it.interface(2).up = false, "link", Red, &["down"], &["ip link set eth0 up"]),
            (
                "no carrier",
                |it| it.interface(2).carrier = false,
                "link",
                Red,
                &["without carrier"],
                &["cable", "not answered"],
            ),
            ("native", |_| {}, "program", Green, &["native, program 40"], &[]),
            (
                "tc, and native offered",
                tc,
                "program",
                Yellow,
                &["tc, program 40", "offers native"],
                &["refused", "MTU"],
            ),
            (
                "tc, and VLAN devices",
                |it| {
                    tc(it);
                    vlan_device(it);
                },
                "program",
                Green,
                &["takes VLAN tags off", "rxvlan off"],
                &[],
            ),
            (
                "tc, and no native",
                |it| {
                    tc(it);
                    it.nic_mut().native = Read(false);
                },
                "program",
                Green,
                &["tc, program 40", "has no native XDP"],
                &[],
            ),
            (
                "generic, and no native",
                |it| {
                    generic(it);
                    it.nic_mut().native = Read(false);
                },
                "program",
                Yellow,
                &["generic", "has no native XDP"],
                &["attach: auto", "copies"],
            ),
            (
                "tc, and an old kernel",
                |it| {
                    tc(it);
                    it.nic_mut().native = Fact::failed("no such family");
                },
                "program",
                Green,
                &["which is unknown: no such family"],
                &[],
            ),
            (
                "tc on a veth",
                |it| {
                    tc(it);
                    veth(it);
                },
                "program",
                Green,
                &["tc", "software device"],
                &[],
            ),
            (
                "tc beside another XDP program",
                |it| {
                    tc(it);
                    it.interface(2).xdp_programs = vec![99];
                },
                "program",
                Green,
                &["another XDP program"],
                &[],
            ),
        ],
    );
}

#[test]
fn whether_the_kernel_runs_the_program_on_an_interface() {
    assert_rows(
        Some("eth0"),
        &[
            (
                "tc on a NIC that was not looked at",
                |it| {
                    tc(it);
                    it.nics.clear();
                },
                "program",
                Green,
                &["which is unknown: the interface was not inspected"],
                &[],
            ),
            (
                "detached behind our back",
                |it| it.interface(2).xdp_programs.clear(),
                "program",
                Red,
                &["program 40 is not on eth0"],
                &["start the agent again"],
            ),
            (
                "tc detached behind our back",
                |it| {
                    tc(it);
                    it.interface(2).tc_programs = Some(Vec::new());
                },
                "program",
                Red,
                &["tc is pinned", "program 40 is not on eth0"],
                &["start the agent again"],
            ),
            (
                "the link cannot be read",
                |it| it.pinned().links[0].ids = Fact::failed("EPERM"),
                "program",
                Unknown,
                &["EPERM"],
                &[],
            ),
            (
                "not attached",
                |it| {
                    it.plane = Read(None);
                    it.interface(2).xdp_programs.clear();
                },
                "program",
                NotApplicable,
                &["would attach in mode native"],
                &[],
            ),
            (
                "not attached to a veth",
                |it| {
                    it.plane = Read(None);
                    veth(it);
                },
                "program",
                NotApplicable,
                &["would attach in mode tc"],
                &[],
            ),
        ],
    );
}

#[test]
fn what_else_is_on_an_interface_and_how_large_its_packets_are() {
    assert_rows(
        Some("eth0"),
        &[
            ("only Vipward's", |_| {}, "other-xdp", Green, &["none"], &[]),
            (
                "another, with its name",
                |it| {
                    foreign_program(it);
                    it.nic_mut().xdp_names.insert(99, "xdp_dispatcher".to_owned());
                },
                "other-xdp",
                Yellow,
                &["program 99 (xdp_dispatcher)"],
                &["passes ARP on", "ip link set eth0 xdp off"],
            ),
            (
                "another, beside tc",
                |it| {
                    tc(it);
                    it.interface(2).xdp_programs = vec![99];
                },
                "other-xdp",
                Yellow,
                &["program 99", "sees the frames before tc"],
                &["passes ARP on"],
            ),
            (
                "its owner is not known",
                |it| it.plane = Fact::failed("denied"),
                "other-xdp",
                Unknown,
                &["denied"],
                &[],
            ),
            (
                "the link cannot be read: its owner is not known",
                |it| it.pinned().links[0].ids = Fact::failed("EPERM"),
                "other-xdp",
                Unknown,
                &["EPERM"],
                &[],
            ),
            (
                "whether it is attached is not known",
                |it| it.plane = Fact::failed("denied"),
                "program",
                Unknown,
                &[],
                &[],
            ),
            (
                "a veth, and its mode is not known",
                |it| {
                    veth(it);
                    it.plane = Fact::failed("denied");
                },
                "veth-peer",
                Unknown,
                &["denied"],
                &[],
            ),
            ("another without a name", foreign_program, "other-xdp", Yellow, &["program 99:"], &["detach"]),
            ("a small packet", |_| {}, "mtu", Green, &["1500 bytes"], &[]),
            (
                "large packets, and tc for it",
                |it| {
                    tc(it);
                    it.nic_mut().mtu_bytes = Read(9_000);
                },
                "mtu",
                Yellow,
                &["9000 bytes"],
                &["ip link set eth0 mtu 3498"],
            ),
            (
                "large packets, and native",
                |it| it.nic_mut().mtu_bytes = Read(9_000),
                "mtu",
                Green,
                &["9000"],
                &[],
            ),
            ("no MTU", |it| it.nic_mut().mtu_bytes = Fact::failed("gone"), "mtu", Unknown, &["gone"], &[]),
        ],
    );
}

#[test]
fn who_else_handles_the_frames_of_an_interface() {
    assert_rows(
        Some("eth0"),
        &[
            ("no other program", |_| {}, "tc", Green, &["no other BPF program"], &[]),
            ("only Vipward's", tc, "tc", Green, &["no other BPF program"], &[]),
            (
                "one that runs before Vipward's",
                |it| {
                    tc(it);
                    it.nic_mut().tc.read_mut().splice(..0, tc_program(Some("shaper"), true));
                },
                "tc",
                Yellow,
                &["shaper", "runs before Vipward's"],
                &["vipward unload", "bpftool net"],
            ),
            (
                "one that runs after Vipward's",
                |it| {
                    tc(it);
                    it.nic_mut().tc.read_mut().extend(tc_program(Some("shaper"), true));
                },
                "tc",
                Green,
                &["shaper", "behind Vipward's"],
                &[],
            ),
            (
                "Cilium",
                |it| it.nic_mut().tc = Read(tc_program(Some("cil_from_netdev"), true)),
                "tc",
                Yellow,
                &["ingress program 7 (cil_from_netdev)"],
                &["l2announcements.enabled"],
            ),
            (
                "one that cannot be named",
                |it| it.nic_mut().tc = Read(tc_program(None, true)),
                "tc",
                Yellow,
                &["ingress program 7"],
                &["no concern"],
            ),
            (
                "another",
                |it| it.nic_mut().tc = Read(tc_program(Some("shaper"), true)),
                "tc",
                Green,
                &["shaper", "no concern"],
                &[],
            ),
            (
                "Cilium's egress",
                |it| it.nic_mut().tc = Read(tc_program(Some("cil_to_netdev"), false)),
                "tc",
                Green,
                &["egress program 7"],
                &[],
            ),
            ("not allowed", |it| it.nic_mut().tc = Fact::failed("EPERM"), "tc", Unknown, &["EPERM"], &[]),
            ("tags are seen", |_| {}, "vlan-offload", Green, &["off"], &[]),
            (
                "tags are hidden, and tc sees them",
                |it| {
                    vlan_device(it);
                    tc(it);
                },
                "vlan-offload",
                Green,
                &["tc sees VLAN tags"],
                &[],
            ),
            (
                "tags are hidden, and there are none",
                |it| it.nic_mut().vlan_offload = Read(true),
                "vlan-offload",
                Green,
                &["no VLAN device"],
                &[],
            ),
            (
                "tags are hidden",
                vlan_device,
                "vlan-offload",
                Yellow,
                &["eth0.7"],
                &["ethtool -K eth0 rxvlan off"],
            ),
            (
                "no ethtool",
                |it| it.nic_mut().vlan_offload = Fact::failed("EOPNOTSUPP"),
                "vlan-offload",
                Unknown,
                &[],
                &[],
            ),
        ],
    );
}

#[test]
fn whether_others_speak_for_an_interface() {
    assert_rows(
        Some("eth0"),
        &[
            ("a NIC", |_| {}, "veth-peer", NotApplicable, &["no veth"], &[]),
            (
                "a veth in mode tc",
                |it| {
                    tc(it);
                    veth(it);
                },
                "veth-peer",
                Green,
                &["needs nothing"],
                &[],
            ),
            (
                "a veth without the program",
                |it| {
                    it.plane = Read(None);
                    veth(it);
                },
                "veth-peer",
                NotApplicable,
                &["mode tc"],
                &[],
            ),
            (
                "native, and the other end has no program",
                veth_pair,
                "veth-peer",
                Red,
                &["veth-far", "runs no XDP program", "GRO is on", "nothing is answered"],
                &["attach: auto"],
            ),
            (
                "native, and the other end has one",
                |it| {
                    veth_pair(it);
                    it.interface(3).xdp_programs = vec![50];
                },
                "veth-peer",
                Green,
                &["veth-far", "too"],
                &[],
            ),
            (
                "native, and the other end is elsewhere, under an index that is another interface's here",
                |it| {
                    veth_pair(it);
                    it.nic_mut().peer = Read(None);
                },
                "veth-peer",
                Unknown,
                &["another network namespace"],
                &["attach: auto"],
            ),
            ("no member", |_| {}, "member", Green, &["no bond or bridge"], &[]),
            (
                "of a bridge",
                |it| member_of(it, "bridge"),
                "member",
                Yellow,
                &["of bridge br0"],
                &["interfaces: [br0]", "--interface br0"],
            ),
            ("of a bond", |it| member_of(it, "bond"), "member", Yellow, &["of bond br0"], &["br0"]),
            ("of a VRF", |it| member_of(it, "vrf"), "member", Green, &["VRF br0"], &[]),
        ],
    );
}

#[test]
fn an_interface_that_is_asked_for_and_is_not_there_is_red() {
    let mut facts = healthy();
    facts.wanted = vec!["eth9".parse().expect("a name"), "eth*".parse().expect("a glob")];
    let checks = examine(&facts);
    let missing = checks.iter().find(|it| it.interface.as_deref() == Some("eth9")).expect("a check of it");
    assert_eq!((missing.subject, missing.state), ("link", Red));
    assert!(missing.found.contains("no such interface"), "{missing:?}");
    assert!(checks.iter().any(|it| it.interface.as_deref() == Some("eth0") && it.subject == "program"));
}

#[test]
fn a_host_without_an_interface_for_vips_says_so() {
    let mut facts = healthy();
    facts.plane = Read(None);
    facts.interface(2).ethernet = false;
    let checks = examine(&facts);
    let link = checks.iter().find(|it| it.subject == "link").expect("a check of it");
    assert_eq!(link.state, Red);
    assert!(link.found.contains("no interface"), "{link:?}");
}

#[test]
fn an_interface_that_has_a_link_is_looked_at_though_it_is_down_and_excluded() {
    let mut facts = healthy();
    facts.interface(2).name = "veth7".to_owned();
    facts.interface(2).up = false;
    let checks = examine(&facts);
    let link = checks.iter().find(|it| it.subject == "link").expect("a check of it");
    assert_eq!((link.interface.as_deref(), link.state), (Some("veth7"), Red));
}
