//! The arguments about the way to the API server.

use std::path::PathBuf;

use clap::Args;

/// The way to the API server, for commands of an operator.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// The cluster's configuration. Default: ~/.kube/config, else the service account of the Pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}
