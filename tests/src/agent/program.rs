//! Runs the agent under test in a host: `vipward agent` or `vipward
//! kubernetes`, with its own configuration and pin directory.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;
use std::{env, io};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::log::LogLine;
use crate::{
    kit::{Process, SpawnOptions, cpu_time, memory_bytes, output_of, tools::target_dir, wait_for},
    lan::Host,
};

const CONFIG: &str = "vipward.yaml";
const KUBECONFIG: &str = "kubeconfig.yaml";
const LOG: &str = "agent.log";
/// Longest time between SIGTERM and the end of an agent.
const TERMINATE_LIMIT: Duration = Duration::from_secs(10);

/// Capabilities that a test can leave to an agent, with their numbers in linux/capability.h.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Capability {
    NetAdmin = 12,
    NetRaw = 13,
    IpcLock = 14,
    SysAdmin = 21,
    SysNice = 23,
    Perfmon = 38,
    Bpf = 39,
}

impl Capability {
    /// Capabilities of the overlay `least-privilege`, as its manifest names them.
    pub const OF_THE_OVERLAY: [(&str, Self); 6] = [
        ("BPF", Self::Bpf),
        ("IPC_LOCK", Self::IpcLock),
        ("NET_ADMIN", Self::NetAdmin),
        ("NET_RAW", Self::NetRaw),
        ("PERFMON", Self::Perfmon),
        ("SYS_NICE", Self::SysNice),
    ];
}

#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// `--pin-dir`, different for each agent.
    pub pin_dir: PathBuf,
    /// `--max-vips`, unless the default.
    pub max_vips: Option<u32>,
    /// Further arguments of the subcommand.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
    /// Capabilities to keep. By default the agent keeps all.
    pub only_capabilities: Option<Vec<Capability>>,
    /// Binary, unless [`Agent::default_binary`].
    pub binary: Option<PathBuf>,
    pub can_be_left: bool,
}

impl AgentOptions {
    pub fn new(pin_dir: impl Into<PathBuf>) -> Self {
        Self {
            pin_dir: pin_dir.into(),
            max_vips: None,
            args: Vec::new(),
            env: Vec::new(),
            only_capabilities: None,
            binary: None,
            can_be_left: false,
        }
    }
}

/// Identity of a node's agent, and its access to the API server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterMember {
    pub node_name: String,
    /// `--lease-namespace`: the agent's own namespace.
    pub lease_namespace: String,
    /// `--pod-name`: the Pod in which the agent looks for the reason of its end.
    pub pod_name: Option<String>,
    /// Content of its kubeconfig.
    pub kubeconfig: String,
}

/// Subcommand that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Mode {
    /// `vipward agent`
    Standalone,
    /// `vipward kubernetes`
    Kubernetes(ClusterMember),
}

/// Agent in a host. A test may kill it and start it again.
/// Dropping it kills the agent and unloads its pins.
#[derive(Debug)]
pub struct Agent {
    host: Host,
    mode: Mode,
    /// Options; a test may change them between two starts.
    pub options: AgentOptions,
    directory: TempDir,
    process: Option<Process>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftAgent {
    pub pid: u32,
    /// The directory of its configuration and its log.
    pub directory: PathBuf,
}

impl Agent {
    /// Starts an agent with this configuration. Returns before
    /// the agent has done anything: wait for a log line.
    pub fn start(host: &Host, yaml: &str, options: AgentOptions) -> Result<Self> {
        let mut agent = Self::new(host, Mode::Standalone, options)?;
        agent.write_config(yaml)?;
        agent.restart()?;
        Ok(agent)
    }

    /// Starts an agent as a member of a cluster. Returns before the agent has done anything.
    pub fn start_in_cluster(host: &Host, member: ClusterMember, options: AgentOptions) -> Result<Self> {
        let mut agent = Self::new(host, Mode::Kubernetes(member.clone()), options)?;
        agent.set_member(member)?;
        agent.restart()?;
        Ok(agent)
    }

    /// Changes its identity in the cluster, from the next start on.
    pub fn set_member(&mut self, member: ClusterMember) -> Result<()> {
        let path = self.directory.path().join(KUBECONFIG);
        fs::write(&path, &member.kubeconfig)
            .with_context(|| format!("failed to write {}", path.display()))?;
        self.mode = Mode::Kubernetes(member);
        Ok(())
    }

    fn new(host: &Host, mode: Mode, options: AgentOptions) -> Result<Self> {
        let directory =
            TempDir::with_prefix("vipward-agent-").context("failed to make a directory for an agent")?;
        Ok(Self { host: host.clone(), mode, options, directory, process: None })
    }

    /// Returns the binary under test: `VIPWARD_BIN`, else the debug build in the workspace.
    pub fn default_binary() -> PathBuf {
        env::var_os("VIPWARD_BIN").map_or_else(|| target_dir().join("debug/vipward"), PathBuf::from)
    }

    /// Returns the binary of an invented next version, whose maps have another layout:
    /// `VIPWARD_NEXT_BIN`, else what `cargo xtask test` has built.
    pub fn next_binary() -> Result<PathBuf> {
        let named = env::var_os("VIPWARD_NEXT_BIN").map(PathBuf::from);
        let binary = named.unwrap_or_else(|| target_dir().join("next/vipward"));
        ensure!(
            binary.is_file(),
            "there is no next version at {}: run `cargo xtask test`, or set VIPWARD_NEXT_BIN",
            binary.display()
        );
        Ok(binary)
    }

    /// Replaces the further arguments, for the next start.
    pub fn set_args(&mut self, args: Vec<String>) {
        self.options.args = args;
    }

    /// Starts the agent again after its end, with the same configuration, pins and log.
    pub fn restart(&mut self) -> Result<()> {
        ensure!(!self.is_running()?, "the agent on {} is still running", self.host.name());
        let mut command = self.command_of_mode()?;
        command.args(["--log-format", "json"]);
        if let Some(max_vips) = self.options.max_vips {
            command.arg("--max-vips").arg(max_vips.to_string());
        }
        command.args(&self.options.args);
        if let Some(kept) = self.options.only_capabilities.clone() {
            drop_capabilities_except(&mut command, kept);
        }
        let spawn = SpawnOptions { output: Some(self.log_path()), can_be_left: self.options.can_be_left };
        self.process = Some(Process::spawn(command, &spawn)?);
        Ok(())
    }

    fn command_of_mode(&self) -> Result<Command> {
        match &self.mode {
            Mode::Standalone => {
                let mut command = self.vipward("agent")?;
                command.arg("--config").arg(self.config_path());
                Ok(command)
            }
            Mode::Kubernetes(ClusterMember { node_name, lease_namespace, pod_name, kubeconfig: _ }) => {
                let mut command = self.vipward("kubernetes")?;
                command.arg("--kubeconfig").arg(self.directory.path().join(KUBECONFIG));
                command.args(["--node-name", node_name, "--lease-namespace", lease_namespace]);
                command.args(pod_name.iter().flat_map(|name| ["--pod-name", name]));
                Ok(command)
            }
        }
    }

    /// Replaces the configuration file atomically, as editors and Kubernetes do.
    pub fn write_config(&self, yaml: &str) -> Result<()> {
        let path = self.config_path();
        let new = path.with_extension("new");
        fs::write(&new, yaml)
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("failed to write {}", path.display()))
    }

    pub fn config_path(&self) -> PathBuf {
        self.directory.path().join(CONFIG)
    }

    pub fn log_path(&self) -> PathBuf {
        self.directory.path().join(LOG)
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context("the agent was never started")?.pid())
    }

    pub fn resident_bytes(&self) -> Result<u64> {
        memory_bytes(self.pid()?, "VmRSS")
    }

    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.pid()?)
    }

    /// Returns true if it runs. A stopped process counts as running.
    pub fn is_running(&mut self) -> Result<bool> {
        match &mut self.process {
            Some(process) => Ok(process.exit_status()?.is_none()),
            None => Ok(false),
        }
    }

    /// Returns the log lines of all its starts.
    pub fn logs(&self) -> Result<Vec<LogLine>> {
        let path = self.log_path();
        let text = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&text).split_inclusive('\n').filter_map(LogLine::parse).collect())
    }

    /// Waits for a log line that `matches`. Fails at once when the agent ends, and shows the log.
    pub fn wait_for_log(
        &mut self,
        limit: Duration,
        what: &str,
        matches: impl Fn(&LogLine) -> bool,
    ) -> Result<LogLine> {
        self.wait_for_log_after(0, limit, what, matches)
    }

    /// Waits for a log line that `matches` after the first `seen` lines.
    pub fn wait_for_log_after(
        &mut self,
        seen: usize,
        limit: Duration,
        what: &str,
        matches: impl Fn(&LogLine) -> bool,
    ) -> Result<LogLine> {
        let found = wait_for(limit, &format!("the agent on {} to log {what}", self.host.name()), || {
            // Checks for the end before reading the log, so that no last line is missed.
            let running = self.is_running()?;
            let line = self.logs()?.into_iter().skip(seen).find(|line| matches(line));
            ensure!(running || line.is_some(), "the agent has ended");
            Ok(line)
        });
        found.with_context(|| format!("its log:\n{}", self.transcript()))
    }

    /// Returns the whole log as text, for failure messages.
    pub fn transcript(&self) -> String {
        fs::read(self.log_path())
            .map_or_else(|error| error.to_string(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    /// Returns the last lines of the log, for failure messages.
    pub fn log_tail(&self, lines: usize) -> String {
        let transcript = self.transcript();
        let all: Vec<_> = transcript.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        self.process.as_mut().context("the agent was never started")?.signal(signal)
    }

    /// Sends SIGKILL and waits for the end.
    pub fn kill9(&mut self) -> Result<()> {
        self.process.as_mut().context("the agent was never started")?.kill().map(drop)
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.wait(TERMINATE_LIMIT)
    }

    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.process.as_mut().context("the agent was never started")?.wait(limit)
    }

    /// Returns the output of `vipward status -o json`.
    pub fn status(&self) -> Result<serde_json::Value> {
        let mut command = self.vipward("status")?;
        command.args(["-o", "json"]);
        let printed = output_of(command)?;
        serde_json::from_str(&printed).with_context(|| format!("status printed no JSON: {printed}"))
    }

    /// Runs `vipward unload`, which removes all pins. Returns its output.
    pub fn unload(&self) -> Result<String> {
        output_of(self.vipward("unload")?)
    }

    /// Returns `vipward SUBCOMMAND --pin-dir DIR` on the host.
    pub fn vipward(&self, subcommand: &str) -> Result<Command> {
        let binary = self.options.binary.clone().unwrap_or_else(Self::default_binary);
        ensure!(
            binary.is_file(),
            "there is no agent at {}: run `cargo build -p vipward`, or set VIPWARD_BIN",
            binary.display()
        );
        let mut command = self.host.command(binary);
        command.arg(subcommand).arg("--pin-dir").arg(&self.options.pin_dir);
        command.envs(self.options.env.iter().map(|(key, value)| (key, value)));
        Ok(command)
    }

    /// Leaves the agent running. The caller must end it
    /// by its pid and remove its directory and pins.
    pub fn leave(mut self) -> Result<LeftAgent> {
        ensure!(
            self.options.can_be_left,
            "the agent was not started to be left: set AgentOptions::can_be_left"
        );
        let process = self.process.take().context("the agent was never started")?;
        let pid = process.leave();
        self.directory.disable_cleanup(true);
        Ok(LeftAgent { pid, directory: self.directory.path().to_owned() })
    }

    fn unload_what_is_left(&self) -> Result<()> {
        // Without a pin directory there is nothing to unload.
        if Path::new(&self.options.pin_dir).exists() { self.unload().map(drop) } else { Ok(()) }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let Some(process) = self.process.take() else { return };
        // Kills the agent before its pins go.
        drop(process);
        if let Err(error) = self.unload_what_is_left() {
            eprintln!("failed to unload the agent on {}: {error:#}", self.host.name());
        }
    }
}

/// Limits the capabilities that root gets at exec to a bounding set.
fn drop_capabilities_except(command: &mut Command, kept: Vec<Capability>) {
    // SAFETY: between fork and exec the closure makes system calls only and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            for capability in 0..=u8::MAX {
                if kept.iter().any(|kept| *kept as u8 == capability) {
                    continue;
                }
                if libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) != 0 {
                    let error = io::Error::last_os_error();
                    // EINVAL: this kernel has no such capability.
                    return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
                }
            }
            Ok(())
        });
    }
}
