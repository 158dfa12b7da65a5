//! An agent under systemd: what it notifies its service manager of, and its unit.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;
use vipward_tests::{
    agent::{
        Agent, AgentOptions, Attachment, LogLine, NODE, Node, PATIENCE, ROGUE, Scene, VIP, ask, ip, net,
    },
    kit::{output_of, tools::in_checkout},
};

/// The watchdog of these tests.
const WATCHDOG: Duration = Duration::from_secs(1);

/// The socket of a service manager.
struct Manager {
    socket: UnixDatagram,
    directory: TempDir,
    lines: VecDeque<String>,
}

impl Manager {
    fn new() -> Result<Self> {
        let directory = TempDir::with_prefix("vipward-notify-")?;
        let socket = UnixDatagram::bind(directory.path().join("notify"))?;
        Ok(Self { socket, directory, lines: VecDeque::new() })
    }

    fn env(&self) -> Vec<(String, String)> {
        let socket = self.directory.path().join("notify").display().to_string();
        let watchdog = WATCHDOG.as_micros().to_string();
        vec![("NOTIFY_SOCKET".to_owned(), socket), ("WATCHDOG_USEC".to_owned(), watchdog)]
    }

    /// Waits for an assignment. Returns none after this time.
    fn next(&mut self, limit: Duration) -> Result<Option<String>> {
        if self.lines.is_empty() {
            self.socket.set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
            let mut datagram = [0; 4_096];
            let bytes = match self.socket.recv(&mut datagram) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            };
            let text = std::str::from_utf8(&datagram[..bytes])?;
            self.lines.extend(text.lines().map(ToOwned::to_owned));
        }
        Ok(self.lines.pop_front())
    }

    fn wait_for(&mut self, wanted: &str) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        let mut last = Vec::new();
        while let Some(line) = self.next(end.saturating_duration_since(Instant::now()))? {
            if line.starts_with(wanted) {
                return Ok(());
            }
            last.push(line);
        }
        bail!("no {wanted} in {last:?}")
    }

    /// Asserts that no two pings are further apart than the watchdog, for a time.
    fn assert_pings(&mut self, duration: Duration) -> Result<()> {
        let (end, mut last, mut pings) = (Instant::now() + duration, Instant::now(), 0);
        while Instant::now() < end {
            let line = self.next(WATCHDOG)?.context("neither a ping nor anything else")?;
            if line == "WATCHDOG=1" {
                (last, pings) = (Instant::now(), pings + 1);
            }
            assert!(last.elapsed() < WATCHDOG, "no ping for {:?}", last.elapsed());
        }
        assert!(pings > 1, "{pings} pings");
        Ok(())
    }
}

#[test]
fn an_agent_is_ready_when_its_vips_are_held_or_wait_and_pings_while_its_event_loop_runs() -> Result<()> {
    let mut manager = Manager::new()?;
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n";
    let mut node = Node::launch("ready", Attachment::Auto, yaml, |options| options.env = manager.env())?;
    manager.wait_for("READY=1")?;
    // Nothing is waited for: it holds them already.
    assert_eq!((node.ask(ip(10))?, node.ask(ip(11))?), (Some(NODE), Some(NODE)));
    manager.wait_for("STATUS=VIPs held: 2, waiting: 0")?;
    manager.assert_pings(3 * WATCHDOG)?;

    let path = node.agent.config_path();
    let seen = node.agent.logs()?.len();
    std::fs::remove_file(&path)?;
    mkfifo(&path, Mode::S_IRUSR)?;
    manager.wait_for("STATUS=VIPs held: 2, waiting: 0; the file on disk was refused")?;
    manager.assert_pings(3 * WATCHDOG)?;
    let refused = |line: &LogLine| line.level() == "ERROR";
    node.agent.wait_for_log_after(seen, PATIENCE, "the refusal", refused)?;

    node.agent.signal(Signal::SIGSTOP)?;
    while manager.next(2 * WATCHDOG)?.is_some() {}
    assert_eq!(node.ask(VIP)?, Some(NODE), "the program answers on");
    node.agent.signal(Signal::SIGCONT)?;
    manager.wait_for("WATCHDOG=1")?;

    // As systemd ends an agent that is silent.
    node.agent.signal(Signal::SIGABRT)?;
    assert!(!node.agent.wait(PATIENCE)?.success());
    assert_eq!(node.ask(VIP)?, Some(NODE), "nothing was unpinned");
    std::fs::remove_file(&path)?;
    node.write_config(yaml)?;
    node.agent.restart()?;
    manager.wait_for("READY=1")?;
    assert!(node.agent.terminate()?.success());
    manager.wait_for("STOPPING=1")
}

#[test]
fn an_agent_is_ready_although_a_vip_is_in_use_and_without_a_watchdog_it_pings_nobody() -> Result<()> {
    let scene = Scene::new("notready")?;
    scene.rogue.add_address("eth0", net(11))?;
    let mut manager = Manager::new()?;
    let mut options = AgentOptions::new(scene.bpffs.pin_dir("node"));
    options.env = manager.env()[..1].to_vec();
    let yaml = "vips: [{address: 192.0.2.10}, {address: 192.0.2.11}]\n";
    let agent = Agent::start(&scene.node, yaml, options)?;
    manager.wait_for("READY=1")?;
    manager.wait_for("STATUS=VIPs held: 1, waiting: 1")?;
    assert_eq!(ask(&scene.client, "eth0", ip(11))?, Some(ROGUE));
    assert_eq!(manager.next(3 * WATCHDOG)?, None);
    drop(agent);
    Ok(())
}

#[test]
fn systemd_takes_the_unit() -> Result<()> {
    let unit = in_checkout("deploy/systemd/vipward.service");
    let text = std::fs::read_to_string(&unit)?;
    for line in ["Type=notify", "NotifyAccess=main", "WatchdogSec=10s"] {
        assert!(text.lines().any(|it| it == line), "{line}");
    }
    let Ok(which) = Command::new("systemd-analyze").arg("--version").output() else {
        eprintln!("systemd-analyze is not here");
        return Ok(());
    };
    assert!(which.status.success());
    // It must find the binary.
    let directory = TempDir::with_prefix("vipward-unit-")?;
    let copy = directory.path().join("vipward.service");
    let binary = Agent::default_binary();
    std::fs::write(&copy, text.replace("/usr/local/bin/vipward", binary.to_str().context("a text")?))?;
    let mut command = Command::new("systemd-analyze");
    command.args(["verify", "--man=no"]).arg(&copy);
    let said = output_of(command)?;
    assert_eq!(said, "");
    Ok(())
}
