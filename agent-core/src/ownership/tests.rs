//! Tables for the rules of docs/internals/ownership.md: events, and the response of one node.

mod api;
mod choosing;
mod delivering;
mod disputes;
mod eligibility;
mod expiring;
mod handing_over;
mod lines;
mod no_holder;
mod probing;
mod properties;
pub(in crate::ownership) mod records;
mod renewing;
mod repairing;
mod restoring;
mod start;
mod stopping;
mod succeeding;
mod taking;
mod together;
mod vacant;
mod viewing;
mod wire;
mod world;
