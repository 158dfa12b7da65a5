//! Writes objects: Leases, claims, statuses and Events.

pub(crate) mod ingress;
pub(crate) mod l2_statuses;
pub(crate) mod leader_lease;
pub(crate) mod pool_statuses;
pub(crate) mod recorder;
pub(crate) mod reporter;
pub(crate) mod request_queue;
pub(crate) mod requests;
