//! `vipward agent`: the arguments of a standalone agent.

use std::path::PathBuf;

use clap::Args;

use super::{endpoints::EndpointArgs, plane::PlaneArgs};

pub(super) const HELP: &str = "\
The smallest configuration:

  vips:
    - address: 192.0.2.10

Check one before you use it, and see every default:

  vipward agent --config vipward.yaml --check

It needs CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and CAP_PERFMON, and no more.";

/// `vipward agent`.
#[derive(Args, Debug)]
pub struct AgentArgs {
    /// The configuration, in YAML.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Only validate the file, and print the effective configuration with every default.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub pages: EndpointArgs,
    #[command(flatten)]
    pub plane: PlaneArgs,
}
