//! Outcomes of requests.

use std::net::IpAddr;

use vipward_core::{
    cluster::{ClaimRecord, ServiceName},
    ownership::{Event, Outcome},
    shown::Finding,
};

use crate::shell::kube::ingress::IngressError;

/// The outcome of a request.
#[derive(Debug)]
pub enum Reply {
    /// An event for the ownership engine.
    Ownership(Event),
    /// The outcome of showing a finding on a claim.
    Shown {
        /// The claim's VIP.
        vip: IpAddr,
        /// The finding.
        finding: Finding,
        /// The outcome.
        outcome: Outcome<ClaimRecord>,
    },
    /// The outcome of writing or clearing the status of a Service.
    Ingress {
        /// The Service.
        service: ServiceName,
        /// The outcome.
        result: Result<(), IngressError>,
    },
}
