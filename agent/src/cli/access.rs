//! The arguments about the way to the API server.

use std::path::PathBuf;

use clap::Args;

/// The way to the API server, for commands of an operator. The names are kubectl's.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// The cluster's configuration. Default: ~/.kube/config, else the service account of the Pod.
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context. Default: its current one.
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    #[command(flatten)]
    pub identity: IdentityArgs,
}

/// Who asks, and whom, in place of what the kubeconfig names.
#[derive(Args, Clone, PartialEq, Eq, Debug, Default)]
pub struct IdentityArgs {
    /// The kubeconfig's user.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub user: Option<String>,
    /// The URL of the API server.
    #[arg(long, value_name = "URL", hide_short_help = true)]
    pub server: Option<String>,
    /// The bearer token.
    #[arg(long, value_name = "TOKEN", hide_short_help = true)]
    pub token: Option<String>,
    /// The user to impersonate.
    #[arg(long = "as", value_name = "NAME", hide_short_help = true)]
    pub impersonate: Option<String>,
    /// A group to impersonate; repeatable.
    #[arg(long = "as-group", value_name = "NAME", hide_short_help = true, requires = "impersonate")]
    pub groups: Vec<String>,
}
