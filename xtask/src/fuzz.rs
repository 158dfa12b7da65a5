//! Runs each fuzz target for a limited time.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{
    process::{self, Stopwatch},
    workspace::Workspace,
};

/// Run time of each target.
const SECONDS: u32 = 10;

/// Result of one target.
pub(crate) struct Fuzzed {
    pub(crate) target: String,
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
}

/// Runs the targets in `fuzz/fuzz_targets` whose name contains one of `filters`; without filters,
/// all of them.
pub(crate) fn run(workspace: &Workspace, filters: &[String]) -> Result<Vec<Fuzzed>> {
    let dir = workspace.root.join("fuzz/fuzz_targets");
    if !dir.is_dir() {
        process::step("no fuzz run: there is no fuzz/fuzz_targets");
        return Ok(Vec::new());
    }
    let mut targets = targets(&dir)?;
    targets
        .retain(|target| filters.is_empty() || filters.iter().any(|filter| target.contains(filter.as_str())));
    targets.into_iter().map(|target| run_target(workspace, target)).collect()
}

fn targets(dir: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let sources = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn run_target(workspace: &Workspace, target: String) -> Result<Fuzzed> {
    process::step(&format!("fuzzing {target} for {SECONDS} s"));
    // Sanitizers are a nightly feature; RUSTC_BOOTSTRAP enables it in the stable compiler.
    let cargo = |verb: &str| {
        let mut command = process::cargo();
        command
            .current_dir(&workspace.root)
            .args(["fuzz", verb, "--dev", &target])
            .env("RUSTC_BOOTSTRAP", "1");
        command
    };
    process::run(&mut cargo("build"))?;
    // libFuzzer writes new inputs to the first directory and only reads the committed corpus.
    let found = workspace.target.join("fuzz").join(&target);
    std::fs::create_dir_all(&found).with_context(|| format!("failed to create {}", found.display()))?;
    let committed = Some(workspace.root.join("fuzz/corpus").join(&target)).filter(|dir| dir.is_dir());
    let watch = Stopwatch::start();
    let limit = format!("-max_total_time={SECONDS}");
    let options = ["--", &limit, "-print_final_stats=1", "-verbosity=0"];
    let passed = process::run(cargo("run").arg(found).args(committed).args(options));
    if let Err(error) = &passed {
        eprintln!("fuzzing {target} found something: {error:#}");
    }
    Ok(Fuzzed { target, passed: passed.is_ok(), seconds: watch.seconds() })
}
