//! The command line: the subcommands, and what all of them say in their help.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::{
    agent::{self, AgentArgs},
    controller::ControllerArgs,
    doctor::{self, DoctorArgs},
    explain::ExplainArgs,
    kubernetes::{self, KubernetesArgs, MoveArgs},
    plane::PinArgs,
    pools::{PoolsArgs, ReleaseArgs},
    status::StatusArgs,
    watch::{self, WatchArgs},
    who_has::WhoHasArgs,
    wire::{self, WireArgs},
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
    #[command(after_long_help = agent::HELP)]
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
