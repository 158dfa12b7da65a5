//! Simulates clusters: N ownership engines on a model API server and a model segment, in one thread and in no real time.
//!
//! A [`Schedule`] is a cluster and what befalls it. [`run`] plays it and looks at what must hold whenever anything that
//! answers may have changed. The same schedule gives the same run, byte for byte. docs/SIMULATION.md has the model.

mod api;
pub mod campaign;
mod check;
mod facts;
mod names;
mod node;
mod program;
mod sabotage;
mod schedule;
mod shrink;
mod time;
mod trace;
mod world;

pub use self::{
    check::Violation,
    facts::{Facts, Tally},
    sabotage::{SABOTAGES, Sabotage},
    schedule::Schedule,
    shrink::shrink,
};

/// How a schedule is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// What is broken on the simulator's side.
    pub sabotage: Option<Sabotage>,
    /// Whether every step is written down.
    pub trace: bool,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// What was broken, if anything was.
    pub violation: Option<Violation>,
    /// What was seen.
    pub facts: Facts,
    /// What happened, line by line, if that was wanted.
    pub trace: Vec<String>,
}

/// Plays a schedule.
pub fn run(schedule: &Schedule, options: Options) -> Report {
    let mut world = world::World::new(schedule, options);
    world.run();
    Report { violation: world.violation, facts: world.facts, trace: world.trace.into_lines() }
}
