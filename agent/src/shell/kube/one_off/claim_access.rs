//! Reads and writes of claims for a request of an operator.

use std::{net::IpAddr, time::Duration};

use serde_json::{Value, json};
use thiserror::Error;
use vipward_core::records::{ClaimRecord, object_name};

use crate::shell::kube::{
    kinds::{
        claims::{self, ClaimError},
        resource::Resource,
    },
    link::{
        call::{Call, Collection},
        connect::{Access, ConnectError, Limits, Server},
        error::RequestError,
        http::{BUSY, Connections},
    },
};

/// The time between two readings of a claim.
pub(crate) const READ_INTERVAL: Duration = Duration::from_millis(250);
const LIMIT: Duration = Duration::from_secs(5);

/// A cluster without Vipward's types.
#[derive(Debug, Error)]
#[error(
    "the cluster does not know {resource}: Vipward is not installed there (kubectl apply -k \
     deploy/kubernetes/base), or the kubeconfig {kubeconfig} leads to another cluster"
)]
pub struct NotInstalled {
    resource: Resource,
    kubeconfig: String,
}

impl NotInstalled {
    pub(super) fn of(resource: Resource, access: &Access) -> Self {
        let kubeconfig = access.kubeconfig.as_ref().map(|path| path.display().to_string());
        Self { resource, kubeconfig: kubeconfig.unwrap_or_else(|| "(the Pod's)".to_owned()) }
    }
}

/// Reason why a claim could not be read or changed.
#[derive(Debug, Error)]
pub enum ClaimAccessError {
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error("failed to {what} for {vip}")]
    Request {
        what: &'static str,
        vip: IpAddr,
        #[source]
        source: RequestError,
    },
    #[error("VirtualIP {vip} cannot be read")]
    Unreadable {
        vip: IpAddr,
        #[source]
        source: ClaimError,
    },
}

/// An operator's way to the API server.
pub(crate) struct ClaimAccess {
    connections: Connections,
    access: Access,
}

impl ClaimAccess {
    pub(crate) async fn connect(access: &Access) -> Result<Self, ConnectError> {
        let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
        let server = Server::find(access, limits).await?;
        Ok(Self { connections: Connections::open(&server)?, access: access.clone() })
    }

    pub(crate) fn claims() -> Collection {
        Resource::VirtualIps.collection("")
    }

    pub(crate) async fn send(&self, call: Call) -> Result<String, RequestError> {
        self.insist(call, BUSY).await
    }

    /// Sends a request again for `patience` while the API server is busy.
    pub(crate) async fn insist(&self, call: Call, patience: Duration) -> Result<String, RequestError> {
        self.connections.insist(call, LIMIT, patience).await
    }

    /// Changes the metadata of the claim of an address.
    pub(crate) async fn annotate(&self, vip: IpAddr, metadata: Value) -> Result<(), ClaimAccessError> {
        let call = Self::claims().merge(&object_name(vip), &json!({"metadata": metadata}));
        self.send(call).await.map(drop).map_err(failed("annotate the VirtualIP", vip))
    }

    /// Reads the claim of an address, if it has one.
    pub(crate) async fn read(&self, vip: IpAddr) -> Result<Option<ClaimRecord>, ClaimAccessError> {
        match self.send(Self::claims().get(&object_name(vip))).await {
            Ok(object) => match claims::read(&object) {
                Ok((claim, _)) => Ok(Some(claim)),
                Err(source) => Err(ClaimAccessError::Unreadable { vip, source }),
            },
            Err(error) if error.is_unknown_type() => {
                Err(NotInstalled::of(Resource::VirtualIps, &self.access).into())
            }
            Err(error) if error.is_status(404) => Ok(None),
            Err(error) => Err(failed("read the VirtualIP", vip)(error)),
        }
    }
}

pub(crate) fn failed(what: &'static str, vip: IpAddr) -> impl FnOnce(RequestError) -> ClaimAccessError {
    move |source| ClaimAccessError::Request { what, vip, source }
}
