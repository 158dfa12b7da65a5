//! Outcomes of requests.

use std::net::IpAddr;

use vipward_core::{
    ownership::{Event, Outcome},
    pools::ReservationWrite,
    records::{ClaimRecord, ServiceName},
    reports::claim_findings::Finding,
};

use crate::shell::kube::writing::ingress::IngressError;

/// An address's object as it was read. None: there is none.
#[derive(Debug)]
pub struct Found(pub Option<Box<ClaimRecord>>);

#[derive(Debug)]
pub enum Reply {
    Ownership(Event),
    /// The outcome of showing a finding on a claim.
    Shown {
        vip: IpAddr,
        finding: Finding,
        outcome: Outcome<ClaimRecord>,
    },
    /// The outcome of writing the reservation of an address.
    Reserved {
        write: Box<ReservationWrite>,
        /// The outcome: the object now, or none if there is none any more.
        outcome: Outcome<Option<Box<ClaimRecord>>>,
        /// The object as it was read after a conflict.
        found: Option<Found>,
    },
    /// The outcome of writing or clearing the status of a Service.
    Ingress {
        service: ServiceName,
        outcome: Outcome<()>,
        result: Result<(), IngressError>,
    },
}
