//! The kinds of objects, from their form in the API server to the core's and back.

pub(crate) mod claims;
pub(crate) mod condition;
pub(crate) mod leases;
pub(crate) mod meta;
pub(crate) mod metallb;
pub(crate) mod resource;
pub(crate) mod secret;
pub(crate) mod text;
pub(crate) mod vip_pool;
pub(crate) mod virtual_ip;
