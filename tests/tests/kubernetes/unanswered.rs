//! A VIP that no program answers: neither `kubectl get vip` nor
//! `vipward status` nor `/readyz` calls it held.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;
use serde_json::Value;
use vipward_tests::{
    agent::{VIP, ip, vip_status},
    cluster::{Cluster, ClusterOptions, N1, N2, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::{interrupt, output_of, tools},
    lan::{Hooked, http},
};

/// The address of an agent's pages.
const PAGES: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9647);
const EXCLUDE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
const FEW: usize = 4;
const MANY: u8 = 6;

fn with_args(nodes: u8, args: &[&str]) -> ClusterOptions {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    ClusterOptions { nodes, args, ..ClusterOptions::default() }
}

/// Returns status and text of a page of a node's agent.
fn page(cluster: &Cluster, id: NodeId, path: &str) -> Result<(u16, String)> {
    let answer = http::get(&cluster.member(id)?.host, PAGES, path)?;
    Ok((answer.status, answer.body))
}

/// Waits until `/readyz` of a node names a VIP as not answered, with this reason.
fn wait_until_not_ready(cluster: &Cluster, id: NodeId, vip: Ipv4Addr, why: &str) -> Result<String> {
    let mut last = String::new();
    let found =
        interrupt::wait(PATIENCE, &format!("/readyz of {id} to say why {vip} is not answered"), || {
            let (status, body) = page(cluster, id, "/readyz/vips")?;
            last.clone_from(&body);
            let names = body.contains(&format!("{vip} is not answered: ")) && body.contains(why);
            Ok((status == 503 && names).then_some(body))
        });
    found.with_context(|| format!("it said last: {last}"))
}

fn wait_until_ready(cluster: &Cluster, id: NodeId) -> Result<()> {
    let mut last = String::new();
    let found = interrupt::wait(PATIENCE, &format!("{id} to be ready"), || {
        let (status, body) = page(cluster, id, "/readyz")?;
        last = body;
        Ok((status == 200).then_some(()))
    });
    found.with_context(|| format!("it said last: {last}"))
}

/// Waits until `kubectl get vip` shows this state of a VIP.
fn wait_for_state(cluster: &Cluster, vip: Ipv4Addr, state: &str) -> Result<()> {
    let mut last = String::new();
    let found = interrupt::wait(PATIENCE, &format!("{vip} to be {state:?}"), || {
        last = cluster.cell(vip, "STATE")?;
        Ok((last == state).then_some(()))
    });
    found.with_context(|| format!("it was last {last:?}"))
}

fn claim(cluster: &Cluster, vip: Ipv4Addr) -> Result<Value> {
    cluster.admin().get(&cluster.virtual_ip(vip))?.with_context(|| format!("there is no claim of {vip}"))
}

/// Fails unless the claim's condition `Held` has this status,
/// this reason, and a message with `part`.
fn assert_held(cluster: &Cluster, vip: Ipv4Addr, status: &str, reason: &str, part: &str) -> Result<()> {
    let claim = claim(cluster, vip)?;
    let conditions = claim["status"]["conditions"].as_array().context("no conditions")?;
    let held = conditions.iter().find(|condition| condition["type"] == "Held").context("no Held")?;
    ensure!(held["status"] == status && held["reason"] == reason, "{held:#}");
    ensure!(held["message"].as_str().is_some_and(|message| message.contains(part)), "{part:?} in {held:#}");
    Ok(())
}

/// Fails unless `kubectl get vip` shows completely that this VIP is not answered, with the reason.
fn assert_told(cluster: &Cluster, vip: Ipv4Addr, holder: NodeId, why: &str) -> Result<()> {
    // Another reason may have come first.
    let claim = interrupt::wait(PATIENCE, &format!("the claim of {vip} to say {why:?}"), || {
        let claim = claim(cluster, vip)?;
        let says = claim["status"]["unanswered"].as_str().is_some_and(|text| text.contains(why));
        Ok(says.then_some(claim))
    })?;
    wait_for_state(cluster, vip, "not answered")?;
    assert_held(cluster, vip, "False", "NotAnswered", why)?;
    ensure!(claim["spec"]["holder"] == cluster.node_name(holder), "{claim:#}");
    Ok(())
}

/// Fails unless `kubectl get vip` shows a VIP as held, without any fault.
fn assert_held_again(cluster: &Cluster, vip: Ipv4Addr) -> Result<()> {
    wait_for_state(cluster, vip, "held")?;
    assert_held(cluster, vip, "True", "Held", "")?;
    let claim = claim(cluster, vip)?;
    ensure!(claim["status"]["unanswered"].is_null(), "{claim:#}");
    Ok(())
}

fn value(cluster: &Cluster, id: NodeId, series: &str) -> Result<Option<String>> {
    let (_, body) = page(cluster, id, "/metrics")?;
    let line = body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.map(str::to_owned))
}

/// Returns the row of `vipward status` for the VIP on a node's segment.
fn status(cluster: &Cluster, id: NodeId) -> Result<Value> {
    vip_status(cluster.member(id)?.agent().context("it has an agent")?, VIP, SEGMENT)
}

/// Runs bpftool on a pin of a node's agent.
fn bpftool(cluster: &Cluster, id: NodeId, args: &[&str], pin: &str) -> Result<()> {
    let member = cluster.member(id)?;
    let mut command = member.host.command(tools::bpftool()?);
    command.args(args).arg(member.agent().context("it has an agent")?.options.pin_dir.join(pin));
    output_of(command).map(drop)
}

#[test]
fn under_stop_a_vip_is_silent_while_no_node_reaches_the_api_server() -> Result<()> {
    scenario("unstop", with_args(1, &["--policy", "stop"]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        assert_held_again(cluster, VIP)?;
        wait_until_ready(cluster, N1)?;
        assert_eq!(
            value(cluster, N1, "vipward_vip_held{family=\"ipv4\",vip=\"192.0.2.10\"}")?.as_deref(),
            Some("1.0")
        );
        assert_eq!(value(cluster, N1, "vipward_vips_unanswered")?.as_deref(), Some("0.0"));

        cluster.cut_everyone_off();
        let silent = cluster.wait_for_entry(N1, VIP, "to be silent", |entry| entry["role"] == "silent")?;
        assert_eq!(silent["silent_because"], "the fence is over", "{silent:#}");
        assert_eq!(silent["answering"], false, "{silent:#}");
        wait_until_not_ready(cluster, N1, VIP, "the fence is over")?;
        assert_eq!(
            value(cluster, N1, "vipward_vip_held{family=\"ipv4\",vip=\"192.0.2.10\"}")?.as_deref(),
            Some("0.0")
        );
        assert_eq!(
            value(cluster, N1, "vipward_entries{family=\"ipv4\",role=\"held\"}")?.as_deref(),
            Some("0.0")
        );
        assert_eq!(
            value(cluster, N1, "vipward_entries{family=\"ipv4\",role=\"silent\"}")?.as_deref(),
            Some("1.0")
        );
        assert_eq!(value(cluster, N1, "vipward_vips_unanswered")?.as_deref(), Some("1.0"));

        cluster.heal()?;
        cluster.wait_for_entry(N1, VIP, "to be held", |entry| entry["role"] == "held")?;
        wait_until_ready(cluster, N1)?;
        assert_held_again(cluster, VIP)
    })
}

#[test]
fn a_vip_on_an_interface_that_another_program_has_taken_is_not_answered() -> Result<()> {
    scenario("untaken", with_args(1, &["--attach=generic"]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        let host = cluster.member(N1)?.host.clone();
        let link = format!("link_{}_generic", host.link(SEGMENT)?.index);
        // The agent may look at that moment, and attach its program again.
        let other = interrupt::wait(PATIENCE, "the agent's program to be replaced", || {
            if bpftool(cluster, N1, &["link", "detach", "pinned"], &link).is_err() {
                return Ok(None);
            }
            let silent = status(cluster, N1)?;
            let is_detached =
                silent["role"] == "silent" && silent["silent_because"] == "the program is not attached";
            Ok(if is_detached { Hooked::xdp_pass(&host, SEGMENT).ok() } else { None })
        })?;
        // The kernel does not report an XDP program that a link attaches. The
        // agent looks after any other notification.
        host.add_address(SEGMENT, Ipv4Net::new(ip(90), 24)?)?;

        let why = "another XDP program";
        wait_until_not_ready(cluster, N1, VIP, why)?;
        assert_told(cluster, VIP, N1, why)?;
        let is_held = |entry: &Value| entry["role"] == "held" || entry["role"] == "handover";
        assert!(!status(cluster, N1).is_ok_and(|entry| is_held(&entry)));
        assert_eq!(value(cluster, N1, "vipward_vips_unanswered")?.as_deref(), Some("1.0"));

        drop(other);
        cluster.wait_for_entry(N1, VIP, "to be held", |entry| entry["role"] == "held")?;
        assert_held_again(cluster, VIP)?;
        wait_until_ready(cluster, N1)
    })
}

#[test]
fn a_vip_whose_entry_a_frozen_map_does_not_take_is_not_answered() -> Result<()> {
    scenario("unfrozen", with_args(2, &[]), |cluster| {
        cluster.wait_until_all_renew()?;
        let preferred = format!("kubernetes.io/hostname={}", cluster.node_name(N2));
        let service = ServiceSpec::new("web", VIP).annotation("vipward.io/preferred-nodes", &preferred);
        cluster.create_service(&service)?;
        cluster.wait_until_held_by(VIP, N2)?;
        // N1 knows its place, and takes it when N2 is gone. No entry changes before.
        let at_n2 = N2.mac().to_string();
        cluster.wait_for_entry(N1, VIP, "to be at N2", |entry| entry["mac"] == at_n2)?;
        bpftool(cluster, N1, &["map", "freeze", "pinned"], "vips_v4")?;
        cluster.power_off(N2)?;
        let taken = || Ok((cluster.holder(VIP)? == Some(N1)).then_some(()));
        interrupt::wait(PATIENCE, "N1 to take it", taken)?;

        let why = "its entry on eth0 cannot be changed";
        wait_until_not_ready(cluster, N1, VIP, why)?;
        assert_told(cluster, VIP, N1, why)?;
        assert_eq!(status(cluster, N1)?["role"], "foreign");
        Ok(())
    })
}

/// Returns the VIPs of `MANY` Services. A map with room for `FEW` lacks entries for some.
fn many(cluster: &Cluster) -> Result<Vec<Ipv4Addr>> {
    let vips: Vec<Ipv4Addr> = (0..MANY).map(|number| ip(100 + number)).collect();
    for vip in &vips {
        cluster.create_service(&ServiceSpec::new(&format!("web-{}", vip.octets()[3]), *vip))?;
    }
    for vip in &vips {
        cluster.wait_until_held_by(*vip, N1)?;
    }
    Ok(vips)
}

/// Restarts the agent of a node with a map for this number of VIPs.
fn restart_with_room(cluster: &mut Cluster, id: NodeId, room: usize) -> Result<()> {
    cluster.kill9(id)?;
    cluster.member_mut(id)?.agent_mut()?.options.max_vips = Some(u32::try_from(room)?);
    cluster.restart_agent(id)
}

#[test]
fn vips_that_a_full_map_has_no_room_for_are_not_answered_until_there_is_some() -> Result<()> {
    scenario("unroomy", with_args(1, &[]), |cluster| {
        let vips = many(cluster)?;
        restart_with_room(cluster, N1, FEW)?;
        let mut without = Vec::new();
        for vip in &vips {
            if !cluster.knows(N1, *vip)? {
                without.push(*vip);
            }
        }
        assert_eq!(without.len(), vips.len() - FEW, "{without:?} have no entry");
        for vip in &without {
            let ill = wait_until_not_ready(cluster, N1, *vip, "the map holds 4 entries")?;
            assert!(ill.contains("--max-vips"), "{ill}");
            assert_told(cluster, *vip, N1, "the map holds 4 entries")?;
        }
        for vip in vips.iter().filter(|vip| !without.contains(vip)) {
            assert_held_again(cluster, *vip)?;
        }
        assert_eq!(value(cluster, N1, "vipward_vips_unanswered")?.as_deref(), Some("2.0"));

        restart_with_room(cluster, N1, usize::from(MANY))?;
        for vip in &vips {
            assert_held_again(cluster, *vip)?;
        }
        wait_until_ready(cluster, N1)
    })
}

#[test]
fn vips_of_a_dead_node_that_no_other_can_take_are_without_a_holder() -> Result<()> {
    scenario("unheired", with_args(2, &[]), |cluster| {
        cluster.wait_until_all_renew()?;
        restart_with_room(cluster, N2, FEW)?;
        cluster.label_node(N2, EXCLUDE, Some("true"))?;
        let vips = many(cluster)?;
        cluster.power_off(N1)?;
        cluster.label_node(N2, EXCLUDE, None)?;
        let mut taken = 0;
        for vip in &vips {
            let state = interrupt::wait(PATIENCE, &format!("what became of {vip}"), || {
                let (holder, state) = (cluster.holder(*vip)?, cluster.cell(*vip, "STATE")?);
                let is_known = holder == Some(N2) && state == "held" || state == "nobody";
                Ok(is_known.then_some(state))
            })?;
            taken += usize::from(state == "held");
            if state == "nobody" {
                assert_held(cluster, *vip, "False", "SessionEnded", &cluster.node_name(N1))?;
            }
        }
        assert_eq!(taken, FEW);
        Ok(())
    })
}

/// Returns what `kubectl vip status` shows of the VIP, run at a node.
fn cluster_status(cluster: &Cluster, id: NodeId) -> Result<Value> {
    let kubeconfig = tempfile::NamedTempFile::new()?;
    std::fs::write(kubeconfig.path(), cluster.kubeconfig_of(id)?)?;
    let mut command: Command =
        cluster.member(id)?.host.command(vipward_tests::agent::Agent::default_binary());
    command.args(["status", "--cluster", "-o", "json", "--kubeconfig"]).arg(kubeconfig.path());
    command.args(["--lease-namespace", cluster.system_namespace()]);
    let status: Value = serde_json::from_str(&output_of(command)?)?;
    let rows = status["vips"].as_array().context("no VIPs")?;
    let row = rows.iter().find(|row| row["address"] == VIP.to_string());
    row.cloned().with_context(|| format!("{VIP} is not in {status:#}"))
}

#[test]
fn without_carrier_a_vip_is_not_answered_and_a_holder_that_does_not_renew_is_recognised_by_its_lease()
-> Result<()> {
    scenario("uncarried", with_args(1, &[]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        assert_eq!(cluster_status(cluster, N1)?["state"], "held");

        cluster.set_carrier(N1, false)?;
        let silent = cluster.wait_for_entry(N1, VIP, "to be silent", |entry| entry["role"] == "silent")?;
        assert_eq!(silent["silent_because"], "no carrier", "{silent:#}");
        wait_until_not_ready(cluster, N1, VIP, "eth0: no carrier")?;
        assert_told(cluster, VIP, N1, "eth0: no carrier")?;
        let row = cluster_status(cluster, N1)?;
        assert_eq!((&row["state"], &row["unanswered"]), (&"not answered".into(), &"eth0: no carrier".into()));

        cluster.set_carrier(N1, true)?;
        assert_held_again(cluster, VIP)?;
        wait_until_ready(cluster, N1)?;

        // `kubectl get vip` cannot show that.
        cluster.pause(N1)?;
        let row = cluster_status(cluster, N1)?;
        assert_eq!((&row["state"], &row["holder"]), (&"not renewed".into(), &cluster.node_name(N1).into()));
        cluster.resume(N1)
    })
}
