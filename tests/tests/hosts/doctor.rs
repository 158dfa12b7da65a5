//! `vipward doctor` on hosts with a fault: the right check reports it, with a remedy.

mod fence;
pub(crate) mod report;
mod sight;

use anyhow::Result;
use vipward_tests::{
    agent::{
        AgentOptions, Attachment, Bpffs, HOLDS_ONE, NODE, Node, PATIENCE, Pair, Scene, VIP, net, start_agent,
    },
    frames::Family,
    kit::{output_of, wait_until},
    lan::{Hook, Hooked, Host, Lan, Nic},
};

use report::{ILL, doctor, doctor_at};

pub(crate) const GREEN: &str = "green";
const YELLOW: &str = "yellow";
pub(crate) const RED: &str = "red";
const UNKNOWN: &str = "unknown";
pub(crate) const NOT_APPLICABLE: &str = "not-applicable";

#[test]
fn on_a_healthy_host_nothing_is_red_and_what_runs_is_green() -> Result<()> {
    let node = Node::start("healthy", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    let report = doctor(&node, &[])?;
    assert_eq!(report.code, 0, "{report}");
    assert_eq!(report.of_state(RED), Vec::<String>::new(), "{report}");
    let pid = format!("pid {}", node.agent.pid()?);
    for (check, interface, found) in [
        ("kernel", None, ""),
        ("btf", None, "/sys/kernel/btf/vmlinux"),
        ("capabilities", None, "the agent has CAP_BPF"),
        ("bpffs", None, "is on a bpffs"),
        ("agent", None, pid.as_str()),
        ("pins", None, "all maps and 1 link"),
        ("fence", None, "the last heartbeat was"),
        ("map-fill", None, "vip_state 1 of 65536"),
        ("events-lost", None, "none"),
        ("link", Some("eth0"), "driver veth"),
        ("program", Some("eth0"), "tc"),
        ("other-xdp", Some("eth0"), "none"),
        ("tc", Some("eth0"), "no other BPF program"),
        ("veth-peer", Some("eth0"), "needs nothing"),
        ("member", Some("eth0"), "no bond or bridge"),
        ("mtu", Some("eth0"), "1500"),
        ("bound-elsewhere", None, ""),
        ("labelled-addresses", None, ""),
        ("rp-filter", Some("eth0"), ""),
        ("other-vip-software", None, "none"),
        ("strangers", None, "no other host"),
    ] {
        report.assert(check, interface, GREEN, &[found], &[]);
    }
    Ok(())
}

#[test]
fn on_a_host_with_an_ipv6_vip_the_groups_and_the_settings_are_examined() -> Result<()> {
    let vip = Family::V6.vip();
    let node =
        Node::start_in(Family::V6, "six", Attachment::Auto, &format!("vips: [{{address: '{vip}'}}]\n"))?;
    node.wait_until_answered(vip, NODE)?;
    let report = doctor(&node, &[])?;
    assert_eq!(report.of_state(RED), Vec::<String>::new(), "{report}");
    report.assert("multicast", Some("eth0"), GREEN, &[], &[]);
    report.assert("neighbour-discovery", Some("eth0"), GREEN, &[], &[]);

    node.host.set_sysctl("net/ipv6/conf/eth0/drop_unsolicited_na", "1")?;
    let report = doctor(&node, &[])?;
    report.assert("neighbour-discovery", Some("eth0"), YELLOW, &["drop_unsolicited_na"], &[]);
    node.host.set_sysctl("net/ipv6/conf/eth0/drop_unsolicited_na", "0")?;

    // Someone leaves the group of the VIP.
    let mut ip = node.host.command("ip");
    ip.args(["-6", "neighbour", "del", "proxy", "ff02::1:ff00:10", "dev", "eth0"]);
    output_of(ip)?;
    doctor(&node, &[])?.assert("multicast", Some("eth0"), RED, &["2001:db8::10"], &["start the agent"]);
    Ok(())
}

#[test]
fn another_xdp_program_is_named_and_what_it_means() -> Result<()> {
    let scene = Scene::new("foreign-xdp")?;
    let _foreign = Hooked::xdp_pass(&scene.node, "eth0")?;
    let report = doctor_at(&scene.node, &scene.bpffs.pin_dir("node"), &[])?;
    report.assert(
        "other-xdp",
        Some("eth0"),
        YELLOW,
        &["program "],
        &["passes ARP on", "ip link set eth0 xdp off"],
    );
    Ok(())
}

#[test]
fn a_program_of_traffic_control_that_may_answer_is_named() -> Result<()> {
    let node = Node::start("tcx", HOLDS_ONE)?;
    let tcx = Hooked::attach(&node.host, "eth0", Hook::TcxIngress, "cil_from_netdev")?;
    let found = ["ingress program", "(cil_from_netdev)"];
    doctor(&node, &[])?.assert("tc", Some("eth0"), YELLOW, &found, &["l2announcements.enabled=true"]);
    drop(tcx);
    let _other = Hooked::attach(&node.host, "eth0", Hook::TcxIngress, "shaper")?;
    doctor(&node, &[])?.assert("tc", Some("eth0"), GREEN, &["shaper", "behind Vipward's"], &[]);
    Ok(())
}

#[test]
fn a_bridge_is_attached_to_traffic_control_and_the_remedy_for_a_member_is_the_bridge() -> Result<()> {
    let scene = Scene::new("bridge")?;
    let namespace = scene.node.namespace();
    let mut ip = scene.node.command("ip");
    ip.args(["link", "add", "br0", "type", "bridge", "forward_delay", "0"]);
    output_of(ip)?;
    namespace.set_master("eth0", "br0")?;
    scene.node.delete_address("eth0", net(2))?;
    scene.node.add_address("br0", net(2))?;
    scene.node.set_up("br0", true)?;
    namespace.wait_until_ready("br0")?;
    let agent = scene.agent(HOLDS_ONE)?;
    wait_until(PATIENCE, "the program on br0", || Ok(agent.status()?["interfaces"][0]["name"] == "br0"))?;
    let pin_dir = &agent.options.pin_dir;
    let report = doctor_at(&scene.node, pin_dir, &[])?;
    report.assert("program", Some("br0"), GREEN, &["tc", "software device"], &[]);
    assert_eq!(report.code, 0, "{report}");
    assert_eq!(doctor_at(&scene.node, pin_dir, &["--strict"])?.code, ILL);

    let report = doctor_at(&scene.node, pin_dir, &["--interface", "eth0", "--interface", "eth9"])?;
    report.assert("member", Some("eth0"), YELLOW, &["of bridge br0"], &["--interface br0"]);
    report.assert("link", Some("eth9"), RED, &["no such interface"], &["ip link"]);
    Ok(())
}

#[test]
fn native_on_a_veth_is_red_when_the_other_end_is_seen_to_run_no_program() -> Result<()> {
    // The doctor cannot see the other end, so a working cable is no proof.
    let pair = Pair::new()?;
    let agent = pair.agent(&format!("attach: native\n{HOLDS_ONE}"))?;
    let report = doctor_at(&pair.node, &agent.options.pin_dir, &[])?;
    report.assert("program", Some("eth0"), GREEN, &["native"], &[]);
    report.assert("veth-peer", Some("eth0"), UNKNOWN, &["another network namespace"], &["attach: auto"]);

    let (host, bpffs) = (Host::new("both-ends")?, Bpffs::mount()?);
    let mut ip = host.command("ip");
    ip.args(["link", "add", "eth0", "type", "veth", "peer", "name", "far"]);
    output_of(ip)?;
    host.add_address("eth0", net(2))?;
    for end in ["eth0", "far"] {
        host.set_up(end, true)?;
    }
    let yaml = format!("attach: native\ninterfaces: [eth0]\n{HOLDS_ONE}");
    let agent = start_agent(&host, &yaml, AgentOptions::new(bpffs.pin_dir("node")))?;
    let pin_dir = &agent.options.pin_dir;
    let report = doctor_at(&host, pin_dir, &[])?;
    report.assert("veth-peer", Some("eth0"), RED, &["far", "nothing is answered"], &["attach: auto"]);
    let _far = Hooked::xdp_pass(&host, "far")?;
    doctor_at(&host, pin_dir, &[])?.assert("veth-peer", Some("eth0"), GREEN, &["far"], &[]);
    Ok(())
}

#[test]
fn a_bound_vip_that_the_kernel_answers_for_elsewhere_is_reported_and_the_remedy_helps() -> Result<()> {
    let node = Node::start("arp-ignore", "interfaces: [eth0]\nvips: [{address: 192.0.2.10, bind: lo}]\n")?;
    node.wait_until_answered(VIP, NODE)?;
    let other = Lan::new("other")?;
    other.plug(&node.host, Nic::new("198.51.100.2/24".parse()?).named("eth1"))?;
    let report = doctor(&node, &[])?;
    report.assert(
        "arp-ignore",
        None,
        YELLOW,
        &["192.0.2.10/32 on lo", "on eth1"],
        &["sysctl -w net.ipv4.conf.eth1.arp_ignore=1"],
    );
    report.assert(
        "arp-announce",
        Some("eth0"),
        YELLOW,
        &["192.0.2.10/32 on lo"],
        &["sysctl -w net.ipv4.conf.eth0.arp_announce=2"],
    );
    node.host.set_sysctl("net/ipv4/conf/eth1/arp_ignore", "1")?;
    node.host.set_sysctl("net/ipv4/conf/eth0/arp_announce", "2")?;
    let report = doctor(&node, &[])?;
    report.assert("arp-ignore", None, GREEN, &[], &[]);
    report.assert("arp-announce", Some("eth0"), GREEN, &[], &[]);

    // A strict filter has two remedies.
    node.host.set_sysctl("net/ipv4/conf/eth0/rp_filter", "1")?;
    doctor(&node, &[])?.assert("rp-filter", Some("eth0"), YELLOW, &["eth1"], &["rp_filter=2"]);
    Ok(())
}

#[test]
fn addresses_that_others_put_here_are_reported() -> Result<()> {
    let guarded = "vips: [{address: 192.0.2.1, mac: '02:00:00:00:00:09'}]\n";
    let node = Node::start("bound-elsewhere", guarded)?;
    node.host.add_address("lo", "192.0.2.1/32".parse::<ipnet::IpNet>()?)?;
    let mut ip = node.host.command("ip");
    ip.args(["address", "add", "192.0.2.50/32", "dev", "eth0", "label", "eth0:vip"]);
    output_of(ip)?;
    let report = doctor(&node, &[])?;
    report.assert(
        "bound-elsewhere",
        None,
        YELLOW,
        &["192.0.2.1/32 on lo"],
        &["ip address del 192.0.2.1/32 dev lo"],
    );
    report.assert("labelled-addresses", None, YELLOW, &["192.0.2.50/32 on eth0 (eth0:vip)"], &["keepalived"]);
    Ok(())
}
