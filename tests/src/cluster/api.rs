//! The API server of a cluster: one in this process, or the real one that `KUBECONFIG` names.

#[cfg(test)]
mod tests;

use std::env;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, ToSocketAddrs};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::config::{Kubeconfig, NamedCluster};
use serde_json::{Value, json};

use super::admin::Admin;
use crate::apiserver::{ApiServer, Options};

/// The token of the administrator of an API server in this process.
const ADMIN: &str = "admin";

/// Where a cluster's objects are.
#[derive(Debug)]
pub enum Backend {
    /// One in this process, with nothing in it but what this test puts there.
    InProcess(Box<ApiServer>),
    /// The real one that `KUBECONFIG` names.
    Real,
}

/// The API server, and who may do all there.
#[derive(Debug)]
pub struct ClusterApi {
    backend: Backend,
    cluster: NamedCluster,
    upstream: SocketAddr,
    admin: Admin,
}

impl ClusterApi {
    /// The real API server when `KUBECONFIG` is set, else one in this process.
    pub fn start() -> Result<Self> {
        match env::var_os("KUBECONFIG") {
            Some(path) => Self::real(Path::new(&path)),
            None => Self::in_process(),
        }
    }

    fn real(path: &Path) -> Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
        Self::new(Backend::Real, kubeconfig)
    }

    /// One in this process.
    pub fn in_process() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen for an API server")?;
        let server =
            ApiServer::start(listener, Options { admin_token: ADMIN.to_owned(), ..Options::default() })?;
        let kubeconfig = kubeconfig(&json!({"server": server.url()}), ADMIN, "default");
        let kubeconfig =
            serde_json::from_value(kubeconfig).context("invariant: a kubeconfig is read back")?;
        Self::new(Backend::InProcess(Box::new(server)), kubeconfig)
    }

    fn new(backend: Backend, kubeconfig: Kubeconfig) -> Result<Self> {
        let cluster = current_cluster(&kubeconfig)?;
        let (_, host, port) = server_of(&cluster)?;
        let upstream = (host.as_str(), port).to_socket_addrs().ok().and_then(|mut found| found.next());
        let upstream = upstream.with_context(|| format!("failed to resolve {host}:{port}"))?;
        Ok(Self { backend, cluster, upstream, admin: Admin::new(kubeconfig)? })
    }

    /// Where it can be reached from this process's network namespace.
    pub fn upstream(&self) -> SocketAddr {
        self.upstream
    }

    /// Who may do all.
    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    /// Where the objects are.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Whether other things than this test's may be there.
    pub fn is_shared(&self) -> bool {
        match self.backend {
            Backend::InProcess(_) => false,
            Backend::Real => true,
        }
    }

    /// The one in this process, to make trouble there and to count; none when a real one is used.
    pub fn in_this_process(&mut self) -> Option<&mut ApiServer> {
        match &mut self.backend {
            Backend::InProcess(server) => Some(server),
            Backend::Real => None,
        }
    }

    /// The name that a node's agent has here.
    pub(super) fn user(&self, namespace: &str, account: &str, node: &str) -> String {
        match self.backend {
            Backend::InProcess(_) => format!("{account}@{node}"),
            Backend::Real => format!("system:serviceaccount:{namespace}:{account}"),
        }
    }

    /// A kubeconfig for a node's agent that reaches the API server at `address`.
    pub(super) fn kubeconfig(
        &self,
        address: SocketAddrV4,
        namespace: &str,
        account: &str,
        node: &str,
    ) -> Result<String> {
        let token = match &self.backend {
            Backend::InProcess(server) => {
                let token = format!("token-of-{node}");
                server.add_user(&token, &self.user(namespace, account, node));
                token
            }
            Backend::Real => self.admin.token_of(namespace, account)?,
        };
        Ok(format!("{:#}\n", kubeconfig(&through(&self.cluster, address)?, &token, namespace)))
    }
}

fn kubeconfig(cluster: &Value, token: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [
            {"name": "cluster", "context": {"cluster": "cluster", "user": "user", "namespace": namespace}},
        ],
        "current-context": "cluster",
    })
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Result<NamedCluster> {
    let current = kubeconfig.current_context.as_ref().context("the kubeconfig has no current context")?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current);
    let context = context.and_then(|context| context.context.as_ref());
    let name = &context.with_context(|| format!("the kubeconfig has no context {current}"))?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name);
    cluster.cloned().with_context(|| format!("the kubeconfig has no cluster {name}"))
}

/// Scheme, host and port.
fn server_of(cluster: &NamedCluster) -> Result<(String, String, u16)> {
    let server = cluster.cluster.as_ref().and_then(|cluster| cluster.server.as_deref());
    let server = server.with_context(|| format!("cluster {} has no server", cluster.name))?;
    let (scheme, rest) = server.split_once("://").with_context(|| format!("{server} is no URL"))?;
    let default_port = match scheme {
        "https" => 443,
        "http" => 80,
        other => anyhow::bail!("{server}: {other} is not a way to an API server"),
    };
    ensure!(!rest.trim_end_matches('/').contains('/'), "{server}: a path is not forwarded");
    let authority = rest.trim_end_matches('/');
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, port.parse().with_context(|| format!("{server}: {port}"))?)
        }
        _ => (authority, default_port),
    };
    Ok((scheme.to_owned(), host.trim_matches(['[', ']']).to_owned(), port))
}

/// The same cluster, reached at another address: TLS still expects the server's own name.
fn through(cluster: &NamedCluster, address: SocketAddrV4) -> Result<Value> {
    let (scheme, host, _) = server_of(cluster)?;
    let mut described = serde_json::to_value(&cluster.cluster).context("invariant: a kubeconfig is JSON")?;
    described["server"] = json!(format!("{scheme}://{address}"));
    if scheme == "https" && described["tls-server-name"].is_null() {
        described["tls-server-name"] = json!(host);
    }
    Ok(described)
}
