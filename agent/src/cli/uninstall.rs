//! `vipward uninstall`: the arguments.

use std::time::Duration;

use clap::Args;

use super::wire::SecretArgs;

/// `vipward uninstall`.
#[derive(Args, Debug)]
pub struct UninstallArgs {
    /// Only print what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask.
    #[arg(long)]
    pub yes: bool,
    /// Go on while VIPs are claimed: their nodes may answer on.
    #[arg(long)]
    pub force: bool,
    /// How long each deletion may take.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
    #[command(flatten)]
    pub installed: SecretArgs,
}
