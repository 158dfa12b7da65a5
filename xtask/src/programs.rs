//! Builds the agent and the programs that use it: the demo and the benchmark.

use std::path::PathBuf;

use anyhow::Result;

use crate::{process, workspace::Workspace};

pub(crate) const DEMO: &str = "vipward-demo";
pub(crate) const BENCH: &str = "vipward-bench";

/// Builds the agent and the demo without optimisation, and returns the directory of the programs.
///
/// The tests, the demo and the check of the CRD all need this build.
/// Cargo chooses the features of dependencies by the packages that
/// it builds: the same selection everywhere compiles nothing twice.
pub(crate) fn debug(workspace: &Workspace) -> Result<PathBuf> {
    process::step("building the agent and the demo (about two minutes when nothing is built yet)");
    build(workspace, &["-p", "vipward", "-p", DEMO])?;
    Ok(workspace.target.join("debug"))
}

/// Builds the agent and the benchmark with optimisation, and returns the directory of the programs.
pub(crate) fn release(workspace: &Workspace) -> Result<PathBuf> {
    process::step("building the agent and the benchmark, optimised (about five minutes at first)");
    build(workspace, &["--release", "-p", "vipward", "-p", BENCH])?;
    Ok(workspace.target.join("release"))
}

fn build(workspace: &Workspace, selection: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(["build", "--bins"]).args(selection);
    process::run(&mut cargo)
}
