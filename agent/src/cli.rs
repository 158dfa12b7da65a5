//! The command line and its help.

mod address;
mod controller;
mod doctor;
mod explain;
mod kubernetes;
mod plugin;
mod pools;
mod watch;
mod who_has;
mod wire;

use std::{
    net::{AddrParseError, IpAddr},
    path::PathBuf,
    str::FromStr,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use thiserror::Error;
use vipward_common::{DEFAULT_MAX_VIPS, PIN_DIR};

pub use self::{
    controller::ControllerArgs,
    doctor::DoctorArgs,
    explain::{ExplainArgs, Subject},
    kubernetes::{
        ApiArgs, AttachArg, KubernetesArgs, MoveArgs, OwnershipArgs, PodAddress, PolicyArg, ServiceArgs,
        WireArg,
    },
    plugin::{CalledAs, complete},
    pools::{PoolsArgs, ReleaseArgs},
    watch::{LinesArg, WatchArgs},
    who_has::{ReportFormat, WhoHasArgs},
    wire::{SecretArgs, WireArgs, WireCommand, WireInitArgs, WireRotateArgs},
};
use crate::shell::{
    kube::Access,
    metrics::DEFAULT_MAX_VIPS as DEFAULT_SERIES_VIPS,
    pages::{Listen, ListenAddress, PORT},
};

/// Layer-2 VIP agent: answers ARP for the VIPs of this node in the kernel, and guards them.
///
/// The program that answers is pinned in the kernel: it goes on when the agent is killed, restarted
/// or upgraded, within the fence that the agent keeps moving.
#[derive(Parser, Debug)]
#[command(name = "vipward", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed while running
  2  the command line is wrong
  3  the configuration, the settings or the kubeconfig are wrong or cannot be read (nothing was changed)
  4  this host cannot run it: not root or capabilities missing, kernel too old, no bpffs
  5  another agent uses the pin directory, or runs under this node's name
  6  who-has: nobody answers
  7  who-has: more than one answers, a conflict
  8  explain: a step is broken; doctor: something is red";

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Hold and guard the VIPs that a file lists, until told to stop.
    ///
    /// SIGHUP reads the file again, and takes back yielded VIPs that a peer answers for (see
    /// `yield` for the others). A changed file is noticed by itself. SIGTERM and SIGINT end the
    /// agent: with `shutdown: keep` the pinned program answers on, under the fence's policy; with
    /// `shutdown: withdraw` it stops at once.
    #[command(after_long_help = AGENT_EXAMPLE)]
    Agent(AgentArgs),
    /// Hold the VIPs of a cluster's LoadBalancer Services, in agreement with the other nodes, until
    /// told to stop.
    ///
    /// The nodes agree through the API server alone: one Lease a node, one VirtualIP object a VIP.
    /// SIGTERM and SIGINT end the agent: when it is restarted or rolled out, nothing moves; when
    /// its node is cordoned or goes away, its VIPs are handed over; when its DaemonSet is deleted,
    /// everything is withdrawn and unpinned.
    #[command(after_long_help = kubernetes::HELP)]
    Kubernetes(Box<KubernetesArgs>),
    /// Give out the addresses of VIPPools to a cluster's LoadBalancer Services, and write their
    /// statuses, until told to stop. It needs no privileges and no node.
    ///
    /// Several may run: one leads, by a Lease. What is announced goes on without any.
    Controller(Box<ControllerArgs>),
    /// Move a VIP of a cluster to another node, by handover: no request goes unanswered.
    Move(MoveArgs),
    /// Show a cluster's pools of addresses: which are used, kept and free, and by whom.
    ///
    /// It needs no controller that runs.
    Pools(PoolsArgs),
    /// Free an address that is kept for a deleted Service, or have the Service that has it get
    /// another one first.
    ///
    /// A Service that asks for the address by name keeps it. The controller releases it.
    Release(ReleaseArgs),
    /// Create or replace the key by which the nodes of a cluster find out in a fraction of a second
    /// that one of them has died.
    #[command(after_long_help = wire::HELP)]
    Wire(WireArgs),
    /// Print the definitions of VirtualIP and VIPPool objects, for `kubectl apply`.
    Crd,
    /// Show what the kernel has: interfaces, VIPs, counters, the fence. Works without a running
    /// agent.
    Status(StatusArgs),
    /// Examine this host: what is well, what is not, and what to do about it. Works without a
    /// running agent.
    #[command(after_long_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Watch what the kernel has: interfaces, VIPs and their rates, the fence, and who claims what
    /// is not theirs.
    ///
    /// It reads the pins, as `status` does, and needs no running agent.
    #[command(after_help = watch::HELP)]
    Watch(WatchArgs),
    /// Ask the segment who answers for an address, and list all who do, with MAC, vendor and order.
    /// Works without an agent.
    WhoHas(WhoHasArgs),
    /// Say why an address is answered for, or is not: from the Service to the answer, with the
    /// first broken step.
    Explain(Box<ExplainArgs>),
    /// Detach the program from every interface and remove everything that is pinned. VIPs are no
    /// longer answered.
    ///
    /// Addresses that `bind:` put on interfaces are taken away too. Refused while an agent uses the
    /// pin directory: stop it first.
    Unload(PinArgs),
    /// Print a completion script for a shell.
    #[command(after_help = "For bash: vipward completions bash > /etc/bash_completion.d/vipward")]
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

const AGENT_EXAMPLE: &str = "\
The smallest configuration:

  vips:
    - address: 192.0.2.10

Check one before you use it, and see every default:

  vipward agent --config vipward.yaml --check

It needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, and no more.";

/// The pin directory.
#[derive(Args, Debug)]
pub struct PinArgs {
    /// Directory on a bpffs for the maps and links; one agent each.
    #[arg(long, value_name = "DIR", default_value = PIN_DIR)]
    pub pin_dir: PathBuf,
}

/// `vipward agent`.
#[derive(Args, Debug)]
pub struct AgentArgs {
    /// The configuration, in YAML.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Only validate the file, and print the effective configuration with every default.
    #[arg(long)]
    pub check: bool,
    /// The pages.
    #[command(flatten)]
    pub pages: PagesArgs,
    /// The data plane and the log.
    #[command(flatten)]
    pub plane: PlaneArgs,
}

/// The addresses that serve `/metrics`, `/livez`, `/readyz` and `/debug/state`.
#[derive(Args, Debug)]
#[command(next_help_heading = "Pages")]
pub struct PagesArgs {
    /// Serve /metrics, /livez, /readyz and (for this host only) /debug/state on this address;
    /// repeatable. `none`: nowhere. Default: 127.0.0.1, and in a cluster the pod's address too.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<ListenAddress>,
    /// The port of these pages, on all of their addresses.
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub listen_port: u16,
    /// With more VIPs than this, none has metrics of its own.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SERIES_VIPS)]
    pub metrics_max_vips: usize,
}

impl PagesArgs {
    /// Returns where to listen, in a cluster with the pod's address.
    pub fn listen(&self, pod: Option<IpAddr>, needs_loopback: bool) -> Listen {
        Listen { addresses: self.listen.clone(), port: self.listen_port, pod, needs_loopback }
    }
}

/// Neither an address nor `none`.
#[derive(Debug, Error)]
#[error("it must be an IP address, or `none`")]
pub struct ListenAddressError(#[source] AddrParseError);

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Nowhere),
            address => address.parse().map(Self::At).map_err(ListenAddressError),
        }
    }
}

/// The options of every agent about its data plane and its log.
#[derive(Args, Debug)]
pub struct PlaneArgs {
    /// The pin directory.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Entries of the VIP map: each VIP takes one on every attached interface, the held ones first.
    /// Changing it keeps the entries.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_VIPS, value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub max_vips: u32,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Also log each claim as the program sees it (through aya-log); off costs nothing.
    #[arg(long)]
    pub log_claims: bool,
    /// Load this eBPF object instead of the one in this binary.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub ebpf_object: Option<PathBuf>,
}

/// How log lines look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// `vipward status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// The pin directory.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Show what the cluster's records say: VIPs with their holders, nodes with their Leases, the
    /// last moves. It is what `kubectl vip status` shows.
    #[arg(long)]
    pub cluster: bool,
    /// Show what this node's kernel has. It is what `vipward status` shows.
    #[arg(long, conflicts_with = "cluster")]
    pub node: bool,
    /// The cluster's records.
    #[command(flatten)]
    pub records: RecordArgs,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// The way to the API server, for commands that people call.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// The cluster's configuration. Default: ~/.kube/config, else the service account of the Pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl AccessArgs {
    /// Returns what was said here; `at_home` is the kubeconfig when none was named.
    pub fn access(&self, at_home: impl FnOnce() -> Option<PathBuf>) -> Access {
        Access { kubeconfig: self.kubeconfig.clone().or_else(at_home), context: self.context.clone() }
    }
}

/// The access to the cluster's objects, and the time to watch them.
#[derive(Args, Debug)]
#[command(next_help_heading = "With --cluster")]
pub struct RecordArgs {
    /// The cluster.
    #[command(flatten)]
    pub access: AccessArgs,
    /// The namespace of the nodes' Leases.
    #[arg(long, value_name = "NAMESPACE", default_value = "vipward-system")]
    pub lease_namespace: String,
    /// The longest time to watch which Leases change: it ends when all of them have. No wall clocks
    /// are compared.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    pub look: std::time::Duration,
}

/// The form of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    /// Tables for people.
    Table,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
}
