//! The arguments about the way to the API server.

use std::{fmt, path::PathBuf};

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

/// kubectl's -n, for commands about objects without a namespace.
#[derive(Args, Debug)]
pub struct NamespaceArg {
    /// The namespace of Vipward. Objects of this command have none.
    #[arg(short = 'n', long = "namespace", alias = "lease-namespace", value_name = "NAMESPACE", hide = true)]
    pub namespace: Option<String>,
}

/// Who asks, and whom, in place of what the kubeconfig names.
#[derive(Args, Clone, PartialEq, Eq, Default)]
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

/// Leaves the token out.
impl fmt::Debug for IdentityArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, server, token: _, impersonate, groups } = self;
        let mut fields = f.debug_struct("IdentityArgs");
        fields.field("user", user).field("server", server).field("as", impersonate).field("groups", groups);
        fields.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_not_in_what_is_printed_for_debugging() {
        let identity = IdentityArgs { token: Some("secret".to_owned()), ..IdentityArgs::default() };
        assert!(!format!("{identity:?}").contains("secret"));
    }
}
