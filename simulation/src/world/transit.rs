//! What is on its way between the parts of a run, where the queue has its number.

use std::net::IpAddr;

use vipward_core::{
    agent::{self, cluster::Seen},
    base::time::Monotonic,
    liveness::Finding,
    ownership::Outcome,
    pools::{ReservationWrite, election::Step},
    records::{ClaimRecord, ServiceName},
    reports::outbox::{self, Write},
};

use crate::{
    api::{Key, Reserved},
    machine::{At, Elected},
    schedule::MOST_KINDS,
};

/// What is on its way.
#[derive(Debug, Default)]
pub(crate) struct Transit {
    /// The number of changes of each kind that the watches have been offered.
    pub(crate) notified: [usize; MOST_KINDS],
    pub(crate) flights: Vec<Flight>,
    pub(crate) lists: Vec<Vec<(Key, Vec<Seen>)>>,
    pub(crate) findings: Vec<Option<Finding>>,
}

/// A request of an agent or of a controller.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Agents(agent::Request),
    /// A reading of the Lease by which one controller leads.
    Ballot,
    /// A write of that Lease, in the name of a process or of none, and when the round began by its clock.
    Vote(Step, String, Monotonic),
    /// A reservation, with the object of the address as the controller knew it.
    Reserve(ReservationWrite, Option<Box<ClaimRecord>>),
    /// A status, and the addresses whose objects were others already when the request was sent: the
    /// controller had yet to see that.
    Status(ServiceName, Option<Vec<IpAddr>>, Vec<IpAddr>),
    Event(Box<Write>),
}

/// The response to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Agents(agent::cluster::Reply),
    Elected(Elected),
    /// A reservation, with the object of the address as the controller knew it when it sent the request.
    Reserved(ReservationWrite, Option<Box<ClaimRecord>>, Reserved),
    Status(ServiceName, Outcome<()>),
    Event(outbox::Outcome),
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) node: usize,
    /// The life of the process that sent it; no other gets the response.
    pub(crate) life: u32,
    pub(crate) sent: At,
    pub(crate) request: Request,
    pub(crate) answer: Option<Reply>,
    /// True if the process no longer waits for it.
    pub(crate) settled: bool,
}
