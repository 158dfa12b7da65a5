//! A cluster.

pub mod forwarder;
