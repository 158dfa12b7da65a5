//! Simulates clusters: ownership engines on a model API server and a model segment, in one thread
//! and without real time.
//!
//! A [`Schedule`] is a cluster and its disturbances. [`run`] plays it and checks the promises
//! whenever an answer may have changed. The same schedule gives the same run, byte for byte.
//! docs/SIMULATION.md describes the model.

mod api;
pub mod campaign;
mod check;
mod facts;
mod names;
mod node;
mod program;
mod record;
mod sabotage;
mod schedule;
mod shrink;
mod time;
mod trace;
mod wired;
mod world;

pub use self::{
    facts::{Facts, Tally},
    record::Violation,
    sabotage::{SABOTAGES, Sabotage},
    schedule::Schedule,
    shrink::shrink,
};

/// Options of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// The part to break on the simulator's side.
    pub sabotage: Option<Sabotage>,
    /// True to trace every step.
    pub trace: bool,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The first broken promise, if any.
    pub violation: Option<Violation>,
    /// Events of the run.
    pub facts: Facts,
    /// The trace, if it was wanted.
    pub trace: Vec<String>,
}

/// Plays a schedule.
pub fn run(schedule: &Schedule, options: Options) -> Report {
    let mut world = world::World::new(schedule, options);
    check::play(&mut world);
    Report { violation: world.violation, facts: world.facts, trace: world.trace.into_lines() }
}
