//! Writes objects: Leases, claims, statuses and Events.

pub(crate) mod ballots;
pub(crate) mod bulletin;
pub(crate) mod ingress;
pub(crate) mod l2_statuses;
pub(crate) mod lane;
pub(crate) mod pool_statuses;
pub(crate) mod recorder;
pub(crate) mod requests;
