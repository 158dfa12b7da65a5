//! Where the API server is and who we are there, and connections to it that notice quickly when they are dead.
//!
//! A connection whose other end has vanished without a word looks like a quiet one. Every connection is therefore
//! probed by the kernel (TCP keep-alive) while nothing is sent, and bounded by the kernel (`TCP_USER_TIMEOUT`) while
//! something is, so that it fails within the lease duration whatever it carries. What the kernel cannot see, a server
//! that acknowledges and says nothing, the deadline of each request bounds, and for watches [`super::reader`].
//!
//! The client library's own retries are off: a request has one deadline, and its result goes to those who decide.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Builder, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use thiserror::Error;
use tower::{BoxError, ServiceBuilder};

use crate::shell::metrics::{ApiMetrics, LeaseMetrics};

#[cfg(test)]
mod tests;

/// Why there is no way to the API server.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// A kubeconfig cannot be read.
    #[error("failed to read the kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// What the kubeconfig names cannot be used.
    #[error("failed to use {} of the kubeconfig {}", context_text(context.as_deref()), path.display())]
    Context {
        /// The files.
        path: PathBuf,
        /// The context that was asked for; the current one when none was.
        context: Option<String>,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// There is no kubeconfig that would have the context.
    #[error(
        "found no kubeconfig to take the context {context:?} from: give one with --kubeconfig (or KUBECONFIG)"
    )]
    ContextOfNothing {
        /// The context that was asked for.
        context: String,
    },
    /// There is neither a kubeconfig nor a Pod's service account.
    #[error(
        "found no way to the API server: not in a Pod with a service account, and no --kubeconfig (or KUBECONFIG) is given"
    )]
    NotInCluster(#[source] InClusterError),
    /// Proxies are for people's machines, and hide dead connections.
    #[error(
        "the API server is to be reached through the proxy {proxy}, which is not supported: remove proxy-url from the kubeconfig"
    )]
    Proxy {
        /// The proxy.
        proxy: String,
    },
    /// Certificates or tokens are of no use.
    #[error("failed to set up connections to {server}")]
    Client {
        /// The API server.
        server: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

fn context_text(context: Option<&str>) -> String {
    context.map_or_else(|| "the current context".to_owned(), |context| format!("context {context:?}"))
}

/// What the operator says about the way to the API server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Kubeconfig files, separated by colons as in `KUBECONFIG`; none: the Pod's service account.
    pub kubeconfig: Option<PathBuf>,
    /// The context to use; none: the current one.
    pub context: Option<String>,
}

/// How long things may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The lease duration: a dead connection is noticed within it.
    pub lease: Duration,
    /// The margin of the fence.
    pub margin: Duration,
}

impl Limits {
    /// The deadline of one write or read of a Lease: a renewal that fails leaves time for another.
    pub fn renewal(self) -> Duration {
        self.lease.saturating_sub(self.margin) / 2
    }

    /// The deadline of any other request.
    pub fn request(self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// How long the watch of the Leases may be silent while this node renews its own.
    pub fn silence(self) -> Duration {
        self.lease / 2
    }

    /// How often the kernel asks whether a quiet connection lives; it knows whole seconds only.
    fn probing(self) -> Duration {
        Duration::from_secs((self.lease / 4).as_secs().max(1))
    }
}

/// A way to the API server; each [`Server::connect`] has connections of its own.
#[derive(Clone, Debug)]
pub struct Server {
    config: Config,
    limits: Limits,
    requests: ApiMetrics,
    renewals: LeaseMetrics,
}

impl Server {
    /// Finds the API server and our credentials. Nothing is sent yet.
    pub async fn find(access: &Access, limits: Limits) -> Result<Self, ConnectError> {
        let config = match (&access.kubeconfig, &access.context) {
            (Some(path), context) => kubeconfig(path, context.as_ref()).await?,
            (None, Some(context)) => {
                return Err(ConnectError::ContextOfNothing { context: context.clone() });
            }
            (None, None) => Config::incluster().map_err(ConnectError::NotInCluster)?,
        };
        if let Some(proxy) = &config.proxy_url {
            return Err(ConnectError::Proxy { proxy: proxy.to_string() });
        }
        let server = Self::new(config, limits);
        server.connect()?;
        Ok(server)
    }

    #[cfg(test)]
    pub(super) fn with_config(config: Config, limits: Limits) -> Self {
        Self::new(config, limits)
    }

    fn new(config: Config, limits: Limits) -> Self {
        Self { config, limits, requests: ApiMetrics::default(), renewals: LeaseMetrics::default() }
    }

    /// Counts what is asked of it there.
    #[must_use]
    pub fn metered(self, requests: &ApiMetrics, renewals: &LeaseMetrics) -> Self {
        Self { requests: requests.clone(), renewals: renewals.clone(), ..self }
    }

    pub(super) fn requests(&self) -> &ApiMetrics {
        &self.requests
    }

    pub(super) fn renewals(&self) -> &LeaseMetrics {
        &self.renewals
    }

    /// Its URL.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Its address, if its URL has one and no name.
    pub fn address(&self) -> Option<IpAddr> {
        self.config.cluster_url.host()?.trim_matches(['[', ']']).parse().ok()
    }

    /// How long things may take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// A client with connections of its own, made when they are needed.
    pub fn connect(&self) -> Result<Client, ConnectError> {
        let config = &self.config;
        let failed = |source| ConnectError::Client { server: self.url(), source: Box::new(source) };
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(self.limits.probing()));
        tcp.set_keepalive_interval(Some(self.limits.probing()));
        tcp.set_keepalive_retries(Some(2));
        tcp.set_tcp_user_timeout(Some(self.limits.silence()));
        let tls = config.rustls_https_connector_with_connector(tcp).map_err(failed)?;
        let mut connector = TimeoutConnector::new(tls);
        connector.set_connect_timeout(Some(self.limits.renewal()));
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .option_layer(config.auth_layer().map_err(failed)?)
            .layer(config.extra_headers_layer().map_err(failed)?)
            .map_err(BoxError::from)
            .service(Builder::new(TokioExecutor::new()).build::<_, Body>(connector));
        Ok(Client::new(service, config.default_namespace.clone()))
    }
}

async fn kubeconfig(paths: &PathBuf, context: Option<&String>) -> Result<Config, ConnectError> {
    let mut merged: Option<Kubeconfig> = None;
    for path in std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()) {
        let failed = |source| ConnectError::Kubeconfig { path: path.clone(), source };
        let next = Kubeconfig::read_from(&path).map_err(failed)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(failed)?,
            None => next,
        });
    }
    let options = KubeConfigOptions { context: context.cloned(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(merged.unwrap_or_default(), &options)
        .await
        .map_err(|source| ConnectError::Context { path: paths.clone(), context: context.cloned(), source })
}
