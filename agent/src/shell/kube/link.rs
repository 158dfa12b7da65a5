//! The connections to the API servers: addresses, credentials, calls, and why they fail.

pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod http;
mod race;
pub(crate) mod servers;
