//! `vipward wire`: the arguments.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::access::AccessArgs;

pub(super) const HELP: &str = "\
The key is the Secret vipward-wire in Vipward's namespace. `vipward controller` creates it when it is \
missing. Without a controller, `vipward wire init` does. Without the Secret, nodes find a dead node by its \
Lease alone.

Both commands need the right to create, get and patch that Secret; `rotate` lists the Leases beside it, too.";

/// The time for which the former key stays after every agent uses the new one.
const LINGER: Duration = Duration::from_mins(1);

/// `vipward wire`.
#[derive(Args, Debug)]
pub struct WireArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: WireCommand,
}

/// A task with the key.
#[derive(Subcommand, Debug)]
pub enum WireCommand {
    /// Create the Secret with a first key. An existing one stays as it is: exit code 1.
    Init(WireInitArgs),
    /// Replace the key, without a move: add one, wait until every agent accepts it, and remove the
    /// old one a minute after.
    ///
    /// It can be interrupted at any time: the agents keep a key in common, and the next call goes on
    /// where this one ended.
    Rotate(WireRotateArgs),
}

/// The place of the Secret.
#[derive(Args, Debug)]
pub struct SecretArgs {
    /// The namespace of the Secret and of the nodes' Leases.
    #[arg(
        short = 'n',
        long,
        alias = "namespace",
        value_name = "NAMESPACE",
        default_value = "vipward-system"
    )]
    pub lease_namespace: String,
    #[command(flatten)]
    pub access: AccessArgs,
}

/// `vipward wire init`.
#[derive(Args, Debug)]
pub struct WireInitArgs {
    #[command(flatten)]
    pub secret: SecretArgs,
}

/// `vipward wire rotate`.
#[derive(Args, Debug)]
pub struct WireRotateArgs {
    /// How long to wait until every agent accepts the new key. Then both keys stay: exit code 1.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    /// How long the old key stays after that.
    #[arg(long, value_name = "TIME", default_value_t = LINGER.into(), hide_short_help = true)]
    pub linger: humantime::Duration,
    #[command(flatten)]
    pub secret: SecretArgs,
}
