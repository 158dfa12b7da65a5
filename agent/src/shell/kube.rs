//! Kubernetes: reads from the API server, and writes to it.
//!
//! A [`Kube`] is the way to the API server. From it, [`Reader`] lists and watches,
//! [`Requests`] writes Leases, claims and the status of Services, [`Recorder`] writes
//! Events, and [`find_reason`] reads why the agent is to end. Each has its own
//! tasks and connections, which end when it is dropped, and answers through one
//! bounded channel. No module here decides who holds a VIP.

mod alarm;
mod ballots;
mod call;
mod claims;
mod connect;
mod credentials;
mod crowd;
mod error;
mod events;
mod http;
mod ingress;
mod l2_statuses;
mod lane;
mod leases;
mod meta;
mod metallb;
mod mover;
mod objects;
mod overview;
mod pool_statuses;
mod read_error;
mod reader;
mod recorder;
mod releaser;
mod requests;
mod resource;
mod seen;
mod shared;
mod termination;
#[cfg(test)]
mod testing;
mod text;
mod vip_pool;
mod virtual_ip;
mod wire_secret;
mod wishes;

pub use self::{
    ballots::{Candidate, leader},
    call::MANAGER,
    claims::ClaimError,
    connect::{Access, ConnectError, Limits, Server, is_redundant},
    credentials::CredentialError,
    error::RequestError,
    ingress::IngressError,
    l2_statuses::{HeldVip, L2Statuses},
    metallb::MetalLb,
    mover::{MoveError, Moved, Mover},
    objects::Reading,
    overview::{OverviewError, read_overview, read_pools},
    pool_statuses::PoolStatuses,
    read_error::{ReadError, Verb},
    reader::Reader,
    recorder::Recorder,
    releaser::{ReleaseError, Released, Releaser},
    requests::{Found, Reply, Requests, Statuses},
    resource::Resource,
    seen::Seen,
    shared::Kube,
    termination::{Surroundings, find_reason},
    virtual_ip::{
        Condition, FINALIZER, MOVE_TO, OfferedBy, ReservationSpec, Truth, VirtualIP, VirtualIpSpec,
        VirtualIpStatus, crd_yaml, definition,
    },
    wire_secret::{LINGER, Rotating, SECRET, WireSecret, WireSecretError},
};
