//! `vipward doctor` on hosts with a fault: the right check reports it, with a remedy.

mod lease_deadline;
pub(crate) mod report;
mod rows;
mod unreadable;

use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;
use vipward_tests::{
    agent::{
        AgentOptions, Attachment, Bpffs, HOLDS_ONE, NODE, Node, PATIENCE, Pair, ROGUE, Scene, VIP, counter,
        net, start_agent,
    },
    frames::{Arp, Family, Mac},
    kit::{output_of, tools::bpftool, wait_until},
    lan::{Hook, Hooked, Host, Lan, Nic, Wire},
};

use report::{ILL, doctor, doctor_at};

pub(crate) const GREEN: &str = "green";
pub(crate) const YELLOW: &str = "yellow";
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
        ("lease-deadline", None, "the last heartbeat was"),
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
        ("unknown-hosts", None, "no other host"),
    ] {
        report.assert(check, interface, GREEN, &[found], &[]);
    }
    Ok(())
}

#[test]
fn on_a_host_with_an_ipv6_vip_the_groups_and_the_settings_are_examined() -> Result<()> {
    let vip = Family::V6.vip();
    let mut node =
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

    // Someone leaves the group of the VIP. An agent that lives would join it again.
    node.agent.kill9()?;
    let mut ip = node.host.command("ip");
    ip.args(["-6", "neighbour", "del", "proxy", "ff02::1:ff00:10", "dev", "eth0"]);
    output_of(ip)?;
    doctor(&node, &[])?.assert("multicast", Some("eth0"), RED, &["2001:db8::10"], &["start the agent"]);
    Ok(())
}

#[test]
fn the_table_says_what_json_says_and_is_plain_in_a_pipe() -> Result<()> {
    let node = Node::start("table", HOLDS_ONE)?;
    let is_proven = || Ok(node.agent.status()?["interfaces"][0]["proof"] == "proven");
    wait_until(PATIENCE, "the segment to be proven", is_proven)?;
    let report = doctor(&node, &[])?;
    let mut all = node.agent.vipward("doctor")?;
    all.arg("--all");
    let table = output_of(all)?;
    assert!(!table.contains('\x1b'), "{table}");
    for row in &report.rows {
        let (check, interface) = (row.text("subject"), row.text("interface"));
        let state = row.text("state").replace(NOT_APPLICABLE, "n/a");
        let said = table.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(&*state)
                && words.next() == Some(&*check)
                && words.next() == Some(if interface.is_empty() { "-" } else { &*interface })
        });
        assert!(said, "{state} {check} {interface} in:\n{table}");
    }
    let counts = table.lines().last().context("the table is empty")?;
    assert!(counts.starts_with("0 red, "), "{counts}");

    // By default, what is well is only counted.
    let short = output_of(node.agent.vipward("doctor")?)?;
    assert!(short.contains(counts) && !short.contains(" green  "), "{short}");
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
fn a_host_that_claims_a_vip_is_named() -> Result<()> {
    // Without force, the claim would give the VIP back, which has just been taken.
    let node = Node::start("unknown-host", "vips: [{address: 192.0.2.10, force: true}]\n")?;
    node.wait_until_answered(VIP, NODE)?;
    let wire = Wire::open(&node.client, "eth0")?;
    wire.send(&Arp::gratuitous_reply(ROGUE, VIP, Mac::BROADCAST).to_bytes())?;
    wait_until(PATIENCE, "the claim to be counted", || Ok(counter(&node.agent, "claim_conflict")? > 0))?;
    let claims = format!("{ROGUE} ");
    let who_has = format!("vipward who-has {VIP}");
    let found = [&*claims, "claims 192.0.2.10", "192.0.2.10 is held here, and the claims go on"];
    doctor(&node, &[])?.assert("unknown-hosts", None, RED, &found, &[&who_has]);
    let summary = output_of(node.agent.vipward("status")?)?;
    assert!(
        summary.starts_with("1 VIP answered; lease deadline valid; conflict about 192.0.2.10\n"),
        "{summary}"
    );
    Ok(())
}

#[test]
fn an_interface_that_is_down_or_has_no_carrier_is_red() -> Result<()> {
    let node = Node::start("carrier", HOLDS_ONE)?;
    node.host.set_carrier("eth0", false)?;
    wait_until(PATIENCE, "the carrier to go", || Ok(!node.host.link("eth0")?.carrier))?;
    let report = doctor(&node, &[])?;
    report.assert("link", Some("eth0"), RED, &["without carrier"], &["cable"]);
    assert_eq!(report.code, ILL, "{report}");

    node.host.set_up("eth0", false)?;
    let report = doctor(&node, &[])?;
    report.assert("link", Some("eth0"), RED, &["down"], &["ip link set eth0 up"]);
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
    scene.node.add_gateway(Family::V4.ip(1))?;
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
    // No host is heard.
    let yaml = "attach: native\ninterfaces: [eth0]\nvips: [{address: 192.0.2.10, force: true}]\n";
    let agent = start_agent(&host, yaml, AgentOptions::new(bpffs.pin_dir("node")))?;
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
    report.assert("bound-elsewhere", None, YELLOW, &["192.0.2.1/32 on lo"], &["have that program remove it"]);
    report.assert("labelled-addresses", None, YELLOW, &["192.0.2.50/32 on eth0 (eth0:vip)"], &["keepalived"]);
    Ok(())
}

#[test]
fn an_address_that_is_added_to_its_holder_by_hand_is_reported_and_the_vip_is_answered_on() -> Result<()> {
    let node = Node::start("added", HOLDS_ONE)?;
    node.wait_until_answered(VIP, NODE)?;
    node.host.add_address("eth0", format!("{VIP}/24").parse::<ipnet::IpNet>()?)?;
    let found = format!("{VIP}/24 on eth0");
    let remedy = format!("{VIP} is this host's own address: choose another VIP");
    doctor(&node, &[])?.assert("bound-elsewhere", None, YELLOW, &[&found], &[&remedy]);
    assert_eq!(node.vip_status(VIP)?["role"], "held");
    Ok(())
}

#[test]
fn pins_that_were_removed_are_named() -> Result<()> {
    let node = Node::start("pins", HOLDS_ONE)?;
    fs::remove_file(node.agent.options.pin_dir.join("peers"))?;
    let report = doctor(&node, &[])?;
    report.assert("pins", None, RED, &["the pins of peers are missing"], &["start the agent again"]);
    report.assert("lease-deadline", None, UNKNOWN, &["the pin of peers is missing"], &[]);
    assert_eq!(report.code, ILL, "{report}");
    Ok(())
}

#[test]
fn a_link_that_was_detached_behind_our_back_is_red() -> Result<()> {
    let node = Node::start("detached", HOLDS_ONE)?;
    let links = fs::read_dir(&node.agent.options.pin_dir)?;
    let link = links
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("link_")))
        .context("no link is pinned")?;
    let mut detach = node.host.command(bpftool()?);
    detach.args(["link", "detach", "pinned"]).arg(&link);
    output_of(detach)?;
    let report = doctor(&node, &[])?;
    report.assert("program", Some("eth0"), RED, &["is not on eth0"], &["start the agent again"]);
    Ok(())
}

#[test]
fn a_pin_directory_that_is_on_no_bpffs_is_red() -> Result<()> {
    let host = Host::new("node")?;
    let elsewhere = TempDir::new()?;
    let report = doctor_at(&host, &elsewhere.path().join("pins"), &[])?;
    let mount = format!("mount -t bpf bpf {}", elsewhere.path().display());
    report.assert("bpffs", None, RED, &["is not on a bpffs"], &["--pin-dir", &mount]);
    report.assert("agent", None, YELLOW, &["nothing is pinned"], &["vipward agent"]);
    report.assert("lease-deadline", None, NOT_APPLICABLE, &[], &[]);
    report.assert("link", None, RED, &["no interface"], &["--interface"]);
    assert_eq!(report.code, ILL, "{report}");
    Ok(())
}
