//! The core decides: pure, synchronous, time passed in; no clocks, randomness, environment or I/O.

pub mod announce;
pub mod cluster;
pub mod config;
pub mod conflict;
pub mod doctor;
pub mod explain;
pub mod heartbeat;
mod interfaces;
pub mod net;
pub mod overview;
pub mod ownership;
mod pace;
pub mod placement;
pub mod plan;
pub mod probing;
pub mod reporting;
#[cfg(test)]
mod samples;
pub mod services;
pub mod time;
pub mod trouble;
pub mod vendor;
pub mod watch;
pub mod who_has;
