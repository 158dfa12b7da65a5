//! The API server of a cluster: one in this process, or the real one that `KUBECONFIG` names.

use std::env;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::config::{Kubeconfig, NamedCluster};
use serde_json::{Value, json};

use super::admin::Admin;

/// Where a cluster's objects are.
#[derive(Debug)]
pub enum Backend {
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
            None => anyhow::bail!("set KUBECONFIG"),
        }
    }

    fn real(path: &Path) -> Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
        Self::new(Backend::Real, kubeconfig)
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
            Backend::Real => true,
        }
    }

    /// A kubeconfig for a service account that reaches the API server at `address`.
    pub fn kubeconfig(&self, address: SocketAddrV4, namespace: &str, account: &str) -> Result<String> {
        let token = match self.backend {
            Backend::Real => self.admin.token_of(namespace, account)?,
        };
        let cluster = through(&self.cluster, address)?;
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": "vipward", "user": {"token": token}}],
            "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "vipward", "namespace": namespace}}],
            "current-context": "cluster",
        });
        Ok(format!("{kubeconfig:#}\n"))
    }
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

#[cfg(test)]
mod tests;
