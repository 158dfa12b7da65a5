//! Simulates clusters: agents and a controller on a model API server and a model segment, in one thread
//! and without real time.
//!
//! A [`Schedule`] is a cluster and its disturbances. [`run`] plays it and checks the promises
//! whenever an answer may have changed. The same schedule gives the same run, byte for byte.
//! docs/internals/simulation.md describes the model.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - `schedule`: the input of a run, a cluster with its disturbances, the names of all, and what is broken.
//! - `api`: the model API server, the objects in it, and what an agent gets of them.
//! - `machine`: a node and the network: clocks, interfaces, the pinned program, the agent's process.
//! - `record`: the facts that the checks compare with, the tally of what a run exercised, and its trace.
//! - `world`: a run as it goes: its state, its queue, and what agents, requests and frames do.
//! - `disturbances`: faults, edits by hand, marks of nodes, hosts on the segment, and Services of others.
//! - `check`: the promises of docs/internals/simulation.md, checked whenever an answer may have changed.
//! - `play`: plays one schedule or many, and shrinks one that breaks a promise.

#![forbid(unsafe_code)]

mod api;
mod check;
mod disturbances;
mod machine;
mod play;
mod record;
mod schedule;
mod world;

pub use self::{
    play::{Report, campaign, run, shrink},
    record::{Among, Facts, Tally, Violation},
    schedule::{Omitted, Options, Sabotage, Schedule},
};
