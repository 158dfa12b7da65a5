//! Ownership of VIPs: the decision which VIPs this node holds. The nodes agree through the API
//! server only.
//!
//! The engine is pure. [`Event`]s with the time come in. [`Command`]s go out,
//! and the caller carries them out in their order. The engine never waits:
//! the outcome of a request comes back as an event.
//!
//! docs/internals/ownership.md has the rules, and shows why they are safe. An event or a deadline makes the
//! engine evaluate a VIP as a whole (`Subject::evaluate`), so the order of events does not matter.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `times`: times that no setting changes.
//! - `settings`: settings of ownership on this node, and their validation.
//! - `event`: what the engine receives.
//! - `command`: what the engine commands.
//! - `interlock`: the order of the commands, and the refusal of those that stale map entries make unsafe.
//! - [`termination`]: the reason why the agent ends.
//! - `nodes`: all nodes, this one included: their Leases and sessions, and which of them can hold a VIP.
//! - `limits`: the VIPs that wait for their evaluation, their turn, or the read of their claim.
//! - `vip`: the state of one VIP.
//! - `decisions`: the next step for one VIP.
//! - `engine`: the state of all, the events, and what follows from this node's own Lease.

mod command;
mod decisions;
mod engine;
mod event;
mod interlock;
mod limits;
mod nodes;
mod settings;
pub mod termination;
mod times;
mod vip;

#[cfg(test)]
mod tests;

pub use self::{
    command::{ClaimWrite, Command, Expected, Fault, LeaseWrite, NewDeadline, Notice},
    engine::{Engine, HolderClaim, LeaseOnly, NodeView, View, VipSummary, VipView, WireNodeView, WireView},
    event::{Event, Found, Outcome, StopReason, Wire},
    interlock::{Interlock, Step},
    nodes::{Disqualified, Eligible, NodeFacts, WireCounts, eligibility, weight},
    settings::{Settings, SettingsError},
};
pub use super::{
    host::placement::Entry,
    records::{Demand, Reach},
    segment::probing::Probed,
};
