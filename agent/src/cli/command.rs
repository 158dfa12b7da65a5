//! The command line: the subcommands.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::{
    agent::{self, AgentArgs},
    controller::ControllerArgs,
    doctor::{self, DoctorArgs},
    explain::ExplainArgs,
    kubernetes::{self, KubernetesArgs, MoveArgs},
    plane::UnloadArgs,
    pools::{PoolsArgs, ReleaseArgs},
    status::StatusArgs,
    uninstall::UninstallArgs,
    watch::{self, WatchArgs},
    who_has::WhoHasArgs,
    wire::{self, WireArgs},
};

/// Layer-2 VIP agent: answers ARP and neighbour discovery for this node's VIPs, and guards them.
///
/// The program that answers is pinned in the kernel. It goes on when the agent is killed, restarted
/// or upgraded, until the lease deadline, which the agent extends while it runs.
#[derive(Parser, Debug)]
#[command(name = "vipward", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; doctor: nothing is red, whether an agent runs or not
  1  failed while running, or nothing could be inspected
  2  the command line is wrong
  3  the configuration, settings or kubeconfig are wrong or unreadable (nothing was changed)
  4  this host or user cannot: not root, capabilities missing, old kernel, no bpffs, API 401 or 403
  5  another agent uses the pin directory (unload --all: one), or runs under this node's name
  6  who-has: no host answers
  7  who-has: several MACs answer, a conflict
  8  explain: a step is broken; doctor: something is red";

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Hold and guard the VIPs that a file lists.
    ///
    /// SIGHUP reads the file again, and takes back yielded VIPs that a peer answers for (see
    /// `yield` for the others). A changed file is noticed by itself. SIGTERM and SIGINT end the
    /// agent: with `shutdown: keep` the pinned program answers on, under `policy`; with
    /// `shutdown: withdraw` it stops at once.
    #[command(after_long_help = agent::HELP)]
    Agent(AgentArgs),
    /// Hold the VIPs of a cluster's LoadBalancer Services, together with the other nodes.
    ///
    /// The nodes agree through the API server alone: one Lease a node, one VirtualIP object a VIP.
    /// SIGTERM and SIGINT end the agent: when it is restarted or rolled out, nothing moves; when
    /// its node is cordoned or goes away, its VIPs are handed over; when its DaemonSet is deleted,
    /// everything is withdrawn and unpinned.
    #[command(after_long_help = kubernetes::HELP)]
    Kubernetes(Box<KubernetesArgs>),
    /// Allocate addresses of VIPPools to LoadBalancer Services, and write their statuses.
    ///
    /// It needs no privileges and no node. Several may run: one leads, by a Lease. VIPs are
    /// announced on without any.
    Controller(Box<ControllerArgs>),
    /// Move a VIP of a cluster to another node, by handover: no request goes unanswered.
    Move(MoveArgs),
    /// Show a cluster's pools: which addresses are used, kept and free.
    ///
    /// It needs no controller that runs.
    Pools(PoolsArgs),
    /// Free an address that is kept for a deleted Service, or have its Service get another.
    ///
    /// A Service that requests the address by name keeps it. The controller releases it.
    Release(ReleaseArgs),
    /// Create or replace the key of the failure detector.
    ///
    /// With it, the nodes of a cluster find a dead node in a fraction of a second.
    #[command(after_long_help = wire::HELP)]
    Wire(WireArgs),
    /// Print the definitions of VirtualIP and VIPPool objects, for `kubectl apply`.
    Crd,
    /// Show what this host's kernel has: interfaces, VIPs, counters, the lease deadline.
    ///
    /// It needs no running agent.
    Status(StatusArgs),
    /// Examine this host: what is well, what is not, and what to do about it.
    ///
    /// It needs no running agent.
    #[command(after_long_help = doctor::HELP)]
    Doctor(DoctorArgs),
    /// Watch what this host's kernel has: VIPs and their rates, and other hosts' claims.
    ///
    /// It reads the pins, as `status` does, and needs no running agent.
    #[command(after_help = watch::HELP)]
    Watch(WatchArgs),
    /// Probe the segment for an address, and list every host that answers.
    ///
    /// The list has MAC, vendor and order. It needs no agent.
    WhoHas(WhoHasArgs),
    /// Explain why an address is answered, or is not: the first broken step, and the remedy.
    Explain(Box<ExplainArgs>),
    /// Detach the program, and remove everything that is pinned: no VIP is answered.
    ///
    /// Addresses that `bind:` put on interfaces are removed too. Refused while an agent uses the
    /// pin directory: stop it first.
    Unload(UnloadArgs),
    /// Remove Vipward from a cluster: controller, reservations, agents, then everything else.
    ///
    /// The order lets the agents clean up. It needs the rights of a cluster's administrator, and can be
    /// interrupted and called again. Statuses of Services stay. A namespace goes only if Vipward's
    /// manifests made it.
    Uninstall(UninstallArgs),
    /// Print the version.
    Version,
    /// Print a completion script for a shell.
    #[command(after_help = "For bash: vipward completions bash > /etc/bash_completion.d/vipward")]
    Completions {
        /// Which shell.
        shell: Shell,
    },
}
