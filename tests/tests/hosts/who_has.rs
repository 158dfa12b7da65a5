//! `vipward who-has` on a real segment: it lists every answerer, also
//! when the answer never reaches a packet socket.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use ipnet::{IpNet, Ipv4Net};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, CLIENT, NODE, PATIENCE, ROGUE, Scene, VIP, ip, vip_status},
    frames::Mac,
    kit::wait_until,
    lan::{Host, Nic, Responder},
};

const ONE: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 2;
const UNFIT_HOST: i32 = 4;
const NO_HOST: i32 = 6;
const SEVERAL: i32 = 7;
/// A MAC that no other host's interface has.
const FORGED: Mac = Mac([0x00, 0x00, 0x5e, 0x00, 0x01, 0x33]);

/// Runs `vipward who-has ARGS` on a host without pins.
fn who_has(host: &Host, args: &[&str]) -> Result<Output> {
    let mut command = host.command(Agent::default_binary());
    command.args(["who-has", "--pin-dir", "/sys/fs/bpf/vipward-none"]).args(args);
    finished(command)
}

/// Runs the same on a host with an agent's pins.
fn who_has_beside(agent: &Agent, args: &[&str]) -> Result<Output> {
    let mut command = agent.vipward("who-has")?;
    command.args(args);
    finished(command)
}

fn finished(mut command: Command) -> Result<Output> {
    command.output().context("failed to start vipward")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Starts an agent on the node, and waits until it answers for
/// [`VIP`]: it probes the address first.
fn holder(scene: &Scene, yaml: &str) -> Result<Agent> {
    let agent = scene.agent(yaml)?;
    wait_until(PATIENCE, "the VIP to be held", || Ok(vip_status(&agent, VIP, "eth0")?["answering"] == true))?;
    Ok(agent)
}

/// Returns the JSON output of a command that ended with this code.
fn json(output: &Output, code: i32) -> Result<Value> {
    ensure!(output.status.code() == Some(code), "{:?}: {}{}", output.status, stdout(output), stderr(output));
    serde_json::from_str(&stdout(output)).with_context(|| stdout(output))
}

fn rows(report: &Value) -> Result<&Vec<Value>> {
    report["answers"].as_array().context("no list of answers")
}

/// Returns MAC, relation and way of discovery of each answerer, in order.
fn who(report: &Value) -> Result<Vec<(&str, &str, &str)>> {
    let text = |row: &'_ Value, key: &str| row[key].as_str().map(str::to_owned);
    rows(report)?
        .iter()
        .map(|row| {
            let known = text(row, "mac").zip(text(row, "relation")).zip(text(row, "seen"));
            known.with_context(|| format!("incomplete: {row}"))?;
            Ok((str_of(row, "mac"), str_of(row, "relation"), str_of(row, "seen")))
        })
        .collect()
}

fn str_of<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn has_note(report: &Value, part: &str) -> bool {
    let notes = report["notes"].as_array().into_iter().flatten();
    notes.filter_map(Value::as_str).any(|note| note.contains(part))
}

#[test]
fn a_host_is_found_by_one_without_an_agent() -> Result<()> {
    let scene = Scene::new("who-one")?;
    let before = scene.rogue.neighbours("eth0")?;
    let output = who_has(&scene.client, &["192.0.2.3", "-o", "json", "--timeout", "200ms"])?;
    let report = json(&output, ONE)?;
    assert_eq!(
        (&report["verdict"], &report["interface"], &report["questions"], &report["agent"]),
        (&"one".into(), &"eth0".into(), &3.into(), &false.into()),
        "{report}"
    );
    assert_eq!(who(&report)?, [("02:00:00:00:00:03", "unknown", "wire")]);
    let row = &rows(&report)?[0];
    assert_eq!(
        (&row["answered"], &row["first"], &row["replies"], &row["ethernet_source"]),
        (&3.into(), &3.into(), &3.into(), &Value::Null),
        "{row}"
    );
    assert!(row["latency"]["max_seconds"].as_f64().is_some_and(|seconds| seconds < 0.2), "{row}");
    assert_eq!(row["vendor"], "locally administered");
    assert!(has_note(&report, "no agent has pins here"), "{report}");
    assert_eq!(stderr(&output), "", "it took less than a second");
    assert_eq!(
        scene.rogue.neighbours("eth0")?,
        before,
        "the host that was asked believes what it believed before"
    );
    Ok(())
}

/// Returns an address of `2001:db8::/64` with this last byte.
fn net_6(last: u8) -> Result<IpNet> {
    Ok(format!("2001:db8::{last:x}/64").parse()?)
}

#[test]
fn a_holder_of_an_ipv6_vip_names_itself_and_a_rival() -> Result<()> {
    let scene = Scene::new("who-six-rival")?;
    for (host, last) in [(&scene.client, 1), (&scene.node, 2)] {
        host.add_address("eth0", net_6(last)?)?;
    }
    let agent = scene.agent("vips: [{address: '2001:db8::10'}]")?;
    let is_answering = || {
        let status = agent.status()?;
        Ok(status["vips"][0]["answering"] == true)
    };
    wait_until(PATIENCE, "the VIP to be held", is_answering)?;
    let ask = ["2001:db8::10", "-o", "json", "--count", "2", "--timeout", "400ms"];
    let report = json(&who_has_beside(&agent, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "holder", "this-host")]);
    let report = json(&who_has(&scene.client, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "unknown", "wire")]);
    assert_eq!(rows(&report)?[0]["answered"], 2, "{report}");

    scene.rogue.add_address("eth0", net_6(0x10)?)?;
    let report = json(&who_has(&scene.client, &ask)?, SEVERAL)?;
    let macs: BTreeSet<_> = who(&report)?.into_iter().map(|(mac, ..)| mac).collect();
    assert_eq!(macs, BTreeSet::from(["02:00:00:00:00:02", "02:00:00:00:00:03"]));
    let report = json(&who_has_beside(&agent, &ask)?, SEVERAL)?;
    assert_eq!(
        who(&report)?,
        [("02:00:00:00:00:03", "unknown-host", "dropped"), ("02:00:00:00:00:02", "holder", "this-host")],
        "{report}"
    );
    Ok(())
}

#[test]
fn without_an_own_address_an_ipv6_address_is_probed_for() -> Result<()> {
    let scene = Scene::new("who-six-probe")?;
    // IPv6 is off on the client, and the node's answer goes to all nodes.
    scene.node.add_address("eth0", net_6(0x10)?)?;
    let ask = ["2001:db8::10", "-i", "eth0", "-o", "json", "--count", "2", "--timeout", "400ms"];
    let report = json(&who_has(&scene.client, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "unknown", "wire")]);
    assert_eq!(rows(&report)?[0]["answered"], 2, "{report}");
    Ok(())
}

#[test]
fn no_host_is_waited_for_and_that_is_reported() -> Result<()> {
    let scene = Scene::new("who-none")?;
    let begun = Instant::now();
    let output = who_has(&scene.client, &["192.0.2.10", "-i", "eth0", "--count", "4", "--timeout", "400ms"])?;
    let took = begun.elapsed();
    assert_eq!(output.status.code(), Some(NO_HOST), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("192.0.2.10 on eth0: no host answers"), "{}", stdout(&output));
    assert!((Duration::from_millis(1_600)..Duration::from_secs(10)).contains(&took), "{took:?}");
    assert!(stderr(&output).contains("sent 3 of 4 probes for 192.0.2.10"), "progress: {}", stderr(&output));
    Ok(())
}

#[test]
fn a_holder_names_itself_and_a_rival_that_answers_by_unicast_only() -> Result<()> {
    let scene = Scene::new("who-rival")?;
    let agent = holder(&scene, "vips: [{address: 192.0.2.10, force: true}]")?;
    let ask = ["192.0.2.10", "-o", "json", "--count", "2", "--timeout", "400ms"];
    let report = json(&who_has_beside(&agent, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "holder", "this-host")]);
    assert_eq!((&report["agent"], &report["expected"]), (&true.into(), &NODE.to_string().into()));

    let rival = Responder::start(&scene.rogue, "eth0", VIP, ROGUE)?;
    let report = json(&who_has_beside(&agent, &ask)?, SEVERAL)?;
    assert_eq!(
        who(&report)?,
        [("02:00:00:00:00:03", "unknown-host", "dropped"), ("02:00:00:00:00:02", "holder", "this-host")],
        "{report}"
    );
    let row = &rows(&report)?[0];
    assert_eq!(
        (&row["answered"], &row["replies"], &row["latency"]["coarse"]),
        (&2.into(), &2.into(), &true.into())
    );

    // Another host receives both answers.
    let report = json(&who_has(&scene.client, &ask)?, SEVERAL)?;
    let macs: BTreeSet<_> = who(&report)?.into_iter().map(|(mac, ..)| mac).collect();
    assert_eq!(macs, BTreeSet::from(["02:00:00:00:00:02", "02:00:00:00:00:03"]));
    // The text has the same facts, without colours where stdout is no terminal.
    let table = stdout(&who_has(&scene.client, &["192.0.2.10", "--count", "1", "--timeout", "400ms"])?);
    for part in ["CONFLICT: 2 MACs answer", "02:00:00:00:00:03", "locally administered", "1/1"] {
        assert!(table.contains(part), "{part} in:\n{table}");
    }
    assert!(!table.contains('\x1b'), "{table:?}");

    // Frames that were dropped before the request are no answer to it.
    rival.stop()?;
    let report = json(&who_has_beside(&agent, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "holder", "this-host")]);
    Ok(())
}

#[test]
fn holder_peer_and_unknown_host_are_distinguished_where_an_agent_guards_the_address() -> Result<()> {
    let scene = Scene::new("who-guard")?;
    let yaml = format!(
        "vips: [{{address: 192.0.2.10, force: true}}, {{address: 192.0.2.3, mac: '{ROGUE}'}}]\npeers: ['{CLIENT}']\n"
    );
    let agent = holder(&scene, &yaml)?;
    let _impostor = Responder::start(&scene.client, "eth0", ip(3), FORGED)?;
    let ask = |address| ["-o", "json", "--count", "2", "--timeout", "400ms", address];
    let report = json(&who_has_beside(&agent, &ask("192.0.2.3"))?, SEVERAL)?;
    let known: BTreeSet<_> = who(&report)?.into_iter().collect();
    let expected =
        [("02:00:00:00:00:03", "holder", "wire"), ("00:00:5e:00:01:33", "unknown-host", "dropped")];
    assert_eq!(known, BTreeSet::from(expected), "{report}");

    // The program also drops a peer's claim on a VIP that it holds.
    let _peer = Responder::start(&scene.client, "eth0", VIP, CLIENT)?;
    let report = json(&who_has_beside(&agent, &ask("192.0.2.10"))?, SEVERAL)?;
    let known: BTreeSet<_> = who(&report)?.into_iter().collect();
    let expected = [("02:00:00:00:00:01", "peer", "dropped"), ("02:00:00:00:00:02", "holder", "this-host")];
    assert_eq!(known, BTreeSet::from(expected), "{report}");
    Ok(())
}

#[test]
fn an_address_of_this_host_is_probed_all_the_same() -> Result<()> {
    let scene = Scene::new("who-own")?;
    let ask = ["192.0.2.2", "-o", "json", "--count", "1", "--timeout", "300ms"];
    let report = json(&who_has(&scene.node, &ask)?, ONE)?;
    assert_eq!(who(&report)?, [("02:00:00:00:00:02", "this-host", "this-host")]);

    // Another host has it too.
    scene.rogue.add_address("eth0", Ipv4Net::new(ip(2), 32)?)?;
    let report = json(&who_has(&scene.node, &ask)?, SEVERAL)?;
    assert_eq!(
        who(&report)?,
        [("02:00:00:00:00:03", "unknown", "wire"), ("02:00:00:00:00:02", "this-host", "this-host")]
    );
    Ok(())
}

#[test]
fn what_cannot_be_probed_is_refused_with_the_way_out() -> Result<()> {
    let scene = Scene::new("who-bad")?;
    scene.lan.plug(&scene.client, Nic::new("198.51.100.1/24".parse()?).named("eth1"))?;
    scene.client.set_up("eth1", false)?;
    for (args, code, parts) in [
        (&["host.example"][..], USAGE, &["host.example", "no address", "2001:db8::10"][..]),
        (&["ff02::1"], USAGE, &["ff02::1", "group"]),
        (&["127.0.0.1"], USAGE, &["127.0.0.1", "every host"]),
        (&["192.0.2.10", "--count", "0"], USAGE, &["0", "--count"]),
        (&["192.0.2.10", "--timeout", "2h"], USAGE, &["2h", "between 10ms and 60s"]),
        (&["192.0.2.10", "-i", "eth9"], FAILED, &["192.0.2.10", "eth9 does not exist", "eth0"]),
        (&["192.0.2.10", "-i", "eth1"], FAILED, &["eth1 is down", "ip link set eth1 up"]),
        (&["192.0.2.10", "-i", "lo"], FAILED, &["lo is no Ethernet interface"]),
        (&["203.0.113.1"], FAILED, &["203.0.113.1 is in the subnet of no", "eth0 (192.0.2.1/24)", "-i"]),
    ] {
        let output = who_has(&scene.client, args)?;
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        for part in parts {
            assert!(stderr(&output).contains(part), "{part} in the answer to {args:?}: {}", stderr(&output));
        }
    }
    Ok(())
}

#[test]
fn without_the_right_to_probe_the_missing_one_is_named() -> Result<()> {
    let scene = Scene::new("who-rights")?;
    let mut command = scene.client.command("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    command.arg(Agent::default_binary()).args(["who-has", "192.0.2.3"]);
    let output = finished(command)?;
    assert_eq!(output.status.code(), Some(UNFIT_HOST), "{}", stderr(&output));
    assert!(stderr(&output).contains("CAP_NET_RAW"), "{}", stderr(&output));
    Ok(())
}
