//! `vipward controller`: the arguments of the controller.

use std::time::Duration;

use clap::Args;

use super::{
    endpoints::{Listen, ListenAddress},
    kubernetes::{ApiArgs, PodAddress, ServiceArgs},
    plane::LogFormat,
};

/// `vipward controller`.
#[derive(Args, Debug)]
pub struct ControllerArgs {
    #[command(flatten)]
    pub api: ApiArgs,
    #[command(flatten)]
    pub services: ServiceArgs,
    /// How long the leader may leave its Lease unrenewed before another controller leads.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = leader_lease)]
    pub leader_lease: Duration,
    /// This controller's Pod's address, where its endpoints are served too.
    #[arg(long, value_name = "ADDRESS", env = "POD_IP")]
    pub pod_address: Option<PodAddress>,
    /// Serve /metrics, /livez and /readyz on this address; repeatable. `none`: nowhere. Default:
    /// 127.0.0.1, and the Pod's address.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<ListenAddress>,
    /// The port of the endpoints, on all of their addresses.
    #[arg(long, value_name = "PORT", default_value_t = 9_648, value_parser = clap::value_parser!(u16).range(1..))]
    pub listen_port: u16,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

impl ControllerArgs {
    pub fn pages(&self) -> Listen {
        Listen {
            addresses: self.listen.clone(),
            port: self.listen_port,
            pod: self.pod_address.and_then(|PodAddress(address)| address),
            needs_loopback: false,
        }
    }
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
