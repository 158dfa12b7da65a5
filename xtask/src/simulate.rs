//! `simulate`: runs random schedules against the ownership engine.

use std::{ffi::OsString, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use crate::{
    process::{self, Stopwatch},
    workspace::Workspace,
};

/// Cargo's arguments for the simulator with its own profile.
pub(crate) const SCOPE: &[&str] = &["--profile=simulation", "-p", "vipward-simulation"];
/// Name of the simulation in a test run.
pub(crate) const NAME: &str = "simulation";
/// Number of schedules in a test run, always the same ones.
const SEEDS: &str = "20000";
/// Number of schedules that a search plays at a time.
const AT_A_TIME: u64 = 2_000;
/// Exit code of the simulator if a promise was broken or something was too rare. An error and a panic have
/// others.
const BROKEN: i32 = 1;

/// Result of a test run's schedules.
pub(crate) struct Simulated {
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
}

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

/// Plays random schedules from `seed` on for a time. Adds what it finds to `found`; the simulator prints what
/// to add to `simulation/schedules.txt`.
pub(crate) fn search(
    workspace: &Workspace,
    time: Duration,
    seed: u32,
    found: &mut Vec<String>,
) -> Result<()> {
    let simulator = build(workspace)?;
    let watch = Stopwatch::start();
    // The schedules of a test run have the lowest seeds.
    let mut first = u64::from(seed) << 32;
    while watch.elapsed() < time {
        let mut command = Command::new(simulator.get_program());
        command.args(["--seeds", &AT_A_TIME.to_string(), "--seed", &first.to_string()]);
        let shown = process::command_line(&command);
        let status = command.status().with_context(|| format!("failed to start `{shown}`"))?;
        match status.code() {
            Some(0) => {}
            Some(BROKEN) => {
                found.push(format!("what `{shown}` prints, with lines for simulation/schedules.txt"));
            }
            _ => bail!("`{shown}` failed: {status}"),
        }
        first += AT_A_TIME;
    }
    Ok(())
}

/// Builds the simulator and returns the command that runs it.
fn build(workspace: &Workspace) -> Result<Command> {
    process::step("building the simulator");
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root);
    process::run(cargo.args(["build"]).args(SCOPE).args(["--bin", "vipward-simulate"]))?;
    Ok(Command::new(workspace.target.join("simulation/vipward-simulate")))
}
