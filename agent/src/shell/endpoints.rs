//! The HTTP endpoints of agents and controllers, and the metrics on them.

mod checks;
mod client;
mod listener;
pub mod metrics;
mod server;

pub use self::{
    checks::Check,
    server::{Endpoints, EndpointsError, Question},
};
pub(crate) use self::{
    checks::report,
    client::{file, waiting, wire, wire_report},
    server::{accepted, serve},
};
