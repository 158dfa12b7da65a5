//! Runs each fuzz target for a bounded time.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result};

use crate::{
    process::{self, Stopwatch},
    workspace::Workspace,
};

/// How long each target runs.
const SECONDS: u32 = 10;

/// What came of one target.
pub(crate) struct Fuzzed {
    pub(crate) target: String,
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
}

/// Runs the targets in `fuzz/fuzz_targets` whose name contains one of `filters` (all, when there are none).
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

fn targets(dir: &std::path::Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let sources = files.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<_> = sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn run_target(workspace: &Workspace, target: String) -> Result<Fuzzed> {
    process::step(&format!("fuzzing {target} for {SECONDS} s"));
    // Sanitizers are a nightly feature, which the stable compiler has under RUSTC_BOOTSTRAP.
    let cargo = |verb: &str| {
        let mut command: Command = process::cargo();
        command
            .current_dir(&workspace.root)
            .args(["fuzz", verb, "--dev", &target])
            .env("RUSTC_BOOTSTRAP", "1");
        command.env("VIPWARD_EBPF_OBJECT", workspace.bpf().join("vipward.o"));
        command
    };
    process::run(&mut cargo("build"))?;
    // libFuzzer adds what it finds to the first directory; the committed corpus is only read.
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
