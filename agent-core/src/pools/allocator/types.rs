//! Events and commands of the allocator.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use super::{super::PoolRecord, Announcing, Lack, Request};
use crate::records::{Reservation, ServiceName};

/// Knowledge about addresses that the allocator lacks.
pub trait Surroundings {
    /// Returns true if no Service may have the address.
    fn refuses(&self, vip: IpAddr) -> bool;
    /// Returns true if a Service may have the address, and none wants it.
    fn is_free(&self, vip: IpAddr) -> bool;
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    Pool(Box<PoolRecord>),
    PoolGone(Arc<str>),
    Namespace {
        name: Arc<str>,
        labels: BTreeMap<String, String>,
        /// The namespaces with which its Services may share their addresses.
        share_with: BTreeSet<Arc<str>>,
    },
    NamespaceGone(Arc<str>),
    /// Other nodes can announce addresses than before.
    Announcing(Announcing),
    /// Something else has begun or ceased to need addresses of this network.
    Needs(IpNet),
    /// A Service requests addresses, or others than before.
    Request(ServiceName, Box<Request>),
    /// A Service requests none any more, or is gone.
    Withdrawn(ServiceName),
    Object {
        vip: IpAddr,
        reservation: Option<Reservation>,
        /// True if an admin wants the reservation given up.
        release: bool,
        /// The Services that its claim names.
        services: Vec<ServiceName>,
    },
    ObjectGone(IpAddr),
    /// A Service may have the address now, and none might before.
    Permitted(IpAddr),
    /// The write of an address's reservation has ended. What the object is now comes before, as an
    /// event of its own.
    Answered(IpAddr),
    /// The write of an address's reservation has failed, and is tried again. [`Event::Answered`]
    /// follows, unless [`Command::GiveUp`] comes before.
    Failed(IpAddr),
    /// Such a write has been sent again.
    TriedAgain(IpAddr),
    /// Everything has been listed. No command comes before the first of these events.
    Synced,
    /// The time, in seconds since 1970. It ends what is kept for a time.
    Time(i64),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Write the reservation of an address. [`Event::Answered`] follows.
    Write(ReservationWrite),
    /// Do not try the write of this address again that has failed. No event follows.
    GiveUp(IpAddr),
    /// The addresses of a Service, whether they are others than before or not.
    Assign(ServiceName, Given),
}

/// The addresses that a Service is given: those that are reserved for it, or shared with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Given {
    /// Its addresses, in the order of its request.
    pub addresses: Vec<IpAddr>,
    /// The addresses that it lacks, with the reasons.
    pub lacks: Vec<Lack>,
    /// True if a reservation for it is being written: another [`Command::Assign`] follows soon.
    pub pending: bool,
}

/// A write of an address's reservation (compare and swap).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReservationWrite {
    pub vip: IpAddr,
    /// Its object, as it was last read.
    pub expected: Expected,
    /// The new reservation. None: the address is free again, and the wish to release it fulfilled.
    pub reservation: Option<Reservation>,
}

/// The state of an object that a write rests on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    Absent,
    Present(Option<Reservation>),
}
