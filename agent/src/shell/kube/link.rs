//! The connections to the API server: addresses, credentials, calls, and why they fail.

pub(crate) mod call;
pub(crate) mod connect;
pub(crate) mod credentials;
pub(crate) mod error;
pub(crate) mod http;
