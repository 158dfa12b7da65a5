//! The core decides. It is pure and synchronous: callers pass the time in, and the
//! core uses no clock, randomness, environment or I/O.

pub mod address;
pub mod announce;
pub mod answering;
pub mod attaching;
pub mod bursts;
pub mod cluster;
pub mod concurrency;
pub mod config;
pub mod conflict;
pub mod doctor;
pub mod explain;
pub mod failover;
pub mod frame;
pub mod groups;
pub mod heartbeat;
pub mod interfaces;
pub mod layout;
pub mod live;
pub mod moves;
pub mod net;
pub mod outbox;
pub mod overview;
pub mod ownership;
mod pace;
pub mod pinned;
pub mod placement;
pub mod plan;
pub mod probing;
pub mod proving;
pub mod refusals;
pub mod repairs;
pub mod reporting;
pub mod retrying;
#[cfg(test)]
mod samples;
mod schema;
pub mod services;
pub mod shown;
pub mod stack;
pub mod stale;
pub mod termination;
pub mod time;
pub mod unanswered;
pub mod who_has;
pub mod yields;
