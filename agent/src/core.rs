//! The core decides: pure, synchronous, time passed in; no clocks, randomness, environment or I/O.

pub mod announce;
pub mod cluster;
pub mod config;
pub mod heartbeat;
mod interfaces;
pub mod net;
pub mod ownership;
pub mod placement;
pub mod plan;
pub mod reporting;
pub mod services;
pub mod time;
pub mod trouble;
