//! Facts that the doctor cannot or may not read: other processes, and facts that need rights.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, Attachment, Bpffs, HOLDS_ONE, Node, Scene},
    lan::Host,
};

use super::{
    super::nobody::{AS_NOBODY, copy_for_everybody},
    GREEN, NOT_APPLICABLE, RED, UNKNOWN, YELLOW,
    report::{ILL, Report, doctor, doctor_at},
};

/// The exit code if root could read more.
const DENIED: i32 = 4;

/// Returns a program with the name keepalived, which waits for a number of seconds.
fn keepalived(directory: &TempDir) -> Result<PathBuf> {
    copy_for_everybody(Path::new("/bin/sleep"), directory, "keepalived")
}

/// Returns the report of a doctor on a node, in its own PID namespace, as in a
/// container. Process 1 there is a shell that runs the line `before` and becomes
/// the doctor. All its processes end with the doctor.
fn doctor_in_pid_namespace(node: &Node, before: &str) -> Result<Report> {
    let mut command = node.host.command("unshare");
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
    command.arg(format!("{before}\nexec \"$@\"")).arg("sh");
    command.arg(Agent::default_binary()).args(["doctor", "-o", "json", "--pin-dir"]);
    command.arg(&node.agent.options.pin_dir);
    Report::of(command)
}

#[test]
fn a_process_that_holds_addresses_too_is_named_where_it_runs_and_nowhere_else() -> Result<()> {
    let scene = Scene::new("keepalived")?;
    let directory = TempDir::new()?;
    let keepalived = keepalived(&directory)?;
    let mut command = scene.node.command(&keepalived);
    command.arg("600");
    let process = scene.node.spawn(command)?;
    let pin_dir = scene.bpffs.pin_dir("node");
    let pid = format!("keepalived (pid {})", process.pid());
    let report = doctor_at(&scene.node, &pin_dir, &[])?;
    report.assert("other-vip-software", None, YELLOW, &[&pid], &["stop the other"]);
    let report = doctor_at(&scene.rogue, &pin_dir, &[])?;
    report.assert("other-vip-software", None, GREEN, &[], &[]);
    Ok(())
}

#[test]
fn in_a_containers_pid_namespace_only_what_is_seen_counts() -> Result<()> {
    let node = Node::start("pid-namespace", HOLDS_ONE)?;
    let directory = TempDir::new()?;
    let keepalived = keepalived(&directory)?;
    let mut outside = node.host.command(&keepalived);
    outside.arg("600");
    let outside = node.host.spawn(outside)?;
    let pid = format!("keepalived (pid {})", outside.pid());
    doctor(&node, &[])?.assert("other-vip-software", None, YELLOW, &[&pid], &[]);

    let report = doctor_in_pid_namespace(&node, ":")?;
    for check in ["other-vip-software", "kube-proxy"] {
        report.assert(check, None, UNKNOWN, &["none is seen", "PID namespace"], &["hostPID: true"]);
    }
    report.assert("agent", None, GREEN, &["an agent runs"], &[]);
    report.assert("capabilities", None, UNKNOWN, &["its process is not seen"], &["hostPID: true"]);

    let ready = "until [ \"$(cat /proc/$!/comm)\" = keepalived ]; do sleep 0.01; done";
    let inside = format!("{} 600 & {ready}", keepalived.display());
    let report = doctor_in_pid_namespace(&node, &inside)?;
    report.assert("other-vip-software", None, YELLOW, &["keepalived (pid 2)"], &["stop the other"]);
    Ok(())
}

#[test]
fn where_the_processes_of_other_users_are_hidden_it_is_unknown_that_none_runs() -> Result<()> {
    let host = Host::new("hidepid")?;
    let directory = TempDir::new()?;
    let binary = copy_for_everybody(&Agent::default_binary(), &directory, "vipward")?;
    let mut command = host.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c"]);
    command.arg("mount -t proc -o hidepid=2 proc /proc && exec \"$@\"").args(["sh", "setpriv"]);
    command.args(AS_NOBODY).arg(&binary).args(["doctor", "-o", "json"]);
    let report = Report::of(command)?;
    for check in ["other-vip-software", "kube-proxy"] {
        report.assert(check, None, UNKNOWN, &["hidepid"], &["sudo"]);
    }
    Ok(())
}

#[test]
fn capabilities_that_are_missing_are_named() -> Result<()> {
    let (host, bpffs) = (Host::new("node")?, Bpffs::mount()?);
    let mut command = host.command("setpriv");
    command.args(["--bounding-set", "-perfmon,-sys_admin"]).arg(Agent::default_binary());
    command.args(["doctor", "-o", "json", "--pin-dir"]).arg(bpffs.pin_dir("node"));
    let report = Report::of(command)?;
    report.assert(
        "capabilities",
        None,
        RED,
        &["this process lacks CAP_PERFMON"],
        &["AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW CAP_PERFMON"],
    );
    assert_eq!(report.code, ILL, "{report}");
    Ok(())
}

#[test]
fn without_rights_what_cannot_be_read_is_unknown_and_what_can_is_shown() -> Result<()> {
    let node = Node::start("nobody", HOLDS_ONE)?;
    let directory = TempDir::new()?;
    let binary = copy_for_everybody(&Agent::default_binary(), &directory, "vipward")?;
    let mut command = node.host.command("setpriv");
    command.args(AS_NOBODY).arg(&binary);
    command.args(["doctor", "-o", "json", "--pin-dir"]).arg(&node.agent.options.pin_dir);
    let report = Report::of(command)?;
    for check in ["pins", "lease-deadline", "map-fill", "bound-elsewhere"] {
        report.assert(check, None, UNKNOWN, &["denied"], &["sudo"]);
    }
    for check in ["program", "veth-peer"] {
        report.assert(check, Some("eth0"), UNKNOWN, &["denied"], &["sudo"]);
    }
    report.assert("tc", Some("eth0"), UNKNOWN, &["not permitted"], &["sudo"]);
    report.assert("link", Some("eth0"), GREEN, &["carrier"], &[]);
    report.assert("kernel", None, GREEN, &[], &[]);
    // Every user may see locks and the capabilities of processes.
    report.assert("agent", None, GREEN, &[&format!("pid {}", node.agent.pid()?)], &[]);
    report.assert("capabilities", None, GREEN, &["the agent has"], &[]);
    assert_eq!(report.code, DENIED, "{report}");

    // What needs root is one line, and no remedy is repeated.
    let mut command = node.host.command("setpriv");
    command.args(AS_NOBODY).arg(&binary).args(["doctor", "--pin-dir"]).arg(&node.agent.options.pin_dir);
    let output = command.output().context("failed to start setpriv")?;
    assert_eq!(output.status.code(), Some(DENIED));
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.contains(" checks need root (sudo vipward doctor): "));
    assert!(line.is_some_and(|line| line.contains("pins") && line.contains("lease-deadline")), "{text}");
    assert_eq!(text.matches("sudo").count(), 1, "{text}");
    Ok(())
}

#[test]
fn a_namespace_that_is_not_the_first_sees_no_limits_of_the_neighbour_table() -> Result<()> {
    let node = Node::launch("neighbours", Attachment::Auto, HOLDS_ONE, |_| {})?;
    doctor(&node, &[])?.assert("neighbour-table", None, NOT_APPLICABLE, &["first network namespace"], &[]);
    Ok(())
}
