//! Outcomes of requests.

use std::net::IpAddr;

use vipward_core::{
    ownership::{Event, Outcome},
    pools::ReservationWrite,
    records::{ClaimRecord, ServiceName},
    reports::shown::Finding,
};

use crate::shell::kube::writing::ingress::IngressError;

/// An address's object as it was read. None: there is none.
#[derive(Debug)]
pub struct Found(pub Option<Box<ClaimRecord>>);

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
    /// The outcome of writing the reservation of an address.
    Reserved {
        /// The write.
        write: Box<ReservationWrite>,
        /// The outcome: the object now, or none if there is none any more.
        outcome: Outcome<Option<Box<ClaimRecord>>>,
        /// The object as it was read after a conflict.
        found: Option<Found>,
    },
    /// The outcome of writing or clearing the status of a Service.
    Ingress {
        /// The Service.
        service: ServiceName,
        /// The outcome.
        result: Result<(), IngressError>,
    },
}
