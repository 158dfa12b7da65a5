//! The effects of the controller, and the lines that it logs.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    pools::ReservationWrite,
    records::{ServiceName, Version},
    services::Problem,
};

/// An action for the caller. Effects are carried out in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Write the reservation of an address. [`Reply::Reserved`](super::Reply::Reserved) follows.
    Reserve(ReservationWrite),
    /// Write the status of a Service, or with none take back what Vipward wrote.
    /// [`Reply::Status`](super::Reply::Status) follows.
    WriteStatus {
        service: ServiceName,
        addresses: Option<Vec<IpAddr>>,
        /// The version of a Service with another manager's status, which is overwritten. A later
        /// version may have another status.
        over: Option<Version>,
    },
    /// Read the `EndpointSlice`s, which this Service needs.
    ListSlices(ServiceName),
    Problem(ServiceName, Problem),
    ProblemOver(ServiceName, Problem),
    /// The controller no longer writes the status of a Service.
    LeaveStatus(ServiceName),
    /// Measure the time from the choice of a Service's address to its status.
    Assigned(Duration),
    /// Show the pools' states. This comes once a second.
    ShowPools,
    Log(Line),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// The API server refused a reservation, which is tried again.
    Refused(IpAddr, Arc<str>),
    /// It is not known whether a reservation was written, and it is tried again.
    Unknown(IpAddr),
    /// A reservation was written that had failed.
    Reserved(IpAddr),
}
