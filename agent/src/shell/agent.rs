//! The event loop: waits for one input, steps the core's agent, and carries out its effects.
//!
//! One task makes all changes to the maps, between two waits. So no two changes ever meet. A request that
//! could take longer than a heartbeat runs in another task. Nothing is decided here.

mod attaching;
mod cluster;
mod error;
mod event_loop;
mod executing;
mod inputs;
mod kubernetes;
mod lines;
mod reading;
mod rounds;
mod run;
mod service;
mod snapshot;
mod standalone;
mod starting;
mod timing;
mod watching;

pub use self::{error::RunError, kubernetes::agent as kubernetes, standalone::agent, starting::read_config};
