//! `vipward status`: what is shown, and how.

use clap::Args;

use super::{access::AccessArgs, output::Output, plane::PinArgs};

/// `vipward status`.
#[derive(Args, Debug)]
pub struct StatusArgs {
    #[command(flatten)]
    pub pins: PinArgs,
    /// Show the cluster's records: VIPs with their holders, nodes with their Leases, the
    /// last moves. It is what `kubectl vip status` shows.
    #[arg(long)]
    pub cluster: bool,
    /// Show what this node's kernel has. It is what `vipward status` shows.
    #[arg(long, conflicts_with = "cluster")]
    pub node: bool,
    #[command(flatten)]
    pub extent: ExtentArgs,
    #[command(flatten)]
    pub records: RecordArgs,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    pub output: Output,
}

/// How much of this node's state is shown.
#[derive(Args, Debug)]
pub struct ExtentArgs {
    /// Print a line for each VIP of this node, for scripts: address, interface, role, answers, MAC.
    #[arg(short, long, conflicts_with_all = ["cluster", "output", "verbose"])]
    pub brief: bool,
    /// Show also the counters that are zero.
    #[arg(short, long, conflicts_with = "cluster")]
    pub verbose: bool,
}

/// The access to the cluster's objects, and the time to watch them.
#[derive(Args, Debug)]
#[command(next_help_heading = "With --cluster")]
pub struct RecordArgs {
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
