//! The command line: what can be asked, and what it teaches.

mod kubernetes;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use vipward_common::{DEFAULT_MAX_VIPS, PIN_DIR};

pub use self::kubernetes::{
    ApiArgs, KubernetesArgs, MoveArgs, OwnershipArgs, PolicyArg, ServiceArgs, XdpArg,
};

/// Layer-2 VIP agent: answers ARP for the VIPs of this node in XDP, and guards them.
///
/// The program that answers is pinned in the kernel: it goes on when the agent is killed, restarted or
/// upgraded, within the fence that the agent keeps moving.
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
  5  another agent uses the pin directory, or runs under this node's name";

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Hold and guard the VIPs that a file lists, until told to stop.
    ///
    /// SIGHUP reads the file again, and takes back VIPs that were yielded to a peer. A changed file is noticed by
    /// itself. SIGTERM and SIGINT end the agent: with `shutdown: keep` the pinned program answers on, under the
    /// fence's policy; with `shutdown: withdraw` it stops at once.
    #[command(after_long_help = AGENT_EXAMPLE)]
    Agent(AgentArgs),
    /// Hold the VIPs of a cluster's LoadBalancer Services, in agreement with the other nodes, until told to stop.
    ///
    /// The nodes agree through the API server alone: one Lease a node, one VirtualIP object a VIP. SIGTERM and SIGINT end
    /// the agent: when it is restarted or rolled out, nothing moves; when its node is cordoned or goes away, its VIPs are
    /// handed over; when its DaemonSet is deleted, everything is withdrawn and unpinned.
    #[command(after_long_help = kubernetes::HELP)]
    Kubernetes(Box<KubernetesArgs>),
    /// Move a VIP of a cluster to another node, by handover: no request goes unanswered.
    Move(MoveArgs),
    /// Print the definition of VirtualIP objects, for `kubectl apply`.
    Crd,
    /// Show what the kernel has: interfaces, VIPs, counters, the fence. Works without a running agent.
    Status(StatusArgs),
    /// Detach the program from every interface and remove everything that is pinned. VIPs are no longer answered.
    ///
    /// Addresses that `bind:` put on interfaces are taken away too. Refused while an agent uses the pin directory:
    /// stop it first.
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

/// Where the pins are.
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
    /// The data plane and the log.
    #[command(flatten)]
    pub plane: PlaneArgs,
}

/// What every agent is told about its data plane and its log.
#[derive(Args, Debug)]
pub struct PlaneArgs {
    /// Where the pins are.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Entries of the VIP map: each VIP takes one on every attached interface, the held ones first. Changing it keeps
    /// the entries.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_VIPS, value_parser = clap::value_parser!(u32).range(1..=1 << 22))]
    pub max_vips: u32,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Also log each claim as the XDP program sees it (through aya-log); off costs nothing.
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
    /// Where the pins are.
    #[command(flatten)]
    pub pins: PinArgs,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// How a report is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    /// Tables for people.
    Table,
    /// One JSON object.
    Json,
    /// The same in YAML.
    Yaml,
}
