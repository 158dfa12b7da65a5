//! Builds the agent and the programs that use it: the demo and the benchmark.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{process, workspace::Workspace};

const AGENT: &str = "vipward";
pub(crate) const DEMO: &str = "vipward-demo";
pub(crate) const BENCH: &str = "vipward-bench";

/// Feature of the invented next version.
pub(crate) const NEXT: &str = "vipward/next-layout";
/// Flag of rustc that links the C library statically.
pub(crate) const STATIC: &str = "-C target-feature=+crt-static";

/// Builds the agent and the agent of the invented next version, and returns both. The next one
/// comes first, because cargo puts both in one place.
pub(crate) fn versions(workspace: &Workspace) -> Result<(PathBuf, PathBuf)> {
    process::step("building the agent of an invented next version");
    let (debug, directory) = (workspace.target.join("debug"), workspace.target.join("next"));
    let next = directory.join(AGENT);
    let built = build(workspace, &["--bin", AGENT, "-p", AGENT, "-p", DEMO, "--features", NEXT])
        .and_then(|()| copy(&debug.join(AGENT), &directory, &next));
    // Even after a failure, no other agent than this version's stays there.
    let debug = self::debug(workspace)?;
    built?;
    Ok((debug.join(AGENT), next))
}

fn copy(from: &Path, directory: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(directory)
        .and_then(|()| fs::copy(from, to))
        .map(drop)
        .with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))
}

/// Builds the agent and the demo without optimisation, and returns the directory of the programs.
///
/// The tests, the demo and the check of the CRD all need this build.
/// Cargo chooses the features of dependencies by the packages that
/// it builds: the same selection everywhere compiles nothing twice.
pub(crate) fn debug(workspace: &Workspace) -> Result<PathBuf> {
    process::step("building the agent and the demo (about two minutes when nothing is built yet)");
    build(workspace, &["--bins", "-p", AGENT, "-p", DEMO])?;
    Ok(workspace.target.join("debug"))
}

/// Builds the agent and the benchmark with optimisation, and returns the directory of the programs.
pub(crate) fn release(workspace: &Workspace) -> Result<PathBuf> {
    process::step("building the agent and the benchmark, optimised (about ten minutes at first)");
    build(workspace, &["--bins", "--release", "-p", AGENT, "-p", BENCH])?;
    Ok(workspace.target.join("release"))
}

fn build(workspace: &Workspace, selection: &[&str]) -> Result<()> {
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).arg("build").args(selection);
    process::run(&mut cargo)
}
