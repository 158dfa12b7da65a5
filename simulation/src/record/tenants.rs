//! What the checks of the tenants' Services need.

use std::net::IpAddr;

use crate::{machine::At, schedule::Asks};

/// An address that a Service had when it was deleted, and is to have again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) vip: IpAddr,
    /// What it requested.
    pub(crate) asks: Asks,
    /// The time until which it must be created again, in seconds since 1970.
    pub(crate) until: Option<i64>,
}

/// The records of the tenants' Services, and of the controllers. Each per Service, but for the last ones.
#[derive(Debug)]
pub(crate) struct TenantsRecord {
    pub(crate) kept: Vec<Option<Kept>>,
    /// The time since which it lacks an address and could have one.
    pub(crate) could: Vec<Option<At>>,
    /// The time since which it lacks an address and could not have one.
    pub(crate) lacks: Vec<Option<At>>,
    /// True if it has lacked an address that it could not have.
    pub(crate) waits: Vec<bool>,
    /// The time since which it has what it requests.
    pub(crate) content: Vec<Option<At>>,
    /// Per VIP: the time since which its reservation should be another.
    pub(crate) wrong: Vec<Option<At>>,
    /// Per VIP: the controller that wrote its reservation last, and when.
    pub(crate) written: Vec<Option<(usize, At)>>,
    /// The controller that wrote the Lease of the election last.
    pub(crate) leader: Option<usize>,
    /// The time since which no controller leads.
    pub(crate) leaderless: Option<At>,
    /// The last time when an address was reserved for any Service, or freed.
    pub(crate) given: At,
}

impl TenantsRecord {
    pub(crate) fn new(services: usize, vips: usize) -> Self {
        Self {
            kept: vec![None; services],
            could: vec![None; services],
            lacks: vec![None; services],
            waits: vec![false; services],
            content: vec![None; services],
            wrong: vec![None; vips],
            written: vec![None; vips],
            leader: None,
            leaderless: None,
            given: At::default(),
        }
    }
}
