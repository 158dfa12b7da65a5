//! Reads and writes of claims for an operator, who has a wish about one of them.

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
        http::Connections,
    },
};

/// The time between two looks at a claim.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// The deadline of one request.
const LIMIT: Duration = Duration::from_secs(5);

/// Reason why a wish could not be written or followed.
#[derive(Debug, Error)]
pub enum WishError {
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
pub(crate) struct Wishes {
    connections: Connections,
}

impl Wishes {
    pub(crate) async fn connect(access: &Access) -> Result<Self, ConnectError> {
        let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
        let server = Server::find(access, limits).await?;
        Ok(Self { connections: Connections::open(&server)? })
    }

    pub(crate) fn claims() -> Collection {
        Resource::VirtualIps.collection("")
    }

    /// Returns the text of a good answer.
    pub(crate) async fn send(&self, call: Call) -> Result<String, RequestError> {
        self.connections.ask(call, LIMIT).await
    }

    /// Changes the metadata of the claim of an address.
    pub(crate) async fn annotate(&self, vip: IpAddr, metadata: Value) -> Result<(), WishError> {
        let call = Self::claims().merge(&object_name(vip), &json!({"metadata": metadata}));
        self.send(call).await.map(drop).map_err(failed("annotate the VirtualIP", vip))
    }

    /// Reads the claim of an address, if it has one.
    pub(crate) async fn read(&self, vip: IpAddr) -> Result<Option<ClaimRecord>, WishError> {
        match self.send(Self::claims().get(&object_name(vip))).await {
            Ok(object) => match claims::read(&object) {
                Ok((claim, _)) => Ok(Some(claim)),
                Err(source) => Err(WishError::Unreadable { vip, source }),
            },
            Err(error) if error.is_status(404) => Ok(None),
            Err(error) => Err(failed("read the VirtualIP", vip)(error)),
        }
    }
}

pub(crate) fn failed(what: &'static str, vip: IpAddr) -> impl FnOnce(RequestError) -> WishError {
    move |source| WishError::Request { what, vip, source }
}
