//! `simulate`: runs random schedules against the ownership engine.

use std::{ffi::OsString, process::Command};

use anyhow::Result;

use crate::{
    process::{self, Stopwatch},
    workspace::Workspace,
};

/// Cargo's arguments for the simulator with its own profile.
pub(crate) const SCOPE: &[&str] = &["--profile=simulation", "-p", "vipward-simulation"];
/// Name of the simulation in a test run.
pub(crate) const NAME: &str = "simulation";
/// Number of schedules in a test run.
const SEEDS: &str = "20000";

/// Result of a test run's schedules.
pub(crate) struct Simulated {
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
}

/// Runs the simulator with `args`.
pub(crate) fn run(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    process::run(build(workspace)?.args(args))
}

/// Runs the schedules of a test run, unless `filters` exclude them.
pub(crate) fn test(workspace: &Workspace, filters: &[String]) -> Result<Option<Simulated>> {
    if !filters.is_empty() && !filters.iter().any(|filter| NAME.contains(filter.as_str())) {
        return Ok(None);
    }
    let mut simulator = build(workspace)?;
    process::step(&format!("simulating {SEEDS} schedules"));
    let watch = Stopwatch::start();
    let passed = process::run(simulator.args(["--seeds", SEEDS]));
    if let Err(error) = &passed {
        eprintln!("the simulation found something: {error:#}");
    }
    Ok(Some(Simulated { passed: passed.is_ok(), seconds: watch.seconds() }))
}

/// Builds the simulator and returns the command that runs it.
fn build(workspace: &Workspace) -> Result<Command> {
    process::step("building the simulator");
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root);
    process::run(cargo.args(["build"]).args(SCOPE).args(["--bin", "vipward-simulate"]))?;
    Ok(Command::new(workspace.target.join("simulation/vipward-simulate")))
}
