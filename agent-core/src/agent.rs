//! The agent: one state machine that composes all others.
//!
//! [`Agent::on`] takes an input and returns effects. The caller carries them out in their order, and
//! passes every result on before any other input. So the order of everything is decided here.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`segment`]: announcements, probes, conflicts and yielded VIPs.
//! - `waiting`: why VIPs are not held yet.
//! - [`host`]: rounds that bring the kernel to the desired state.
//! - [`memberships`]: the groups of neighbour solicitations.
//! - [`answers`]: the VIPs that this node should hold and does not answer for.
//! - `shared`: the right to announce a VIP, by the pinned maps.
//! - `visibility`: whether the program sees the frames of the segments.
//! - `effect`: the effects that the caller carries out.
//! - [`cluster`]: the engine and the Services, and the events that they pass to each other.
//! - `input`: inputs, and the results of effects.
//! - `file`: the heartbeat of a standalone agent.
//! - `source`: a file or a cluster.
//! - `work`: what has begun and waits for a result.
//! - `composed`: the agent, and the steps of its work.

pub mod answers;
pub mod cluster;
mod composed;
mod effect;
mod file;
#[cfg(test)]
mod fixtures;
pub mod host;
mod input;
pub mod memberships;
pub mod segment;
mod shared;
mod source;
mod visibility;
mod waiting;
mod work;

pub use self::{
    composed::{Agent, ClaimSnapshot, InterfaceSnapshot, Snapshot, Start, VipSnapshot},
    effect::{Cluster as ClusterEffect, Effect, HeldVip, Line, Reading, Request},
    file::File as FileSource,
    input::{
        Changed, Entries, File, Input, Listened, Macs, Maps, Network, Outcome, Prepared, Readout, Stated,
        Unread, Unwritten,
    },
    shared::Shared,
    source::Source,
};
