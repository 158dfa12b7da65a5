//! Kubernetes: reads from the API server, and writes to it.
//!
//! A [`Kube`] is the way to the API server. From it, [`Reader`] lists and watches, [`Requests`] writes
//! Leases, claims and the status of Services, [`Recorder`] writes Events, and [`find_reason`] reads why
//! the agent is to end. Each has its own tasks and connections, which end when it is dropped, and one
//! bounded channel for its answers. No module here decides who holds a VIP.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `link`: the connections to the API server: addresses, credentials, calls, and why they fail.
//! - `kinds`: the kinds of objects, from their form in the API server to the core's and back.
//! - `reading`: lists and watches objects, and turns them into inputs of the core.
//! - `writing`: writes objects: Leases, claims, statuses and Events.
//! - `one_off`: single reads and writes: for a command of an operator, and for the reason why the agent
//!   is to end.

mod kinds;
mod link;
mod one_off;
mod reading;
mod writing;

#[cfg(test)]
mod testing;

pub(crate) use self::writing::reporter::{PROBLEM, PROBLEM_OVER, Reporter};
pub use self::{
    kinds::{
        claims::ClaimError,
        condition::{Condition, Truth},
        metallb::MetalLb,
        resource::Resource,
        secret::SECRET,
        virtual_ip::{
            FINALIZER, MOVE_TO, OfferedBy, ReservationSpec, VirtualIP, VirtualIpSpec, VirtualIpStatus,
            crd_yaml, definition,
        },
    },
    link::{
        call::MANAGER,
        connect::{Access, ConnectError, Limits, Server},
        credentials::CredentialError,
        error::RequestError,
    },
    one_off::{
        claim_access::ClaimAccessError,
        mover::{MoveError, Moved, Mover},
        overview::{OverviewError, read_overview, read_pools},
        releaser::{ReleaseError, Released, Releaser},
        termination::{Surroundings, find_reason},
        uninstaller::{UninstallError, Uninstaller},
        wire_secret::{Rotating, WireSecret, WireSecretError},
    },
    reading::{
        objects::Reading,
        read_error::{ReadError, Verb},
        reader::Reader,
        seen::Seen,
        shared::Kube,
    },
    writing::{
        ingress::IngressError,
        l2_statuses::L2Statuses,
        leader_lease::{Candidate, leader},
        pool_statuses::PoolStatuses,
        recorder::Recorder,
        requests::{Found, Reply, Requests, Statuses},
    },
};
