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
//! - `record`: what a run's promises are checked against, what it is worth, and its trace.
//! - `world`: a run as it goes: its state, its queue, and what agents, requests and frames do.
//! - `people`: what people and the cluster do: disturbances, edits, marks, hosts, strangers.
//! - `check`: the promises of docs/internals/simulation.md, checked whenever an answer may have changed.
//! - `play`: one schedule or many played, and the part of one found that breaks a promise.

#![forbid(unsafe_code)]

mod api;
mod check;
mod machine;
mod people;
mod play;
mod record;
mod schedule;
mod world;

pub use self::{
    play::{Report, campaign, run, shrink},
    record::{Among, Facts, Tally, Violation},
    schedule::{Omitted, Options, Sabotage, Schedule},
};
