//! The library's control of agents, with a script in the agent's place.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::sys::signal::Signal;
use tempfile::TempDir;
use vipward_tests::{
    agent::{Agent, AgentOptions, Capability},
    lan::{Host, Lan, Nic},
};

use super::{PATIENCE, net};

struct Bench {
    _lan: Lan,
    host: Host,
    directory: TempDir,
}

impl Bench {
    fn new(name: &str) -> Result<Self> {
        let lan = Lan::new(name)?;
        let host = lan.host("host", Nic::new(net(1)))?;
        Ok(Self { _lan: lan, host, directory: TempDir::new()? })
    }

    fn pin_dir(&self) -> PathBuf {
        self.directory.path().join("pins")
    }

    fn options(&self) -> AgentOptions {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness/lan/stand-in-agent.sh");
        AgentOptions { binary: Some(script), ..AgentOptions::new(self.pin_dir()) }
    }
}

#[test]
fn an_agent_runs_in_its_host_until_it_is_dropped() -> Result<()> {
    let bench = Bench::new("agent-life")?;
    let mut agent = Agent::start(&bench.host, "vips: []", bench.options())?;
    let network = agent.wait_for_log(PATIENCE, "its network", |line| line.message() == "network")?;
    assert!(network.has("detail", format!("net:[{}]", bench.host.namespace().inode()?)), "{network}");
    let started = agent.wait_for_log(PATIENCE, "that it started", |line| line.message() == "started")?;
    assert!(started.has("detail", "vips: []"), "{started}");
    assert_eq!(agent.status()?["pin_dir"], bench.pin_dir().display().to_string());

    let pid = agent.pid()?;
    drop(agent);
    assert!(!Path::new("/proc").join(pid.to_string()).exists());
    assert!(!bench.pin_dir().exists(), "it was unloaded");
    Ok(())
}

#[test]
fn an_agent_is_killed_restarted_and_terminated() -> Result<()> {
    let bench = Bench::new("agent-restart")?;
    let mut agent = Agent::start(&bench.host, "one", bench.options())?;
    agent.wait_for_log(PATIENCE, "that it started", |line| line.has("detail", "one"))?;
    assert!(agent.restart().is_err(), "it still runs");
    agent.kill9()?;
    assert!(!agent.is_running()?);

    let seen = agent.logs()?.len();
    agent.write_config("two")?;
    agent.restart()?;
    agent.wait_for_log_after(seen, PATIENCE, "that it started", |line| line.has("detail", "two"))?;
    assert_eq!(agent.terminate()?.code(), Some(7));
    assert_eq!(agent.logs()?.last().map(|line| line.message().to_owned()).as_deref(), Some("terminated"));
    assert!(agent.signal(Signal::SIGTERM).is_err(), "it has ended");
    Ok(())
}

#[test]
fn waiting_for_an_agent_that_has_ended_fails_at_once_with_its_log() -> Result<()> {
    let bench = Bench::new("agent-ended")?;
    let mut agent = Agent::start(&bench.host, "one", bench.options())?;
    agent.wait_for_log(PATIENCE, "that it started", |line| line.has("detail", "one"))?;
    agent.kill9()?;
    let failure = agent.wait_for_log(PATIENCE, "what it never says", |_| false).map(drop);
    let failure = format!("{:#}", failure.expect_err("it never says that"));
    assert!(failure.contains("the agent has ended") && failure.contains("started"), "{failure}");
    assert_eq!(agent.wait(PATIENCE)?.signal(), Some(9));
    Ok(())
}

#[test]
fn an_agent_has_only_the_capabilities_that_it_is_left_with() -> Result<()> {
    let bench = Bench::new("agent-caps")?;
    let kept = vec![Capability::NetAdmin, Capability::NetRaw, Capability::Perfmon, Capability::Bpf];
    let options = AgentOptions { only_capabilities: Some(kept), ..bench.options() };
    let mut agent = Agent::start(&bench.host, "", options)?;
    let line = agent.wait_for_log(PATIENCE, "its capabilities", |line| line.message() == "capabilities")?;
    assert!(line.has("detail", format!("{:016x}", 1_u64 << 12 | 1 << 13 | 1 << 38 | 1 << 39)), "{line}");
    Ok(())
}
