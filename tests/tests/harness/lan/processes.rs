//! Child processes run in the right place and for the right time, and their output is kept.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use vipward_tests::{
    kit::{Process, output_of},
    lan::Host,
};

use super::PATIENCE;

fn shell(host: &Host, script: &str) -> Command {
    let mut command = host.command("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn a_command_runs_in_its_host() -> Result<()> {
    let host = Host::new("host")?;
    let namespace = format!("net:[{}]\n", host.namespace().inode()?);
    assert_eq!(output_of(shell(&host, "readlink /proc/self/ns/net"))?, namespace);
    let mut spawned = host.spawn(shell(&host, "readlink /proc/self/ns/net"))?;
    assert!(spawned.wait(PATIENCE)?.success());
    assert_eq!(spawned.stdout(), namespace);
    Ok(())
}

#[test]
fn a_failure_shows_what_was_printed() -> Result<()> {
    let host = Host::new("host")?;
    let script = "echo to stdout; echo to stderr >&2; exit 3";
    let failure = format!("{:#}", output_of(shell(&host, script)).expect_err("it exits with 3"));
    for part in ["sh failed", "exit status: 3", "to stdout", "to stderr"] {
        assert!(failure.contains(part), "{failure}");
    }
    let missing = host.spawn(host.command("/no/such/program")).map(drop);
    let missing = format!("{:#}", missing.expect_err("it is not there"));
    assert!(
        missing.contains("failed to start /no/such/program") && missing.contains("on host host"),
        "{missing}"
    );
    Ok(())
}

#[test]
fn a_process_lives_from_its_start_to_its_drop() -> Result<()> {
    let host = Host::new("host")?;
    // The thread that starts it ends before the test looks at it.
    let started = thread::scope(|scope| scope.spawn(|| host.spawn(shell(&host, "exec sleep 1000"))).join());
    let mut process: Process = started.ok().context("the thread panicked")??;
    assert_eq!(process.exit_status()?, None);
    let proc = Path::new("/proc").join(process.pid().to_string());
    assert!(proc.exists());
    drop(process);
    assert!(!proc.exists(), "it is killed and reaped");
    Ok(())
}

#[test]
fn a_process_that_has_ended_gets_no_signal() -> Result<()> {
    let host = Host::new("host")?;
    let mut process = host.spawn(shell(&host, "exec sleep 1000"))?;
    process.signal(Signal::SIGTERM)?;
    assert_eq!(process.wait(PATIENCE)?.signal(), Some(15));
    assert!(process.signal(Signal::SIGTERM).is_err());
    Ok(())
}
