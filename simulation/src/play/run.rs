//! Plays one schedule.

use std::mem;

use crate::{
    record::{Facts, Violation},
    schedule::{Options, Schedule},
    world::{Happening, World},
};

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

/// Plays a schedule until the cluster is quiet, or a promise is broken.
pub fn run(schedule: &Schedule, options: Options) -> Report {
    let mut world = World::new(schedule, options);
    while let Some(happening) = world.advance() {
        if happening == Happening::Sweep {
            world.sweep();
        }
        if mem::take(&mut world.stirred) {
            world.check();
        }
        if world.record.violation.is_some() || world.record.is_done() {
            break;
        }
    }
    let record = world.record;
    Report { violation: record.violation, facts: record.facts, trace: record.trace.into_lines() }
}
