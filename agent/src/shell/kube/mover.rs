//! An operator's wish to move a VIP: written on its claim, and followed until it is fulfilled or refused.

use std::{net::Ipv4Addr, time::Duration};

use serde_json::json;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use vipward_common::MacAddr;

use super::{
    MOVE_TO, Resource,
    claims::{self, ClaimError},
    connect::{Access, ConnectError, Limits, Server},
    http::{Call, Connections, MERGE, RequestError},
};
use crate::core::cluster::{ClaimRecord, ClaimState};

/// How often the claim is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// One request takes no longer.
const LIMIT: Duration = Duration::from_secs(5);

/// Why a VIP could not be asked to move.
#[derive(Debug, Error)]
pub enum MoveError {
    /// There is no such claim.
    #[error("there is no VirtualIP {vip}; `kubectl get vip` lists those that there are")]
    Missing {
        /// The address.
        vip: Ipv4Addr,
    },
    /// Nobody has it.
    #[error("nobody holds {vip}, so that nobody can hand it over; `kubectl describe vip {vip}` says why")]
    Nobody {
        /// The address.
        vip: Ipv4Addr,
    },
    /// The API server refuses, or cannot be reached.
    #[error("failed to {what} VirtualIP {vip}")]
    Request {
        /// What was tried.
        what: &'static str,
        /// The address.
        vip: Ipv4Addr,
        /// Why.
        #[source]
        source: RequestError,
    },
    /// The object is none of ours.
    #[error("VirtualIP {vip} cannot be read")]
    Unreadable {
        /// The address.
        vip: Ipv4Addr,
        /// Why.
        #[source]
        source: ClaimError,
    },
}

/// What became of the wish.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The node holds it.
    There {
        /// With this MAC.
        mac: MacAddr,
    },
    /// It cannot.
    Refused {
        /// Why.
        why: String,
    },
    /// Neither, yet.
    NotYet {
        /// Who holds it.
        holder: String,
    },
}

/// Asks for moves.
pub struct Mover {
    connections: Connections,
}

impl Mover {
    /// Opens a way to the API server.
    pub async fn connect(access: &Access) -> Result<Self, ConnectError> {
        let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
        let server = Server::find(access, limits).await?;
        Ok(Self { connections: Connections::open(&server)? })
    }

    fn path(vip: Ipv4Addr) -> String {
        format!("{}/{vip}", Resource::VirtualIps.path(""))
    }

    async fn read(&self, vip: Ipv4Addr) -> Result<ClaimRecord, MoveError> {
        match self.connections.ask(Call::get(Self::path(vip)), LIMIT).await {
            Ok(object) => claims::read(&object)
                .map(|(claim, _)| claim)
                .map_err(|source| MoveError::Unreadable { vip, source }),
            Err(error) if error.is_status(404) => Err(MoveError::Missing { vip }),
            Err(source) => Err(MoveError::Request { what: "read", vip, source }),
        }
    }

    /// Writes the wish on the claim; returns who holds the VIP.
    pub async fn ask(&self, vip: Ipv4Addr, to: &str) -> Result<String, MoveError> {
        let claim = self.read(vip).await?;
        let holder = claim.state.holder().ok_or(MoveError::Nobody { vip })?;
        let from = holder.node.to_string();
        if from != to {
            let patch = json!({"metadata": {"annotations": {(MOVE_TO): to}}});
            let call = Call::patch(Self::path(vip), MERGE, &patch);
            let asked = self.connections.ask(call, LIMIT).await;
            asked.map_err(|source| MoveError::Request { what: "annotate", vip, source })?;
        }
        Ok(from)
    }

    /// Waits until the node holds the VIP, or cannot, for `limit` at most.
    pub async fn wait(&self, vip: Ipv4Addr, to: &str, limit: Duration) -> Result<Moved, MoveError> {
        let deadline = Instant::now() + limit;
        loop {
            let claim = self.read(vip).await?;
            let holder = claim.state.holder();
            match (&claim.state, holder) {
                (ClaimState::Held(holder), _) if holder.node.as_str() == to => {
                    return Ok(Moved::There { mac: holder.mac });
                }
                // The holder has taken the wish off without fulfilling it.
                (ClaimState::Held(_), _) if claim.move_to.is_none() => {
                    if let Some(why) = claim.note.trouble {
                        return Ok(Moved::Refused { why });
                    }
                }
                _ => {}
            }
            if Instant::now() >= deadline {
                let holder = holder.map_or_else(|| "nobody".to_owned(), |holder| holder.node.to_string());
                return Ok(Moved::NotYet { holder });
            }
            sleep(LOOK).await;
        }
    }
}
