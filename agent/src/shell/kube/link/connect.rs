//! The API server's address, the agent's credentials, and
//! connections that notice when they are dead.
//!
//! A connection whose other end has vanished looks like a quiet one. The kernel therefore probes a
//! quiet connection (TCP keep-alive), and closes one whose data is not acknowledged
//! (`TCP_USER_TIMEOUT`). It fails within the lease duration. A server may acknowledge and not
//! answer: then the deadline of each request ends it, and the reader ends watches.
//!
//! kube's `ClientBuilder` cannot do this, so this module composes its layers. It leaves out the
//! retries: a request has one deadline, and the core decides by its result.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use http::{
    Uri,
    uri::{InvalidUri, Scheme},
};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;
use tower::{BoxError, ServiceBuilder};
use tracing::warn;

use super::{
    credentials::{CredentialError, Credentials, Way},
    servers::{Route, Servers},
};
use crate::{
    cli::{AccessArgs, IdentityArgs},
    shell::endpoints::metrics::{ApiMetrics, LeaseMetrics},
};

#[cfg(test)]
mod tests;

/// Largest length of a connection's read buffer, in bytes. hyper's own limit is 400 KiB, which
/// every connection would keep after a list.
const READ_BUFFER: usize = 64 * 1024;

/// Reason why there is no way to the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("failed to read the kubeconfig {}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the kubeconfig {}", path.display())]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: KubeconfigError,
    },
    #[error("failed to use {} of the kubeconfig {}", context_text(context.as_deref()), path.display())]
    Context {
        path: PathBuf,
        /// The requested context. None: the current one.
        context: Option<String>,
        #[source]
        source: KubeconfigError,
    },
    #[error(
        "found no kubeconfig to take the context {context:?} from: give one with --kubeconfig (or KUBECONFIG)"
    )]
    ContextOfNothing { context: String },
    #[error(
        "found no kubeconfig: give one with --kubeconfig, set KUBECONFIG, or run it in a Pod with a service account"
    )]
    NotInCluster,
    #[error("failed to use the Pod's service account")]
    ServiceAccount(#[source] InClusterError),
    #[error(
        "the API server is to be reached through the proxy {proxy}, which is not supported: remove \
         proxy-url from the kubeconfig"
    )]
    Proxy { proxy: String },
    #[error("{server} is no URL of an API server")]
    Server {
        server: String,
        #[source]
        source: InvalidUri,
    },
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    #[error("failed to set up connections to {server}")]
    Client {
        server: String,
        #[source]
        source: Box<kube::Error>,
    },
}

fn context_text(context: Option<&str>) -> String {
    context.map_or_else(|| "the current context".to_owned(), |context| format!("context {context:?}"))
}

/// The operator's settings of the way to the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Kubeconfig files, separated by colons as in `KUBECONFIG`. None: the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context. None: the current one.
    pub context: Option<String>,
    /// What is used in place of the kubeconfig's.
    pub identity: IdentityArgs,
}

impl Access {
    /// Returns the access that a user has named. Without a kubeconfig, it uses `at_home`.
    pub fn of(args: &AccessArgs, at_home: impl FnOnce() -> Option<PathBuf>) -> Self {
        Self {
            kubeconfig: args.kubeconfig.clone().or_else(at_home),
            context: args.context.clone(),
            identity: args.identity.clone(),
        }
    }
}

/// Limits of the time that requests take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The lease duration, within which a dead connection is noticed.
    pub lease: Duration,
    pub margin: Duration,
}

impl Limits {
    /// Returns the deadline of one write or read of a Lease. A renewal that fails leaves time for
    /// another.
    pub fn renewal(self) -> Duration {
        self.lease.saturating_sub(self.margin) / 2
    }

    pub fn request(self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// Returns the time without an answer after which a request is sent by another route too. An
    /// attempt to connect goes on meanwhile: a busy server may need longer for TLS.
    pub fn hedge(self) -> Duration {
        self.renewal() / 8
    }

    /// Returns the longest time without an event of the Leases while this node renews its own.
    pub fn silence(self) -> Duration {
        self.lease / 2
    }

    /// Returns the time between two probes of a quiet connection, in whole seconds for the kernel.
    fn probing(self) -> Duration {
        Duration::from_secs((self.lease / 4).as_secs().max(1))
    }
}

/// A way to the API servers.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    credentials: Arc<Credentials>,
    servers: Arc<Servers>,
    limits: Limits,
    requests: ApiMetrics,
    renewals: LeaseMetrics,
}

impl Server {
    /// Finds the API server and the agent's credentials. Sends nothing yet.
    pub async fn find(access: &Access, limits: Limits) -> Result<Self, ConnectError> {
        let user = access.identity.user.as_ref();
        let mut config = match (&access.kubeconfig, &access.context) {
            (Some(path), context) => kubeconfig(path, context.as_ref(), user).await?,
            (None, Some(context)) => {
                return Err(ConnectError::ContextOfNothing { context: context.clone() });
            }
            (None, None) => Config::incluster().map_err(|error| match error {
                InClusterError::ReadEnvironmentVariable(_) => ConnectError::NotInCluster,
                error => ConnectError::ServiceAccount(error),
            })?,
        };
        apply(&access.identity, &mut config)?;
        if let Some(proxy) = &config.proxy_url {
            return Err(ConnectError::Proxy { proxy: proxy.to_string() });
        }
        let is_insecure = config.accept_invalid_certs;
        let server = Self::new(config, limits)?;
        if is_insecure {
            warn!(
                server = server.url(),
                "the certificate of the API server is not verified: the kubeconfig has insecure-skip-tls-verify"
            );
        }
        Ok(server)
    }

    #[cfg(test)]
    pub(crate) fn with_config(config: Config, limits: Limits) -> Self {
        Self::new(config, limits).expect("no credentials are needed")
    }

    /// Returns a way that uses endpoints without TLS.
    #[cfg(test)]
    pub(crate) fn with_plain_endpoints(config: Config, limits: Limits) -> Self {
        Self { servers: Servers::start(true).into(), ..Self::with_config(config, limits) }
    }

    fn new(config: Config, limits: Limits) -> Result<Self, ConnectError> {
        let prepare = Box::new(move |config| way(config, limits));
        let credentials = Credentials::read(config.clone(), prepare)?.into();
        let servers = Servers::start(has_direct(&config)).into();
        let (requests, renewals) = (ApiMetrics::default(), LeaseMetrics::default());
        Ok(Self { config, credentials, servers, limits, requests, renewals })
    }

    /// Counts the requests of these connections in `requests` and `renewals`.
    #[must_use]
    pub fn metered(self, requests: &ApiMetrics, renewals: &LeaseMetrics) -> Self {
        Self { requests: requests.clone(), renewals: renewals.clone(), ..self }
    }

    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    pub(crate) fn requests(&self) -> &ApiMetrics {
        &self.requests
    }

    pub(crate) fn renewals(&self) -> &LeaseMetrics {
        &self.renewals
    }

    pub fn url(&self) -> String {
        let url = &self.config.cluster_url;
        let is_plain = url.scheme() == Some(&Scheme::HTTP);
        let port = url.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
        let scheme = url.scheme_str().unwrap_or("https");
        format!("{scheme}://{}:{port}{}", url.host().unwrap_or_default(), url.path().trim_end_matches('/'))
    }

    pub fn default_namespace(&self) -> &str {
        &self.config.default_namespace
    }

    /// Returns the address, if the URL has an address and no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.config.cluster_url.host()?.trim_matches(['[', ']']).parse().ok()
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns a client with its own connections by a route, which open when they are needed, and the
    /// number of the credentials that they use.
    pub(crate) fn connect(&self, route: Route) -> Result<(u64, Client), ConnectError> {
        let (number, Way(open)) = self.credentials.current();
        let failed = |source| ConnectError::Client { server: self.url(), source: Box::new(source) };
        Ok((number, open(route).map_err(failed)?))
    }

    /// Returns the number of the present credentials, which grows with each change of their files.
    pub fn credentials(&self) -> u64 {
        self.credentials.current().0
    }
}

/// Returns true if the endpoints of the API server can be used. An endpoint is known by its certificate, and
/// serves no path of a proxy in front of it. Without TLS, the server may be such a proxy, and the token would
/// go to the endpoints in clear text.
fn has_direct(config: &Config) -> bool {
    let url = &config.cluster_url;
    let is_verified = url.scheme() != Some(&Scheme::HTTP) && !config.accept_invalid_certs;
    is_verified && matches!(url.path(), "" | "/")
}

fn way(mut config: Config, limits: Limits) -> kube::Result<Way> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(limits.probing()));
    tcp.set_keepalive_interval(Some(limits.probing()));
    tcp.set_keepalive_retries(Some(2));
    tcp.set_tcp_user_timeout(Some(limits.silence()));
    // The certificate must have the name of the configured server, on each route.
    let name = || config.cluster_url.host().map(|host| host.trim_matches(['[', ']']).to_owned());
    config.tls_server_name = config.tls_server_name.take().or_else(name);
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    let mut connector = TimeoutConnector::new(tls);
    connector.set_connect_timeout(Some(limits.renewal()));
    let mut http = Builder::new(TokioExecutor::new());
    http.http1_max_buf_size(READ_BUFFER);
    // These show now if they cannot be used. A client needs a runtime, and is made later.
    config.auth_layer()?;
    config.extra_headers_layer()?;
    let open = move |route: Route| {
        let mut to = config.clone();
        if let Some(address) = route.address() {
            to.cluster_url = url_of(config.cluster_url.scheme(), address);
        }
        let service = ServiceBuilder::new()
            .layer(to.base_uri_layer())
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(http.build::<_, Body>(connector.clone()));
        Ok(Client::new(service, config.default_namespace.clone()))
    };
    Ok(Way(Arc::new(open)))
}

fn url_of(scheme: Option<&Scheme>, address: SocketAddr) -> Uri {
    let scheme = scheme.cloned().unwrap_or(Scheme::HTTPS);
    let url = Uri::builder().scheme(scheme).authority(address.to_string()).path_and_query("/");
    url.build().expect("invariant: an address with its port is an authority")
}

/// Puts what an operator names in the place of the kubeconfig's.
fn apply(identity: &IdentityArgs, config: &mut Config) -> Result<(), ConnectError> {
    let IdentityArgs { user: _, server, token, impersonate, groups } = identity;
    if let Some(server) = server {
        let failed = |source| ConnectError::Server { server: server.clone(), source };
        config.cluster_url = server.parse().map_err(failed)?;
    }
    if let Some(token) = token {
        config.auth_info = AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() };
    }
    if impersonate.is_some() {
        config.auth_info.impersonate.clone_from(impersonate);
        config.auth_info.impersonate_groups = (!groups.is_empty()).then(|| groups.clone());
    }
    Ok(())
}

async fn kubeconfig(
    paths: &PathBuf,
    context: Option<&String>,
    user: Option<&String>,
) -> Result<Config, ConnectError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()) {
        let failed = |error| match error {
            KubeconfigError::ReadConfig(source, path) => ConnectError::Unreadable { path, source },
            source => ConnectError::Kubeconfig { path: path.clone(), source },
        };
        let next = Kubeconfig::read_from(&path).map_err(failed)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(failed)?,
            None => next,
        });
    }
    let options = KubeConfigOptions { context: context.cloned(), user: user.cloned(), cluster: None };
    let merged = merged.unwrap_or_default();
    let root_cert_file = root_cert_file(&merged, context);
    let mut config = Config::from_custom_kubeconfig(merged, &options)
        .await
        .map_err(|source| ConnectError::Context { path: paths.clone(), context: context.cloned(), source })?;
    config.root_cert_file = root_cert_file;
    Ok(config)
}

/// Returns the file of the CA. kube only knows the file of a Pod.
fn root_cert_file(kubeconfig: &Kubeconfig, context: Option<&String>) -> Option<PathBuf> {
    let context = context.or(kubeconfig.current_context.as_ref())?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *context)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()?;
    let is_inline = cluster.certificate_authority_data.is_some();
    cluster.certificate_authority.as_ref().filter(|_| !is_inline).map(PathBuf::from)
}
