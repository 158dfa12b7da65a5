//! `/livez`, `/readyz`, `/debug/state`, and their addresses.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use vipward_tests::{
    agent::{
        Agent, AgentOptions, NODE, PATIENCE, ROGUE, Scene, VIP, answers_in, answers_to, clients_request, ip,
        request_of_client, start_agent, vip_status, wait_until_received, wait_until_running,
    },
    frames::{Arp, Family, Mac, Message},
    kit::{output_of, tools, wait_for},
    lan::{
        Host, Nic, Wire,
        http::{self, Answer, PAGES},
    },
    measure::prometheus::promtool,
};

use super::exposition::Exposition;

const HOLDS_ONE: &str = "vips: [{address: 192.0.2.10}]";
/// The agent's exit code for a failure while it ran.
const FAILED: i32 = 1;

fn metrics(host: &Host) -> Result<Exposition> {
    Exposition::parse(&get(host, "/metrics")?.good()?)
}

#[expect(clippy::float_cmp, reason = "whole numbers")]
fn assert_value(read: &Exposition, series: &str, value: f64) -> Result<()> {
    assert_eq!(read.value(series)?, value, "{series}");
    Ok(())
}

fn get(host: &Host, path: &str) -> Result<Answer> {
    http::get(host, PAGES, path)
}

fn wait_for_page(host: &Host, path: &str, status: u16, says: &str) -> Result<String> {
    let mut last = String::new();
    let found = wait_for(PATIENCE, &format!("{path} to say {status} {says:?}"), || {
        let answer = get(host, path)?;
        last = format!("{} {}", answer.status, answer.body);
        Ok((answer.status == status && answer.body.contains(says)).then_some(answer.body))
    });
    found.with_context(|| format!("it said last: {last}"))
}

#[test]
fn a_standalone_agent_notifies_each_check_by_name_and_what_is_wrong_with_it() -> Result<()> {
    let scene = Scene::new("checks")?;
    let agent = scene.agent(HOLDS_ONE)?;
    let well = get(&scene.node, "/readyz")?.good()?;
    let expected = "[+]event-loop ok\n[+]config ok\n[+]links ok\n[+]vips ok\n[+]pins ok\n[+]entries ok\n\
        [+]lease-deadline ok\nreadyz check passed\n";
    assert_eq!(well, expected);
    assert_eq!(
        get(&scene.node, "/livez")?.good()?,
        "[+]event-loop ok\n[+]heartbeat ok\nlivez check passed\n"
    );
    assert_eq!(
        get(&scene.node, "/readyz/lease-deadline")?.good()?,
        "[+]lease-deadline ok\nreadyz check passed\n"
    );
    let links = get(&scene.node, "/")?.good()?;
    for page in ["/metrics", "/readyz", "/livez"] {
        assert!(links.contains(&format!("href=\"{page}\"")), "{links}");
    }
    let unknown = get(&scene.node, "/readyz/moon")?;
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("entries"), "{}", unknown.body);

    remove_entry(&agent, &scene.node)?;
    let ill = wait_for_page(
        &scene.node,
        "/readyz",
        503,
        "[-]entries failed: 192.0.2.10 is believed held and is not",
    )?;
    assert!(ill.contains("[+]lease-deadline ok") && ill.ends_with("readyz check failed\n"), "{ill}");
    assert_eq!(get(&scene.node, "/readyz/entries")?.status, 503);
    assert_eq!(get(&scene.node, "/readyz/links")?.status, 200);

    // A fault of the maps is no reason to end the agent.
    assert_eq!(get(&scene.node, "/livez")?.status, 200);
    Ok(())
}

/// Removes the VIP's entry from the map behind the agent's back.
fn remove_entry(agent: &Agent, node: &Host) -> Result<()> {
    // The key is the ifindex in the machine's byte order, and the address.
    let ifindex = node.link("eth0")?.index;
    let key = [ifindex.to_ne_bytes().as_slice(), &VIP.octets()].concat();
    let mut command = Command::new(tools::bpftool()?);
    command.args(["map", "delete", "pinned"]).arg(agent.options.pin_dir.join("vips_v4")).arg("key");
    command.args(key.iter().map(ToString::to_string));
    output_of(command).map(drop)
}

#[test]
fn an_agent_that_stands_still_is_not_alive() -> Result<()> {
    const SHORT: Duration = Duration::from_secs(3);
    let scene = Scene::new("stopped")?;
    let mut agent = scene.agent(HOLDS_ONE)?;
    assert_eq!(get(&scene.node, "/livez")?.status, 200);
    agent.signal(Signal::SIGSTOP)?;
    // This is the timeout of the probe in the manifests.
    let answer = http::get_as(&scene.node, PAGES, "/livez", "*/*", SHORT);
    assert!(answer.is_err(), "{answer:?}");
    agent.signal(Signal::SIGCONT)?;
    wait_for_page(&scene.node, "/livez", 200, "livez check passed").map(drop)
}

#[test]
fn the_state_is_shown_to_the_host_itself_alone() -> Result<()> {
    let scene = Scene::new("state")?;
    let mut options = AgentOptions::new(scene.bpffs.pin_dir("node"));
    options.args = ["--listen", "127.0.0.1", "--listen", "192.0.2.2"].map(str::to_owned).to_vec();
    let agent = start_agent(&scene.node, HOLDS_ONE, options)?;

    let state = get(&scene.node, "/debug/state")?.json()?;
    assert_eq!(state["event_loop"]["config"]["vips"][0]["address"], VIP.to_string(), "{state:#}");
    let interfaces = state["event_loop"]["interfaces"].as_array().context("no interfaces")?;
    let eth0 = interfaces.iter().find(|interface| interface["name"] == "eth0").context("no eth0")?;
    assert_eq!((&eth0["mac"], &eth0["attached"]), (&NODE.to_string().into(), &"tc".into()));
    assert_eq!(state["event_loop"]["announcements"][0]["vip"], VIP.to_string(), "{state:#}");
    assert_eq!(state["kernel"]["vips"][0]["role"], "held", "{state:#}");
    assert_eq!(state["kernel"]["lease_deadline"]["state"], "valid", "{state:#}");

    let elsewhere = SocketAddr::from((ip(2), 9647));
    for (who, host) in [("another host", &scene.client), ("the host by its other address", &scene.node)] {
        for page in ["/debug/state", "/debug/waiting"] {
            let refused = http::get(host, elsewhere, page)?;
            assert_eq!(refused.status, 403, "{who}: {}", refused.body);
            assert!(!refused.body.contains("192.0.2.10"), "{who}: {}", refused.body);
        }
        assert_eq!(http::get(host, elsewhere, "/readyz")?.status, 200, "{who}");
    }
    drop(agent);
    Ok(())
}

#[test]
fn a_second_agent_on_a_host_holds_its_vips_without_pages_unless_it_was_asked_for_them() -> Result<()> {
    let scene = Scene::new("secondport")?;
    let first = scene.agent(&format!("interfaces: [eth0]\n{HOLDS_ONE}"))?;
    scene.lan.plug(&scene.node, Nic::bare().named("eth1"))?;
    scene.node.set_up("eth1", true)?;
    let yaml = "interfaces: [eth1]\nvips: [{address: 192.0.2.20, interface: eth1}]";
    let options = |args: &[&str]| {
        let mut options = AgentOptions::new(scene.bpffs.pin_dir("second"));
        options.args = args.iter().map(ToString::to_string).collect();
        options
    };

    let mut second = start_agent(&scene.node, yaml, options(&[]))?;
    let warned =
        second.wait_for_log(PATIENCE, "that the port is taken", |line| line.has("address", PAGES))?;
    assert_eq!(warned.level(), "WARN", "{warned}");
    assert!(warned.message().contains("--listen-port"), "{warned}");
    assert_eq!(vip_status(&second, ip(20), "eth1")?["role"], "held");
    second.terminate()?;

    second.options = options(&["--listen", "127.0.0.1"]);
    second.restart()?;
    let ended = second.wait(PATIENCE)?;
    assert_eq!(ended.code(), Some(FAILED), "{}", second.transcript());
    assert!(
        second.transcript().contains("127.0.0.1:9647; choose another --listen"),
        "{}",
        second.transcript()
    );

    second.options = options(&["--listen-port", "9648"]);
    let seen = second.logs()?.len();
    second.restart()?;
    wait_until_running(&mut second, seen)?;
    let other = SocketAddr::from((Ipv4Addr::LOCALHOST, 9648));
    assert_eq!(http::get(&scene.node, other, "/livez")?.status, 200);
    drop((second, first));
    Ok(())
}

#[test]
fn the_page_of_metrics_is_what_the_kernel_has_counted_in_either_format() -> Result<()> {
    let scene = Scene::new("counted")?;
    let _agent = scene.agent(HOLDS_ONE)?;
    let wire = Wire::open(&scene.client, "eth0")?;
    for _ in 0..3 {
        assert_eq!(answers_to(&wire, &clients_request(VIP), ip(2))?.len(), 1);
    }
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    rogue.send(&Arp::gratuitous_request(ROGUE, VIP, Mac::ZERO).to_bytes())?;
    wait_until_received(&rogue, ip(2))?;

    let plain = get(&scene.node, "/metrics")?;
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = plain.good()?;
    promtool(&["check", "metrics"], Some(&page))?;
    let read = wait_for(PATIENCE, "the conflict to be counted", || {
        let read = metrics(&scene.node)?;
        Ok((read.value("vipward_conflicts_active")? > 0.0).then_some(read))
    })?;
    for (series, value) in [
        ("vipward_frames_total{family=\"ipv4\",outcome=\"answered\"}", 3.0),
        ("vipward_frames_total{family=\"ipv4\",outcome=\"claim_conflict\"}", 1.0),
        ("vipward_vip_answered_total{family=\"ipv4\",vip=\"192.0.2.10\"}", 3.0),
        ("vipward_vip_conflicts_total{family=\"ipv4\",vip=\"192.0.2.10\"}", 1.0),
        ("vipward_vip_held{family=\"ipv4\",vip=\"192.0.2.10\"}", 1.0),
        ("vipward_entries{family=\"ipv4\",role=\"held\"}", 1.0),
        ("vipward_map_entries{map=\"vips_v4\"}", 1.0),
        ("vipward_map_capacity{map=\"vips_v4\"}", 65536.0),
        ("vipward_conflicts_total", 1.0),
        ("vipward_conflict_offenders", 1.0),
        ("vipward_lease_deadline_state{state=\"valid\"}", 1.0),
        ("vipward_lease_deadline_policy{policy=\"hold\"}", 1.0),
        ("vipward_lease_duration_seconds", 3.0),
        ("vipward_link_attached{interface=\"eth0\",mode=\"tc\"}", 1.0),
        ("vipward_link_carrier{interface=\"eth0\"}", 1.0),
        // Generic mode is right for a veth.
        ("vipward_vips_unanswered", 0.0),
        ("vipward_vips_without_holder", 0.0),
        ("vipward_vip_series_dropped", 0.0),
        ("vipward_driver_answering", 1.0),
        ("vipward_kernel_readable", 1.0),
    ] {
        assert_value(&read, series, value)?;
    }
    let left = read.value("vipward_lease_deadline_left_seconds")?;
    assert!(left > 0.0 && left <= 3.0, "{left}");
    assert!(read.value("vipward_announcements_total{result=\"sent\"}")? >= 1.0);

    let open =
        http::get_as(&scene.node, PAGES, "/metrics", "application/openmetrics-text;version=1.0.0", PATIENCE)?;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let open = open.good()?;
    assert!(open.ends_with("\n# EOF\n"), "{open}");
    assert!(open.contains("\n# TYPE vipward_frames counter\n"), "{open}");
    assert!(open.contains("\n# UNIT vipward_lease_deadline_left_seconds seconds\n"), "{open}");
    Ok(())
}

#[test]
fn the_page_of_metrics_counts_each_family_for_itself() -> Result<()> {
    let (family, vip) = (Family::V6, Family::V6.vip());
    let scene = Scene::new_in(family, "metrics-six")?;
    let _agent = scene.agent("vips: [{address: 192.0.2.10}, {address: '2001:db8::10', force: true}]")?;
    let wire = Wire::open_in(&scene.client, "eth0", family)?;
    for _ in 0..3 {
        assert_eq!(answers_in(&wire, &request_of_client(vip), family.ip(2))?.len(), 1);
    }
    let rogue = Wire::open(&scene.rogue, "eth0")?;
    rogue.send(&Message::announcement(ROGUE, vip).to_bytes())?;
    wait_until_received(&rogue, ip(2))?;
    let read = metrics(&scene.node)?;
    for (series, value) in [
        ("vipward_frames_total{family=\"ipv6\",outcome=\"answered\"}", 3.0),
        ("vipward_frames_total{family=\"ipv4\",outcome=\"answered\"}", 0.0),
        ("vipward_frames_total{family=\"ipv6\",outcome=\"claim_conflict\"}", 1.0),
        ("vipward_claims_defended_total{family=\"ipv6\"}", 1.0),
        ("vipward_claims_defended_total{family=\"ipv4\"}", 0.0),
        ("vipward_vip_answered_total{family=\"ipv6\",vip=\"2001:db8::10\"}", 3.0),
        ("vipward_vip_conflicts_total{family=\"ipv6\",vip=\"2001:db8::10\"}", 1.0),
        ("vipward_vip_held{family=\"ipv6\",vip=\"2001:db8::10\"}", 1.0),
        ("vipward_vip_held{family=\"ipv4\",vip=\"192.0.2.10\"}", 1.0),
        ("vipward_entries{family=\"ipv6\",role=\"held\"}", 1.0),
        ("vipward_map_entries{map=\"vips_v6\"}", 1.0),
        ("vipward_map_capacity{map=\"vips_v6\"}", 65536.0),
    ] {
        assert_value(&read, series, value)?;
    }
    Ok(())
}

#[test]
fn with_more_vips_than_the_limit_none_has_series_of_its_own_and_a_gauge_says_so() -> Result<()> {
    let scene = Scene::new("series")?;
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}, {address: 192.0.2.12}]";
    for (limit, dropped) in [("3", false), ("2", true), ("0", true)] {
        let mut options = AgentOptions::new(scene.bpffs.pin_dir("node"));
        options.args = vec!["--metrics-max-vips".to_owned(), limit.to_owned()];
        let mut agent = start_agent(&scene.node, yaml, options)?;
        let page = get(&scene.node, "/metrics")?.good()?;
        let read = Exposition::parse(&page)?;
        #[expect(clippy::float_cmp, reason = "whole numbers")]
        {
            assert_eq!(read.value("vipward_vip_series_dropped")?, f64::from(u8::from(dropped)), "{limit}");
            assert_eq!(read.value("vipward_entries{family=\"ipv4\",role=\"held\"}")?, 3.0, "{limit}");
        }
        assert_eq!(page.contains("192.0.2.1"), !dropped, "{limit}: {page}");
        agent.terminate()?;
    }
    Ok(())
}
