//! Reads and writes of claims for an operator, who has a wish about one of them.

use std::{net::IpAddr, time::Duration};

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

/// Reason why a claim could not be read.
pub(crate) enum ReadError {
    /// A refusal of the API server, or a failed request.
    Request(RequestError),
    Unreadable(ClaimError),
}

/// An operator's way to the API server.
pub(crate) struct Wishes {
    connections: Connections,
}

impl Wishes {
    /// Finds the API server.
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

    /// Reads the claim of an address, if it has one.
    pub(crate) async fn read(&self, vip: IpAddr) -> Result<Option<ClaimRecord>, ReadError> {
        match self.send(Self::claims().get(&object_name(vip))).await {
            Ok(object) => claims::read(&object).map(|(claim, _)| Some(claim)).map_err(ReadError::Unreadable),
            Err(error) if error.is_status(404) => Ok(None),
            Err(error) => Err(ReadError::Request(error)),
        }
    }
}
