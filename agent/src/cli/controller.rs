//! `vipward controller`: the arguments of the controller.

use std::time::Duration;

use clap::Args;

use super::{ApiArgs, LogFormat, ServiceArgs};

/// `vipward controller`.
#[derive(Args, Debug)]
pub struct ControllerArgs {
    /// The cluster.
    #[command(flatten)]
    pub api: ApiArgs,
    /// Which Services.
    #[command(flatten)]
    pub services: ServiceArgs,
    /// How long the leader may be silent before another controller leads.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = leader_lease)]
    pub leader_lease: Duration,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Reads a time that a Lease can have, which counts seconds.
fn leader_lease(text: &str) -> anyhow::Result<Duration> {
    let lease = humantime::parse_duration(text)?;
    anyhow::ensure!(
        lease.as_secs() >= 2 && lease.subsec_nanos() == 0,
        "it must be two seconds or more, in whole seconds"
    );
    Ok(lease)
}
