//! The reservation of an address for a Service.

use std::sync::Arc;

use super::ServiceName;

/// The reservation of an address, as its object has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reservation {
    pub service: ServiceName,
    /// The pool that it is from. None: the Service requested an address of no pool.
    pub pool: Option<Arc<str>>,
    /// Set when the Service is gone: the time until which the address is kept for another one of its
    /// name, in seconds since 1970, or none for ever.
    pub kept: Option<Option<i64>>,
}
