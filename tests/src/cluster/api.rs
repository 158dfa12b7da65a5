//! Owns the API server of a cluster: one in this process, or the real one of `KUBECONFIG`.

use std::env;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::config::{Kubeconfig, NamedCluster};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::admin::{Admin, Object};
use crate::{
    apiserver::{self, ApiServer, FIRST, Options, certificate_in},
    kit::{Process, SpawnOptions},
};

/// Token of the administrator at an API server in this process.
const ADMIN: &str = "admin";
/// Variable that names the program to save and restore the store of a real API server.
const BACKUP: &str = "VIPWARD_API_BACKUP";
/// Time for a real API server to stop, restore its store, and start.
const BACKUP_LIMIT: Duration = Duration::from_mins(3);

#[derive(Debug)]
pub enum Backend {
    /// API server in this process, with objects of this test only.
    InProcess(Box<ApiServer>),
    /// Real API server of `KUBECONFIG`.
    Real {
        /// Program of `VIPWARD_API_BACKUP`.
        backup: Option<PathBuf>,
    },
}

/// Backup of a store; `None` if a program keeps it.
#[derive(Debug, Clone)]
pub struct Saved(Option<apiserver::Saved>);

/// API server that restores a backup.
#[derive(Debug)]
pub struct GoingBack(Option<Process>);

impl GoingBack {
    /// Waits until the server is ready.
    pub fn wait(self) -> Result<()> {
        self.0.map_or(Ok(()), wait_for_backup)
    }
}

#[derive(Debug)]
pub struct ClusterApi {
    backend: Backend,
    cluster: NamedCluster,
    /// The CA of a server in this process that serves TLS.
    ca: Option<NamedTempFile>,
    /// The administrator's credentials, as a kubeconfig has them.
    credentials: Value,
    upstream: SocketAddr,
    admin: Admin,
}

impl ClusterApi {
    /// Returns the real API server if `KUBECONFIG` is set, else one in this process.
    pub fn start() -> Result<Self> {
        match env::var_os("KUBECONFIG") {
            Some(path) => Self::real(Path::new(&path)),
            None => Self::in_process(),
        }
    }

    fn real(path: &Path) -> Result<Self> {
        let kubeconfig =
            Kubeconfig::read_from(path).with_context(|| format!("failed to read {}", path.display()))?;
        Self::new(Backend::Real { backup: env::var_os(BACKUP).map(Into::into) }, kubeconfig)
    }

    /// Starts an API server in this process.
    pub fn in_process() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("failed to listen for an API server")?;
        let server = ApiServer::start(listener, Options::default())?;
        let kubeconfig = kubeconfig(&json!({"server": server.url()}), &json!({"token": ADMIN}), "default");
        let kubeconfig =
            serde_json::from_value(kubeconfig).context("invariant: a kubeconfig is read back")?;
        Self::new(Backend::InProcess(Box::new(server)), kubeconfig)
    }

    fn new(backend: Backend, kubeconfig: Kubeconfig) -> Result<Self> {
        let cluster = current_cluster(&kubeconfig)?;
        let (_, host, port) = server_of(&cluster)?;
        let upstream = (host.as_str(), port).to_socket_addrs().ok().and_then(|mut found| found.next());
        let upstream = upstream.with_context(|| format!("failed to resolve {host}:{port}"))?;
        let credentials = credentials_in(&kubeconfig)?;
        Ok(Self { backend, cluster, ca: None, credentials, upstream, admin: Admin::new(kubeconfig)? })
    }

    /// Returns its address in this process's network namespace.
    pub fn upstream(&self) -> SocketAddr {
        self.upstream
    }

    pub fn admin(&self) -> &Admin {
        &self.admin
    }

    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Returns true if others may use this API server.
    pub fn is_shared(&self) -> bool {
        match self.backend {
            Backend::InProcess(_) => false,
            Backend::Real { .. } => true,
        }
    }

    /// Returns the API server in this process, or `None` for a real one.
    pub fn in_this_process(&mut self) -> Option<&mut ApiServer> {
        match &mut self.backend {
            Backend::InProcess(server) => Some(server),
            Backend::Real { .. } => None,
        }
    }

    /// Has kubeconfigs name TLS from now on, also for a server in this process.
    pub(super) fn serve_tls(&mut self) -> Result<()> {
        let Backend::InProcess(server) = &self.backend else { return Ok(()) };
        server.set_certificate(FIRST.as_bytes())?;
        let ca = NamedTempFile::new().context("failed to make a file for the CA")?;
        fs::write(ca.path(), certificate_in(FIRST)).context("failed to write the CA")?;
        let cluster = self.cluster.cluster.as_mut().context("invariant: the cluster has a server")?;
        cluster.server = Some(server.url().replace("http://", "https://"));
        cluster.certificate_authority = Some(ca.path().display().to_string());
        cluster.tls_server_name = Some("198.51.100.1".to_owned());
        self.ca = Some(ca);
        Ok(())
    }

    /// Saves the store. Returns `None` for a real API server without a backup program.
    pub fn save(&self) -> Result<Option<Saved>> {
        match &self.backend {
            Backend::InProcess(server) => Ok(Some(Saved(Some(server.save()?)))),
            Backend::Real { backup: None } => Ok(None),
            Backend::Real { backup: Some(program) } => {
                wait_for_backup(start_backup(program, "save")?)?;
                Ok(Some(Saved(None)))
            }
        }
    }

    /// Stops the API server, restores the backup, and starts the server.
    pub fn restore(&mut self, saved: &Saved) -> Result<GoingBack> {
        match (&mut self.backend, saved) {
            (Backend::InProcess(server), Saved(Some(saved))) => {
                server.stop()?;
                server.restore(saved)?;
                server.start_again()?;
                Ok(GoingBack(None))
            }
            (Backend::Real { backup: Some(program) }, Saved(None)) => {
                Ok(GoingBack(Some(start_backup(program, "restore")?)))
            }
            (Backend::InProcess(_) | Backend::Real { .. }, Saved(_)) => {
                anyhow::bail!("what another API server saved cannot be restored here")
            }
        }
    }

    /// Returns the user name of a node's agent.
    pub(super) fn user(&self, namespace: &str, account: &str, node: &str) -> String {
        match self.backend {
            Backend::InProcess(_) => format!("{account}@{node}"),
            Backend::Real { .. } => format!("system:serviceaccount:{namespace}:{account}"),
        }
    }

    /// Returns a kubeconfig for a node's agent with the API server at `address`. A real API server
    /// makes a token that is bound to the node's Pod, if there is one.
    pub(super) fn kubeconfig(
        &self,
        address: SocketAddrV4,
        namespace: &str,
        account: &str,
        node: &str,
        pod: &Object,
    ) -> Result<String> {
        let token = match &self.backend {
            Backend::InProcess(server) => {
                let token = format!("token-of-{node}");
                server.add_user(&token, &self.user(namespace, account, node));
                token
            }
            Backend::Real { .. } => self.admin.token_of(namespace, account, self.admin.get(pod)?.as_ref())?,
        };
        self.kubeconfig_with(address, &json!({"token": token}), namespace)
    }

    /// Returns the administrator's kubeconfig with the API server at `address`.
    pub(super) fn kubeconfig_of_admin(&self, address: SocketAddrV4) -> Result<String> {
        self.kubeconfig_with(address, &self.credentials, "default")
    }

    fn kubeconfig_with(&self, address: SocketAddrV4, user: &Value, namespace: &str) -> Result<String> {
        Ok(format!("{:#}\n", kubeconfig(&through(&self.cluster, address)?, user, namespace)))
    }
}

fn start_backup(program: &Path, what: &str) -> Result<Process> {
    let mut command = Command::new(program);
    command.arg(what);
    Process::spawn(command, &SpawnOptions::default())
        .with_context(|| format!("{BACKUP} names {}, which cannot be run", program.display()))
}

fn wait_for_backup(mut backup: Process) -> Result<()> {
    let ended = backup.wait(BACKUP_LIMIT)?;
    ensure!(ended.success(), "the program that {BACKUP} names ended with {ended}:{}", backup.transcript());
    Ok(())
}

fn kubeconfig(cluster: &Value, user: &Value, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "user", "user": user}],
        "contexts": [
            {"name": "cluster", "context": {"cluster": "cluster", "user": "user", "namespace": namespace}},
        ],
        "current-context": "cluster",
    })
}

fn current_context(kubeconfig: &Kubeconfig) -> Result<&kube::config::Context> {
    let current = kubeconfig.current_context.as_ref().context("the kubeconfig has no current context")?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current);
    let context = context.and_then(|context| context.context.as_ref());
    context.with_context(|| format!("the kubeconfig has no context {current}"))
}

fn credentials_in(kubeconfig: &Kubeconfig) -> Result<Value> {
    let name = current_context(kubeconfig)?.user.as_ref().context("the current context has no user")?;
    let user = kubeconfig.auth_infos.iter().find(|user| user.name == *name);
    let user = user.with_context(|| format!("the kubeconfig has no user {name}"))?;
    serde_json::to_value(&user.auth_info).context("invariant: a kubeconfig is JSON")
}

fn current_cluster(kubeconfig: &Kubeconfig) -> Result<NamedCluster> {
    let name = &current_context(kubeconfig)?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name);
    cluster.cloned().with_context(|| format!("the kubeconfig has no cluster {name}"))
}

/// Returns scheme, host and port of a cluster in a kubeconfig.
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

/// Returns the cluster entry with another address. TLS still expects the server's own name.
fn through(cluster: &NamedCluster, address: SocketAddrV4) -> Result<Value> {
    let (scheme, host, _) = server_of(cluster)?;
    let mut described = serde_json::to_value(&cluster.cluster).context("invariant: a kubeconfig is JSON")?;
    described["server"] = json!(format!("{scheme}://{address}"));
    if scheme == "https" && described["tls-server-name"].is_null() {
        described["tls-server-name"] = json!(host);
    }
    Ok(described)
}
