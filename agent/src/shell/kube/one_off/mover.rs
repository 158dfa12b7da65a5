//! An operator's request to move a VIP: writes it on the claim, and waits until the holder fulfils or
//! refuses it.

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use vipward_common::MacAddr;
use vipward_core::records::{ClaimRecord, ClaimState, object_name};

use super::claim_access::{ClaimAccess, ClaimAccessError, READ_INTERVAL};
use crate::shell::kube::{
    kinds::{resource::Resource, virtual_ip::MOVE_TO},
    link::connect::{Access, ConnectError},
};

#[derive(Debug, Error)]
pub enum MoveError {
    #[error("there is no VirtualIP {vip}; `kubectl get vip` lists those that there are")]
    Missing { vip: IpAddr },
    #[error("there is no node {node:?}; `kubectl get nodes` lists those that there are")]
    NoNode { node: String },
    #[error(
        "no node holds {vip}, so no node can hand it over; `kubectl describe vip {}` states why",
        object_name(*vip)
    )]
    NoHolder { vip: IpAddr },
    #[error(transparent)]
    Claim(#[from] ClaimAccessError),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Moved {
    There {
        /// The MAC that it answers with.
        mac: MacAddr,
    },
    Refused {
        why: String,
    },
    NotYet {
        holder: String,
    },
}

pub struct Mover(ClaimAccess);

impl Mover {
    pub async fn connect(access: &Access) -> Result<Self, ConnectError> {
        Ok(Self(ClaimAccess::connect(access).await?))
    }

    async fn read(&self, vip: IpAddr) -> Result<ClaimRecord, MoveError> {
        self.0.read(vip).await?.ok_or(MoveError::Missing { vip })
    }

    /// Fails if the node does not exist. Ignores any other failure: the user may not be allowed to
    /// read Nodes, and the holder's agent checks too.
    async fn check_node(&self, name: &str) -> Result<(), MoveError> {
        match self.0.send(Resource::Nodes.collection("").get(name)).await {
            Err(error) if error.is_status(404) => Err(MoveError::NoNode { node: name.to_owned() }),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub async fn request(&self, vip: IpAddr, to: &str) -> Result<String, MoveError> {
        let claim = self.read(vip).await?;
        let holder = claim.state.holder().ok_or(MoveError::NoHolder { vip })?;
        let from = holder.node.to_string();
        if from != to {
            self.check_node(to).await?;
            self.0.annotate(vip, json!({"annotations": {(MOVE_TO): to}})).await?;
        }
        Ok(from)
    }

    /// Waits until the node holds the VIP or the holder refuses, at most `limit`.
    pub async fn wait(&self, vip: IpAddr, to: &str, limit: Duration) -> Result<Moved, MoveError> {
        let deadline = Instant::now() + limit;
        loop {
            let claim = self.read(vip).await?;
            let holder = claim.state.holder();
            match (&claim.state, holder) {
                (ClaimState::Held(holder), _) if holder.node.as_str() == to => {
                    return Ok(Moved::There { mac: holder.mac });
                }
                // The holder has removed the request without fulfilling it.
                (ClaimState::Held(_), _) if claim.move_to.is_none() => {
                    if let Some(why) = claim.note.trouble {
                        return Ok(Moved::Refused { why });
                    }
                }
                _ => {}
            }
            if Instant::now() >= deadline {
                let holder = holder.map_or_else(|| "no node".to_owned(), |holder| holder.node.to_string());
                return Ok(Moved::NotYet { holder });
            }
            sleep(READ_INTERVAL).await;
        }
    }
}
