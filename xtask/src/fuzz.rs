//! Runs the fuzz targets on inputs that are always the same, or on random ones for a limited time.

mod mutants;

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    process::{self, Stopwatch},
    workspace::Workspace,
};

/// Number of inputs of each target beside its corpus, in a test run.
const MUTANTS: usize = 5_000;
const SEED: u64 = 1;
/// Beginnings of the names that libFuzzer gives to inputs that fail.
const FAILING: [&str; 4] = ["crash-", "leak-", "oom-", "timeout-"];

pub(crate) struct Fuzzed {
    pub(crate) target: String,
    pub(crate) passed: bool,
    pub(crate) seconds: f64,
}

/// Runs the targets whose name contains one of `filters` on their corpora, and on inputs like those;
/// without filters, all of them. The inputs are the same on every day.
pub(crate) fn run(workspace: &Workspace, filters: &[String]) -> Result<Vec<Fuzzed>> {
    let mut targets = targets(workspace)?;
    targets
        .retain(|target| filters.is_empty() || filters.iter().any(|filter| target.contains(filter.as_str())));
    targets.into_iter().map(|target| run_target(workspace, target)).collect()
}

/// Returns the names of the targets in `fuzz/fuzz_targets`.
pub(crate) fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let sources = files(&workspace.root.join("fuzz/fuzz_targets"))?;
    let sources = sources.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    Ok(sources.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect())
}

/// Returns the entries of a directory, in the order of their names.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

fn run_target(workspace: &Workspace, target: String) -> Result<Fuzzed> {
    process::step(&format!("running {target} on its corpus and {MUTANTS} other inputs"));
    process::run(&mut cargo_fuzz(workspace, "build", &target))?;
    let corpus = corpus(workspace, &target);
    let committed = corpus.iter().map(|dir| files(dir)).collect::<Result<Vec<_>>>()?.concat();
    let read = |path: &PathBuf| fs::read(path).with_context(|| format!("failed to read {}", path.display()));
    let committed = committed.iter().map(read).collect::<Result<Vec<_>>>()?;
    let inputs = workspace.target.join("fuzz-fixed").join(&target);
    write(&inputs, &mutants::mutants(&committed, SEED, MUTANTS))?;
    let watch = Stopwatch::start();
    // Without further runs, libFuzzer makes no inputs of its own.
    let options = ["--", "-runs=0", "-print_final_stats=1", "-verbosity=0"];
    let passed = process::run(cargo_fuzz(workspace, "run", &target).arg(inputs).args(corpus).args(options));
    if let Err(error) = &passed {
        eprintln!("{target} fails: {error:#}");
    }
    Ok(Fuzzed { target, passed: passed.is_ok(), seconds: watch.seconds() })
}

/// Makes a directory that holds these inputs alone.
fn write(dir: &Path, inputs: &[Vec<u8>]) -> Result<()> {
    if dir.is_dir() {
        fs::remove_dir_all(dir).with_context(|| format!("failed to remove {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("failed to create {}", dir.display()))?;
    for (number, input) in inputs.iter().enumerate() {
        let path = dir.join(number.to_string());
        fs::write(&path, input).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Runs a target on random inputs for a time. Returns the inputs that fail, which it adds to the corpus.
pub(crate) fn search(workspace: &Workspace, target: &str, time: Duration, seed: u32) -> Result<Vec<PathBuf>> {
    process::run(&mut cargo_fuzz(workspace, "build", target))?;
    // libFuzzer writes new inputs to the first directory, and continues with them the next time.
    let found = workspace.target.join("fuzz").join(target);
    fs::create_dir_all(&found).with_context(|| format!("failed to create {}", found.display()))?;
    let begun = SystemTime::now();
    let options = [format!("-max_total_time={}", time.as_secs().max(1)), format!("-seed={seed}")];
    let mut command = cargo_fuzz(workspace, "run", target);
    command.arg(found).args(corpus(workspace, target)).arg("--").args(options);
    let Err(error) = process::run(command.args(["-print_final_stats=1", "-verbosity=0"])) else {
        return Ok(Vec::new());
    };
    let kept = keep(workspace, target, begun)?;
    ensure!(!kept.is_empty(), error.context("no input was found that fails"));
    Ok(kept)
}

/// Copies the inputs that have failed since `begun` to the corpus. Returns their new paths.
fn keep(workspace: &Workspace, target: &str, begun: SystemTime) -> Result<Vec<PathBuf>> {
    let artifacts = workspace.root.join("fuzz/artifacts").join(target);
    let corpus = workspace.root.join("fuzz/corpus").join(target);
    fs::create_dir_all(&corpus).with_context(|| format!("failed to create {}", corpus.display()))?;
    let mut kept = Vec::new();
    // libFuzzer makes the directory when an input fails.
    let paths = if artifacts.is_dir() { files(&artifacts)? } else { Vec::new() };
    for path in paths {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let is_new =
            fs::metadata(&path).and_then(|about| about.modified()).is_ok_and(|modified| modified >= begun);
        if is_new && FAILING.iter().any(|begin| name.starts_with(begin)) {
            let to = corpus.join(name);
            fs::copy(&path, &to).with_context(|| format!("failed to write {}", to.display()))?;
            kept.push(to);
        }
    }
    Ok(kept)
}

/// Returns the directory of a target's committed corpus, if it has one.
fn corpus(workspace: &Workspace, target: &str) -> Option<PathBuf> {
    Some(workspace.root.join("fuzz/corpus").join(target)).filter(|dir| dir.is_dir())
}

fn cargo_fuzz(workspace: &Workspace, verb: &str, target: &str) -> Command {
    let mut command = process::cargo();
    // Sanitizers are a nightly feature; RUSTC_BOOTSTRAP enables it in the stable compiler.
    command.current_dir(&workspace.root).args(["fuzz", verb, "--dev", target]).env("RUSTC_BOOTSTRAP", "1");
    command
}
