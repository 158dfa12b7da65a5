//! A VIP that no program answers: neither `kubectl get vip` nor
//! `vipward status` nor `/readyz` calls it held.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::IpNet;
use serde_json::Value;
use vipward_tests::{
    agent::VIP,
    cluster::{
        Cluster, ClusterOptions, N1, N2, N3, NodeId, PATIENCE, SEGMENT, ServiceSpec, Switch, scenario,
    },
    kit::{interrupt, output_of},
    lan::Rules,
};

/// Returns options of one node.
fn alone(args: &[&str]) -> ClusterOptions {
    ClusterOptions { nodes: 1, ..ClusterOptions::with_args(args) }
}

/// Waits until `/readyz` of a node names a VIP as not answered, with this reason.
fn wait_until_not_ready(cluster: &Cluster, id: NodeId, vip: Ipv4Addr, why: &str) -> Result<String> {
    let mut last = String::new();
    let found =
        interrupt::wait(PATIENCE, &format!("/readyz of {id} to say why {vip} is not answered"), || {
            let page = cluster.page(id, "/readyz/vips")?;
            last.clone_from(&page.body);
            let names = last.contains(&format!("{vip} is not answered: ")) && last.contains(why);
            Ok((page.status == 503 && names).then_some(page.body))
        });
    found.with_context(|| format!("it said last: {last}"))
}

fn wait_until_ready(cluster: &Cluster, id: NodeId) -> Result<()> {
    let mut last = String::new();
    let found = interrupt::wait(PATIENCE, &format!("{id} to be ready"), || {
        let page = cluster.page(id, "/readyz")?;
        last = page.body;
        Ok((page.status == 200).then_some(()))
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
fn assert_notified(cluster: &Cluster, vip: Ipv4Addr, holder: NodeId, why: &str) -> Result<()> {
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
    let page = cluster.page(id, "/metrics")?;
    let line = page.body.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.map(str::to_owned))
}

#[test]
fn under_stop_a_vip_is_silent_while_no_node_reaches_the_api_server() -> Result<()> {
    scenario("unstop", alone(&["--policy", "stop"]), |cluster| {
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
        assert_eq!(silent["silent_because"], "the lease deadline has passed", "{silent:#}");
        assert_eq!(silent["answering"], false, "{silent:#}");
        wait_until_not_ready(cluster, N1, VIP, "the lease deadline has passed")?;
        assert!(cluster.page(N1, "/readyz")?.body.contains("the lease deadline has passed"));
        // This is longer than the heartbeat may pause.
        std::thread::sleep(cluster.options().renewal * 12);
        assert_eq!(cluster.page(N1, "/livez")?.status, 200, "an outage is no reason to start it again");
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

/// Checks that a VIP moves which clients do not reach at its holder, when that node's port has another rule.
fn the_vip_moves(name: &str, change: fn(&mut Rules, BTreeSet<IpAddr>), word: &str) -> Result<()> {
    /// A held VIP is asked for once a minute.
    const FOUND_WITHIN: Duration = Duration::from_secs(65);
    let options =
        ClusterOptions { switch: Switch::Managed, start_agents: false, ..ClusterOptions::default() };
    scenario(name, options, |cluster| {
        let gateway = cluster.client.address(SEGMENT)?;
        for id in [N1, N2, N3] {
            cluster.member(id)?.host.add_gateway(gateway)?;
            cluster.start_agent(id)?;
        }
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let old = cluster.wait_until_kept(VIP)?;
        let host = &cluster.member(old)?.host;
        let own = host.namespace().addresses(SEGMENT)?.iter().map(IpNet::addr).collect();
        let began = Instant::now();
        cluster.segment.port(host, SEGMENT)?.change(|rules| change(rules, own))?;
        let moved = interrupt::wait(FOUND_WITHIN + PATIENCE, "the VIP to move", || {
            Ok(cluster.answered_by(VIP)?.filter(|holder| *holder != old))
        });
        let log = || cluster.member(old).ok().and_then(|member| Some(member.agent()?.transcript()));
        let new = moved.with_context(|| format!("the log of {old}:\n{}", log().unwrap_or_default()))?;
        let took = began.elapsed();
        ensure!(took < FOUND_WITHIN + Duration::from_secs(5), "it took {took:?}");
        cluster.wait_until_held_by(VIP, new)?;
        cluster.wait_for_event("web", &["moved", "the VIP's clients do not reach eth0"])?;
        ensure!(log().is_some_and(|log| log.contains(word)), "{word:?} in {}", log().unwrap_or_default());
        assert_held_again(cluster, VIP)?;
        wait_until_ready(cluster, old)
    })
}

#[test]
fn a_vip_that_no_host_hears_from_its_holder_moves() -> Result<()> {
    the_vip_moves("secured", |rules, own| rules.senders = Some(own), "unheard: ")
}

#[test]
fn a_vip_for_which_no_request_reaches_its_holder_moves() -> Result<()> {
    the_vip_moves("filtered", |rules, own| rules.requests_for = Some(own), "blind: ")
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
    scenario("uncarried", alone(&[]), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        assert_eq!(cluster_status(cluster, N1)?["state"], "held");

        cluster.set_carrier(N1, false)?;
        let silent = cluster.wait_for_entry(N1, VIP, "to be silent", |entry| entry["role"] == "silent")?;
        assert_eq!(silent["silent_because"], "no carrier", "{silent:#}");
        wait_until_not_ready(cluster, N1, VIP, "eth0: no carrier")?;
        assert_notified(cluster, VIP, N1, "eth0: no carrier")?;
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
