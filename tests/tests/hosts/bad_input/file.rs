//! Faulty configurations.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::Result;
use nix::{sys::stat::Mode, unistd::mkfifo};
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, Capability, PATIENCE},
    kit::output_of,
    lan::Host,
};

/// Exit code for a wrong configuration.
const BAD_CONFIGURATION: i32 = 3;

/// A description, the file, and parts of the message: after the
/// file's path, the place and the fault.
const ROWS: &[(&str, &str, &[&str])] = &[
    ("nothing", "", &[" is empty; the least is `vips: []`"]),
    (
        "an unknown key",
        "vips: []\nfences: {duration: 3s}\n",
        &[
            ":2:1: unknown key `fences`; the keys here are node, interfaces, vips, peers, attach, fence, announce, \
             probe, conflicts, yield, shutdown",
        ],
    ),
    (
        "several faults",
        "attach: fast\nvips: [{address: one}, {address: fe80::1}]\n",
        &[":1:9: `fast`", "vipward.yaml:2:18: `one`", "vipward.yaml:2:34: fe80::1 is"],
    ),
];

fn start(host: &Host, bpffs: &Bpffs, yaml: &str) -> Result<Agent> {
    Agent::start(host, yaml, AgentOptions::new(bpffs.pin_dir("node")))
}

#[test]
fn a_configuration_that_is_wrong_is_refused_and_nothing_is_touched() -> Result<()> {
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    for (what, yaml, parts) in ROWS {
        let mut agent = start(&host, &bpffs, yaml)?;
        let status = agent.wait(PATIENCE)?;
        let said = agent.transcript();
        assert_eq!(status.code(), Some(BAD_CONFIGURATION), "{what}: {said}");
        assert!(said.starts_with("error: the configuration is wrong: "), "{what}: {said}");
        let (first, others) = parts.split_first().unwrap_or((&"", &[]));
        let expected = format!("{}{first}", agent.config_path().display());
        assert!(said.contains(&expected), "{what}: {expected} in: {said}");
        assert!(others.iter().all(|part| said.contains(part)), "{what}: {others:?} in: {said}");
        assert!(!bpffs.pin_dir("node").exists(), "{what}: something was pinned");

        // --check prints the same.
        let mut check = agent.vipward("agent")?;
        check.arg("--check").arg("--config").arg(agent.config_path());
        let output = check.output()?;
        assert_eq!(output.status.code(), Some(BAD_CONFIGURATION), "{what}: --check");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{what}: --check");
        assert!(output.stdout.is_empty(), "{what}: --check prints no configuration");
    }
    Ok(())
}

#[test]
fn a_file_that_is_not_there_or_may_not_be_read_is_named() -> Result<()> {
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    let mut agent = start(&host, &bpffs, "vips: [one]\n")?;
    agent.wait(PATIENCE)?;
    let path = agent.config_path();

    let said_by_next = |agent: &mut Agent| -> Result<String> {
        let before = agent.transcript().len();
        agent.restart()?;
        assert_eq!(agent.wait(PATIENCE)?.code(), Some(BAD_CONFIGURATION));
        Ok(agent.transcript().split_off(before))
    };
    let refused = |said: &str, cause: &str| {
        let expected = format!("error: failed to read the configuration {}: {cause}", path.display());
        assert!(said.starts_with(&expected), "{expected} in: {said}");
    };
    fs::set_permissions(&path, Permissions::from_mode(0o000))?;
    agent.options.only_capabilities =
        Some(vec![Capability::Bpf, Capability::NetAdmin, Capability::NetRaw, Capability::Perfmon]);
    refused(&said_by_next(&mut agent)?, "Permission denied");
    fs::remove_file(&path)?;
    refused(&said_by_next(&mut agent)?, "No such file or directory");
    assert!(!bpffs.pin_dir("node").exists(), "something was pinned");
    Ok(())
}

#[test]
fn a_file_of_another_kind_is_refused_at_the_start_and_by_each_command_that_reads_it() -> Result<()> {
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    let directory = TempDir::with_prefix("vipward-kinds-")?;
    let at = |name: &str| directory.path().join(name);
    mkfifo(&at("fifo"), Mode::S_IRUSR)?;
    fs::File::create(at("large"))?.set_len((16 << 20) + 1)?;
    for (path, why) in [
        (at("fifo"), "it is a FIFO"),
        (at("large"), "it is larger than 16 MiB"),
        (directory.path().to_owned(), "it is a directory"),
        (PathBuf::from("/dev/zero"), "it is a device"),
    ] {
        for args in [&["agent", "--config"][..], &["agent", "--check", "--config"]] {
            let mut command = host.command(Agent::default_binary());
            let output =
                command.args(args).arg(&path).arg("--pin-dir").arg(bpffs.pin_dir("node")).output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(BAD_CONFIGURATION), "{args:?} {why}: {said}");
            let expected = format!("error: failed to read the configuration {}: {why}", path.display());
            assert!(said.starts_with(&expected), "{expected} in: {said}");
        }
        let mut command = host.command(Agent::default_binary());
        let output = command.args(["explain", "192.0.2.10", "--config"]).arg(&path).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(why), "explain, {why}: {said}");
    }
    assert!(!bpffs.pin_dir("node").exists(), "something was pinned");
    Ok(())
}

#[test]
fn a_wrong_command_line_is_distinguished_from_a_wrong_configuration() -> Result<()> {
    let host = Host::new("node")?;
    for (args, part) in [
        (&["agent"][..], "--config <FILE>"),
        (&["agent", "--config", "x.yaml", "--max-vips", "0"], "--max-vips"),
        (&["agent", "--config", "x.yaml", "--xdp", "native"], "--xdp"),
        (&["status", "-o", "xml"], "table, json, yaml"),
        (&["start"], "start"),
    ] {
        let output = host.command(Agent::default_binary()).args(args).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(part), "{args:?}: {said}");
    }
    let mut right = host.command(Agent::default_binary());
    right.arg("--version");
    assert!(output_of(right)?.starts_with("vipward "));
    Ok(())
}
