//! The VIPs that Services want. The index turns Services into demands for VIPs.
//!
//! docs/kubernetes/services.md has the rules.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `settings`: the Services that are served, and the addresses that they may have.
//! - `ineffective`: annotations that have no effect on a Service.
//! - `records`: Services, their endpoints and this host's network, as they were read.
//! - `addresses`: whether an address may be a VIP, and whether the VIP or something else came first.
//! - `place`: the fields and annotations of a Service.
//! - `problem`: the problems of a Service, with their remedies.
//! - `types`: events and commands of the index.
//! - `endpoints`: the nodes that can deliver a Service's traffic.
//! - `reading`: what a Service requests, and whether it is served.
//! - `sharing`: the Services that have a VIP, together or alone, and how many VIPs a namespace has.
//! - `statuses`: the addresses that a Service's status is to name, and the other controllers that
//!   write it.
//! - `index`: the Services and the VIPs that they want, evaluated again as events touch them.
//! - `leader`: whether a controller leads.
//! - `agent`: the index of an agent, beside the reservations that it reads.
//! - `controller`: the index of the controller, beside the allocator of the pools' addresses.

mod addresses;
mod agent;
mod controller;
mod endpoints;
mod index;
mod ineffective;
mod leader;
mod place;
mod problem;
mod reading;
mod records;
mod settings;
mod sharing;
mod statuses;
#[cfg(test)]
mod tests;
mod types;

pub use self::{
    addresses::Refusal,
    agent::Agent,
    controller::{Controller, ControllerCommand},
    index::{Account, AddressRequest, Index, Mention, ServiceAccount, Unserved},
    ineffective::{Ineffective, Instead},
    place::Place,
    problem::{Clearing, Malformed, Problem, ProblemReason, SeenBy, WayOut, Writer},
    reading::oversights_on,
    records::{
        AnnotationValues, Annotations, EndpointsRecord, FIELD_MANAGER, FamilyPolicy, HostAddress,
        HostNetwork, Ingress, IpMode, OtherController, ServiceRecord, StatusOwner,
    },
    settings::{DEFAULT_CLASS, MOST_ADDRESSES, Settings},
    types::{Command, Event},
};
pub use super::records::{Port, Protocol};
