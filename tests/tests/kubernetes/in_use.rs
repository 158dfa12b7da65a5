//! Addresses that other programs and people put on the nodes' interfaces, before and after their
//! VIPs are held.

use std::{net::Ipv4Addr, thread::sleep, time::Duration};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use serde_json::{Value, json};
use vipward_tests::{
    agent::{VIP, ip},
    cluster::{Cluster, ClusterOptions, N1, N2, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::output_of,
    measure::{Monitor, MonitorReport},
};

/// Longest times without an answer in a migration, as docs/kubernetes/from-kube-vip.md promises them.
const WITHOUT_FORCE: Duration = Duration::from_secs(12);
const WITH_FORCE: Duration = Duration::from_secs(1);
const A_WHILE: Duration = Duration::from_secs(3);
/// Longer than the engine goes on with a probe that it has begun.
const LONG: Duration = Duration::from_secs(30);

fn net(length: u8) -> Result<Ipv4Net> {
    Ok(Ipv4Net::new(VIP, length)?)
}

/// Adds the VIP to the interface of a node, as other programs and people do.
fn add(cluster: &Cluster, id: NodeId, length: u8) -> Result<()> {
    cluster.member(id)?.host.add_address(SEGMENT, net(length)?)
}

fn delete(cluster: &Cluster, id: NodeId, length: u8) -> Result<()> {
    cluster.member(id)?.host.delete_address(SEGMENT, net(length)?)
}

/// Returns the manifest of docs/kubernetes/from-kube-vip.md.
fn forced(vip: Ipv4Addr) -> Value {
    json!({
        "apiVersion": "vipward.io/v1alpha1",
        "kind": "VirtualIP",
        "metadata": {"name": vip.to_string(), "annotations": {"vipward.io/force": "true"}},
        "spec": {"address": vip.to_string(), "released": true},
    })
}

/// Checks that every gap of the VIP has ended, and that none was longer than `limit`.
fn check_gaps(how: &str, report: &MonitorReport, limit: Duration) -> Result<()> {
    let wire = report.vip(VIP)?;
    assert!(wire.gaps().iter().all(|gap| gap.until.is_some()), "a gap has not ended:\n{report}");
    let gap = wire.longest_gap();
    eprintln!("{how}: no answer for {gap:?}");
    assert!(gap <= limit, "{gap:?}:\n{report}");
    Ok(())
}

/// Has the kernel of N2 answer for the VIP, as with kube-vip, and a Service want it. Returns after
/// the refusal has been reported.
fn another_program_has_it(cluster: &Cluster) -> Result<Monitor> {
    cluster.wait_until_all_renew()?;
    add(cluster, N2, 32)?;
    let monitor = cluster.monitor(&[VIP])?;
    monitor.wait_until_answered_by(VIP, N2.mac(), PATIENCE)?;
    cluster.create_service(&ServiceSpec::new("web", VIP))?;
    let has = format!("node {} has it as {VIP}/32 on eth0", cluster.node_name(N2));
    cluster.wait_for_event("web", &[&has, "ip address del", "vipward.io/force"])?;
    Ok(monitor)
}

#[test]
fn an_address_of_another_program_on_a_node_is_left_to_it_until_an_admin_forces_it() -> Result<()> {
    scenario("forced", ClusterOptions::default(), |cluster| {
        let monitor = another_program_has_it(cluster)?;
        monitor.wait_for_requests(1_000, PATIENCE)?;
        assert_eq!(cluster.virtual_ips()?, [Value::Null; 0]);
        for id in cluster.ids() {
            assert!(!cluster.knows(id, VIP)?, "{id} has an entry for it");
        }

        let step = monitor.note("forced");
        cluster.admin().create(&forced(VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_conflict(VIP, "True", &format!("{} has it as {VIP}/32", cluster.node_name(N2)))?;
        monitor.wait_for_requests(1_000, PATIENCE)?;
        delete(cluster, N2, 32)?;
        cluster.wait_for_conflict(VIP, "False", "")?;
        monitor.wait_for_requests(1_000, PATIENCE)?;

        let report = monitor.stop()?;
        let wire = report.vip(VIP)?;
        let before = wire.between(wire.started, step).answers_by();
        assert!(before.keys().all(|by| by.sha == N2.mac()), "{report}");
        let last = wire.requests.last().and_then(|request| request.answers.first());
        assert_eq!(last.map(|answer| answer.by.sha), Some(holder.mac()), "{report}");
        check_gaps("with force", &report, WITH_FORCE)
    })
}

#[test]
fn the_program_that_has_an_address_answers_until_a_node_holds_its_forced_vip() -> Result<()> {
    scenario("audible", ClusterOptions::default(), |cluster| {
        let monitor = another_program_has_it(cluster)?;
        // The claim names no node that has released the VIP: it rests for a lease and a margin first.
        let mut blank = forced(VIP);
        blank["spec"]["released"] = Value::Null;
        cluster.admin().create(&blank)?;
        sleep(A_WHILE);
        assert_eq!(cluster.holder(VIP)?, None);
        monitor.wait_until_answered_by(VIP, N2.mac(), PATIENCE)?;
        let holder = cluster.wait_until_held(VIP)?;
        monitor.wait_until_answered_by(VIP, holder.mac(), PATIENCE)?;
        monitor.wait_for_requests(1_000, PATIENCE)?;
        let report = monitor.stop()?;
        check_gaps("with force", &report, WITH_FORCE)
    })
}

#[test]
fn an_address_that_another_program_removes_is_answered_again_within_the_promised_time() -> Result<()> {
    scenario("unforced", ClusterOptions::default(), |cluster| {
        let monitor = another_program_has_it(cluster)?;
        sleep(LONG);
        monitor.note("removed");
        delete(cluster, N2, 32)?;
        cluster.wait_until_held(VIP)?;
        monitor.wait_for_requests(1_000, PATIENCE)?;
        let report = monitor.stop()?;
        check_gaps("without force", &report, WITHOUT_FORCE)?;
        assert!(report.vip(VIP)?.gaps().len() == 1, "{report}");
        Ok(())
    })
}

#[test]
fn an_address_added_to_another_node_is_a_conflict_and_takes_no_held_vip_away() -> Result<()> {
    for length in [24, 32] {
        scenario("added", ClusterOptions::default(), |cluster| {
            cluster.create_service(&ServiceSpec::new("web", VIP))?;
            let holder = cluster.wait_until_held(VIP)?;
            cluster.wait_for_ingress("web", VIP)?;
            let other = cluster.ids().into_iter().find(|id| *id != holder).context("there are three")?;
            let watch = cluster.watch(&[VIP])?;
            watch.step("the address is added elsewhere");
            add(cluster, other, length)?;
            let has = format!("node {} has it as {VIP}/{length} on eth0", cluster.node_name(other));
            let remedy = match length {
                32 => format!("ip address del {VIP}/{length} dev eth0"),
                _ => "own address: choose another VIP".to_owned(),
            };
            cluster.wait_for_conflict(VIP, "True", &has)?;
            cluster.wait_for_event("web", &["stays announced", &has, &remedy])?;
            assert!(cluster.cell(VIP, "CONFLICT")?.contains(&has));
            let mut doctor = cluster.member(other)?.agent().context("it runs")?.vipward("doctor")?;
            let report = String::from_utf8(doctor.output()?.stdout)?;
            let found = report.lines().find(|line| line.contains("bound-elsewhere"));
            let found = found.with_context(|| format!("no such check:\n{report}"))?;
            assert!(found.contains(&format!("{VIP}/{length} on eth0")), "{report}");

            watch.step("the holder's agent restarts");
            cluster.kill9(holder)?;
            cluster.restart_agent(holder)?;
            watch.let_pass(A_WHILE)?;
            assert_eq!(cluster.holder(VIP)?, Some(holder));
            watch.step("the claim is deleted by hand");
            cluster.admin().delete(&cluster.virtual_ip(VIP))?;
            watch.let_pass(A_WHILE)?;
            assert_eq!(cluster.ingress("web")?, [VIP.to_string()]);

            delete(cluster, other, length)?;
            cluster.wait_for_conflict(VIP, "False", "")?;
            watch.stop()?.assert_seamless(VIP);
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn a_gateway_of_one_node_in_any_table_is_refused_by_all() -> Result<()> {
    scenario("gateways", ClusterOptions::default(), |cluster| {
        let gateway = ip(4);
        let mut route = cluster.member(N1)?.host.command("ip");
        route.args(["route", "add", "default", "via", &gateway.to_string(), "table", "100"]);
        output_of(route)?;
        cluster.wait_until_all_renew()?;
        cluster.create_service(&ServiceSpec::new("gateway", gateway))?;
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        let why = format!("it is a gateway of this host (ip route show table all via {gateway})");
        cluster.wait_for_event("gateway", &[&why])?;
        sleep(A_WHILE);
        assert_eq!(cluster.holder(gateway)?, None);
        for id in cluster.ids() {
            assert!(!cluster.knows(id, gateway)?, "{id} has an entry for it");
        }
        Ok(())
    })
}

#[test]
fn a_dns_server_of_the_nodes_is_refused() -> Result<()> {
    let file = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let servers = file.lines().filter_map(|line| line.strip_prefix("nameserver ")?.trim().parse().ok());
    let Some(server) = servers.into_iter().find(|server: &Ipv4Addr| !server.is_loopback()) else {
        eprintln!("skipped: /etc/resolv.conf names no DNS server by IPv4");
        return Ok(());
    };
    scenario("resolver", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("dns", server))?;
        cluster.wait_for_event("dns", &["is not announced: it is a DNS server of this host"])?;
        assert_eq!(cluster.virtual_ips()?, [Value::Null; 0]);
        Ok(())
    })
}
