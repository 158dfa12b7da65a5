//! Options of a cluster, and the time limit of its waits.

use std::path::PathBuf;
use std::time::Duration;

use crate::agent::AgentOptions;

/// Time limit of everything that no test delays on purpose.
pub const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Switch {
    Bridge,
    Managed,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterOptions {
    /// Number of nodes, at most nine.
    pub nodes: u8,
    /// True for an API server in this process, even with `KUBECONFIG`.
    pub api_in_process: bool,
    pub start_agents: bool,
    /// The switch of the VIPs' segment.
    pub switch: Switch,
    /// True if the agents leave the statuses to a controller. The scenario starts it.
    pub with_controller: bool,
    /// Further arguments of every agent, besides the times below.
    pub args: Vec<String>,
    /// Further environment variables of every agent.
    pub env: Vec<(String, String)>,
    /// Binary of the agents, unless the default.
    pub binary: Option<PathBuf>,
    pub lease: Duration,
    /// `--lease-renewal`
    pub renewal: Duration,
    pub margin: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 3,
            api_in_process: false,
            start_agents: true,
            switch: Switch::Bridge,
            with_controller: false,
            args: Vec::new(),
            env: Vec::new(),
            binary: None,
            lease: Duration::from_secs(4),
            renewal: Duration::from_secs(1),
            margin: Duration::from_millis(500),
        }
    }
}

impl ClusterOptions {
    /// Returns the default options with further arguments of every agent.
    pub fn with_args(args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { args, ..Self::default() }
    }

    /// Returns options with which a better node gets a VIP within a test.
    pub fn impatient() -> Self {
        Self::with_args(&["--stable-for", "2s"])
    }

    /// Returns the longest time after a crash in which a client's datagrams may be lost.
    pub fn failover_limit(&self) -> Duration {
        self.lease + self.margin + Duration::from_secs(1)
    }

    /// Returns the options to start an agent.
    pub(super) fn of_agent(&self, pin_dir: PathBuf) -> AgentOptions {
        let (env, binary) = (self.env.clone(), self.binary.clone());
        AgentOptions { args: self.agent_args(), env, binary, ..AgentOptions::new(pin_dir) }
    }

    fn agent_args(&self) -> Vec<String> {
        let times =
            [("--lease-duration", self.lease), ("--lease-renewal", self.renewal), ("--margin", self.margin)];
        let times =
            times.into_iter().flat_map(|(flag, time)| [flag.to_owned(), format!("{}ms", time.as_millis())]);
        let alone = (!self.with_controller).then(|| "--without-controller".to_owned());
        times.chain(alone).chain(self.args.iter().cloned()).collect()
    }
}
