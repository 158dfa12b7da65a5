//! The event loop: waits for the next event or deadline, asks the
//! core for decisions, and carries them out.
//!
//! One task makes all changes to the maps, between two waits of `turn`. So no two changes ever
//! meet. A request that could take longer than a heartbeat runs in another task.
//!
//! The host's part is the same for each source of VIPs; `standalone` and `cluster` add their own.

mod announcing;
mod apply;
mod attaching;
mod cluster;
mod error;
mod event_loop;
mod hearing;
mod inputs;
mod proving;
mod report;
mod rounds;
mod segments;
mod silent;
mod snapshot;
mod source;
mod standalone;
mod starting;
mod timing;

pub use self::{cluster::agent as kubernetes, error::RunError, standalone::agent, starting::read_config};
