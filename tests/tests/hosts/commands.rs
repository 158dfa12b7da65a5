//! The command line: its help, its output and its exit codes.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, Bpffs, HOLDS_ONE, NODE, Node, PATIENCE, ROGUE, Scene, VIP, ip, net},
    kit::{output_of, wait_until},
    lan::Host,
};

fn vipward(args: &[&str]) -> Command {
    let mut command = Command::new(Agent::default_binary());
    command.args(args);
    command
}

fn output(node: &Node, args: &[&str]) -> Result<Output> {
    let (subcommand, more) = args.split_first().context("no subcommand")?;
    let mut command = node.agent.vipward(subcommand)?;
    command.args(more);
    Ok(command.output()?)
}

fn printed(node: &Node, args: &[&str]) -> Result<String> {
    let output = output(node, args)?;
    ensure!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn help_names_every_command_and_every_exit_code() -> Result<()> {
    let help = output_of(vipward(&["--help"]))?;
    for part in [
        "agent",
        "status",
        "doctor",
        "watch",
        "who-has",
        "explain",
        "unload",
        "completions",
        "pinned in the kernel",
    ] {
        assert!(help.contains(part), "{part} in: {help}");
    }
    let codes = help.split("Exit codes:").nth(1).context("the help has no exit codes")?;
    for code in 0..=8 {
        let line = codes.lines().find(|line| line.trim_start().starts_with(&format!("{code}  ")));
        assert!(line.is_some_and(|line| line.trim().len() > 5), "{code} in: {codes}");
    }
    Ok(())
}

#[test]
fn the_configuration_in_the_help_is_one() -> Result<()> {
    let help = output_of(vipward(&["agent", "--help"]))?;
    let example = help.split("The smallest configuration:").nth(1).context("no example")?;
    let example = example.split("Check one").next().context("no end of the example")?;
    let directory = TempDir::new()?;
    let file = directory.path().join("vipward.yaml");
    fs::write(&file, example)?;
    let mut check = vipward(&["agent", "--check", "--config"]);
    check.arg(&file);
    let effective = output_of(check)?;
    assert!(effective.contains("192.0.2.10"), "{effective}");
    Ok(())
}

#[test]
fn check_needs_no_privileges_and_touches_nothing() -> Result<()> {
    let node = Node::start("check", HOLDS_ONE)?;
    let seen = node.agent.logs()?.len();
    let mut check = node.agent.vipward("agent")?;
    check.arg("--check").arg("--config").arg(node.agent.config_path());
    let mut unprivileged = node.host.command("setpriv");
    unprivileged.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
    unprivileged.arg(check.get_program()).args(check.get_args());
    assert!(output_of(unprivileged)?.contains("192.0.2.10"));
    assert_eq!(node.agent.logs()?.len(), seen, "a running agent does not notice");
    Ok(())
}

#[test]
fn status_says_the_same_as_a_table_as_json_and_as_yaml_with_and_without_an_agent() -> Result<()> {
    let yaml = "peers: ['02:00:00:00:00:77']\n\
        vips: [{address: 192.0.2.10}, {address: 192.0.2.1, mac: '02:00:00:00:00:01'}]\n";
    let mut node = Node::start("status", &format!("shutdown: keep\n{yaml}"))?;
    node.wait_until_answered(VIP, NODE)?;
    node.wait_for_vip(VIP, "answers are proven", |row| row["answers"] == "yes")?;
    for running in [true, false] {
        if !running {
            assert_eq!(node.agent.terminate()?.code(), Some(0));
        }
        let json: Value = serde_json::from_str(&printed(&node, &["status", "-o", "json"])?)?;
        let interface = &json["interfaces"][0];
        assert_eq!(
            (&interface["name"], &interface["mode"], &interface["attached"], &interface["carrier"]),
            (&"eth0".into(), &"tc".into(), &true.into(), &true.into())
        );
        assert_eq!(interface["mac"], NODE.to_string());
        assert_eq!([interface["program_id"].as_u64()], [node.programs()?.first().copied()]);
        let vips = json["vips"].as_array().context("no list of VIPs")?;
        let rows: BTreeMap<_, _> = vips.iter().map(|row| (row["address"].as_str(), row)).collect();
        let (held, guarded) = (rows[&Some("192.0.2.10")], rows[&Some("192.0.2.1")]);
        assert_eq!((&held["role"], &held["answering"]), (&"held".into(), &true.into()));
        assert_eq!((&guarded["role"], &guarded["answering"]), (&"foreign".into(), &false.into()));
        assert!(held["answered"].as_u64() >= Some(1), "{held}");
        assert_eq!(json["lease_deadline"]["state"], "valid");

        let table = printed(&node, &["status"])?;
        let row = |first: &str| {
            let line = table.lines().find(|line| line.trim_start().starts_with(first));
            Ok::<_, anyhow::Error>(line.with_context(|| format!("{first} in: {table}"))?.to_owned())
        };
        for (first, parts) in [
            ("INTERFACE", &["ATTACHED", "MODE", "PROGRAM", "LINK", "MAC", "CARRIER"][..]),
            ("eth0", &["yes", "tc", "02:00:00:00:00:02"]),
            ("VIP", &["INTERFACE", "ROLE", "MAC", "ANSWERED", "CONFLICTS", "SUPPRESSED"]),
            ("192.0.2.10", &["eth0", "held", "02:00:00:00:00:02", "yes"]),
            ("192.0.2.1 ", &["eth0", "foreign", "02:00:00:00:00:01", "no"]),
            ("lease deadline valid", &["policy hold"]),
            ("02:00:00:00:00:77", &["eth0"]),
        ] {
            let line = row(first)?;
            assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in: {line}");
        }

        let brief = printed(&node, &["status", "-b"])?;
        let expected =
            "192.0.2.1 eth0 foreign no 02:00:00:00:00:01\n192.0.2.10 eth0 held yes 02:00:00:00:00:02\n";
        assert_eq!(brief, expected);
        let summary = table.lines().next().unwrap_or_default();
        let well = "1 VIP answered, 1 of other hosts; lease deadline valid; no conflict";
        let without = "; no agent reports which VIPs wait";
        assert_eq!(summary, if running { well.to_owned() } else { format!("{well}{without}") });
        assert!(!table.contains("claim_conflict"), "a counter that is zero in: {table}");
        assert!(printed(&node, &["status", "-v"])?.contains(" claim_conflict  "));

        let yaml = printed(&node, &["status", "--output", "yaml"])?;
        for (key, value) in held.as_object().context("a VIP is no object")? {
            let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
            let said = yaml.lines().any(|line| line.contains(&format!("{key}:")) && line.contains(&value));
            assert!(said, "{key}: {value} in: {yaml}");
        }
    }
    Ok(())
}

#[test]
fn status_of_nothing_says_so() -> Result<()> {
    let directory = TempDir::new()?;
    let pin_dir = directory.path().join("pins");
    for format in ["table", "json", "yaml"] {
        let output = vipward(&["status", "-o", format, "--pin-dir"]).arg(&pin_dir).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("nothing is pinned under {}", pin_dir.display())), "{said}");
        assert!(said.contains("--pin-dir") && output.stdout.is_empty(), "{said}");
    }
    Ok(())
}

#[test]
fn vips_that_wait_are_in_the_status_with_the_mac_that_has_them() -> Result<()> {
    let scene = Scene::new("waiting")?;
    scene.rogue.add_address("eth0", net(11))?;
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}, {address: 192.0.2.2}]\n";
    let agent = scene.agent(yaml)?;
    let brief = || {
        let mut status = agent.vipward("status")?;
        status.arg("--brief");
        output_of(status)
    };
    let expected = format!(
        "192.0.2.2 eth0 waiting no {NODE}\n192.0.2.10 eth0 held yes {NODE}\n192.0.2.11 eth0 waiting no {ROGUE}\n"
    );
    wait_until(PATIENCE, "one VIP to be held and two to wait", || Ok(brief()? == expected))
        .with_context(|| brief().unwrap_or_default())?;
    let table = output_of(agent.vipward("status")?)?;
    assert!(table.starts_with("1 VIP answered, 2 wait; lease deadline valid; no conflict\n"), "{table}");
    let row = |vip: &str| table.lines().find(|line| line.trim_start().starts_with(vip)).unwrap_or_default();
    assert!(row("192.0.2.2 ").contains("no: this host has it as 192.0.2.2/24 on eth0"), "{table}");
    assert!(
        row("192.0.2.11 ").contains(&format!("no: {ROGUE} (locally administered) answers for it")),
        "{table}"
    );
    Ok(())
}

#[test]
fn unload_of_nothing_says_so_and_is_no_failure() -> Result<()> {
    let directory = TempDir::new()?;
    let pin_dir = directory.path().join("pins");
    let mut unload = vipward(&["unload", "--pin-dir"]);
    unload.arg(&pin_dir);
    assert_eq!(output_of(unload)?, format!("nothing of Vipward's is pinned under {}\n", pin_dir.display()));
    Ok(())
}

#[test]
fn an_agent_that_gets_a_signal_to_end_ends_with_zero() -> Result<()> {
    let mut node = Node::start("signals", HOLDS_ONE)?;
    for (signal, name) in [(Signal::SIGTERM, "SIGTERM"), (Signal::SIGINT, "SIGINT")] {
        let seen = node.agent.logs()?.len();
        node.agent.signal(signal)?;
        assert_eq!(node.agent.wait(PATIENCE)?.code(), Some(0));
        node.agent.wait_for_log_after(seen, PATIENCE, name, |line| line.has("cause", name))?;
        node.restart_agent()?;
    }
    node.wait_until_answered(ip(10), NODE)
}

#[test]
fn the_log_is_text_unless_json_is_requested() -> Result<()> {
    let host = Host::new("node")?;
    let directory = TempDir::new()?;
    let file = directory.path().join("vipward.yaml");
    fs::write(&file, "vips: []\n")?;
    let bpffs = Bpffs::mount()?;
    let mut command = host.command(Agent::default_binary());
    command.arg("agent").arg("--config").arg(&file).arg("--pin-dir").arg(bpffs.pin_dir("node"));
    let mut agent = host.spawn(command)?;
    wait_until(PATIENCE, "the agent to run", || Ok(agent.stderr().contains("agent is running")))?;
    agent.signal(Signal::SIGTERM)?;
    assert_eq!(agent.wait(PATIENCE)?.code(), Some(0));
    assert!(agent.stderr().lines().all(|line| serde_json::from_str::<Value>(line).is_err()));
    assert_eq!(agent.stdout(), "", "a log is no output");
    Ok(())
}

#[test]
fn completions_name_the_commands_and_options_and_are_scripts() -> Result<()> {
    let directory = TempDir::new()?;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = output_of(vipward(&["completions", shell]))?;
        for part in ["vipward", "agent", "status", "unload", "pin-dir", "max-vips"] {
            assert!(script.contains(part), "{part} in the script for {shell}");
        }
        if shell == "bash" {
            let file = directory.path().join("vipward.bash");
            fs::write(&file, script)?;
            let mut offered = Command::new("bash");
            offered.arg("-c").arg(
                "source \"$0\"; COMP_WORDS=(vipward st); COMP_CWORD=1; \
                 _vipward vipward st vipward; echo \"${COMPREPLY[@]}\"",
            );
            offered.arg(&file);
            assert_eq!(output_of(offered)?.trim(), "status");
        }
    }
    Ok(())
}
