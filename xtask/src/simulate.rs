//! `simulate`: plays random schedules against the ownership engine.

use std::{ffi::OsString, process::Command};

use anyhow::Result;

use crate::{
    process::{self, Stopwatch},
    test_run::Step,
    workspace::Workspace,
};

/// The simulator, optimised.
pub(crate) const SCOPE: &[&str] = &["--profile=simulation", "-p", "vipward-simulation"];
/// How many schedules are part of every test run.
const SEEDS: &str = "20000";

/// Passes `args` on to the simulator.
pub(crate) fn run(workspace: &Workspace, args: &[OsString]) -> Result<()> {
    process::run(build(workspace)?.args(args))
}

/// Plays the schedules that every test run does, when they are meant by `filters`.
pub(crate) fn test(workspace: &Workspace, filters: &[String]) -> Result<Option<Step>> {
    const NAME: &str = "simulation";
    if !filters.is_empty() && !filters.iter().any(|filter| NAME.contains(filter.as_str())) {
        return Ok(None);
    }
    let mut simulator = build(workspace)?;
    process::step(&format!("playing {SEEDS} schedules"));
    let watch = Stopwatch::start();
    let passed = process::run(simulator.args(["--seeds", SEEDS]));
    if let Err(error) = &passed {
        eprintln!("the simulation found something: {error:#}");
    }
    Ok(Some(Step { name: NAME.to_owned(), passed: passed.is_ok(), seconds: watch.seconds() }))
}

/// The simulator, built.
fn build(workspace: &Workspace) -> Result<Command> {
    process::step("building the simulator");
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root);
    process::run(cargo.args(["build"]).args(SCOPE).args(["--bin", "vipward-simulate"]))?;
    Ok(Command::new(workspace.target.join("simulation/vipward-simulate")))
}
