//! Loads every program of the objects, and compares what the verifier processed with a budget.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use aya::programs::{Program, ProgramError};
use aya::{Ebpf, EbpfLoader};
use nix::sys::utsname::uname;

use crate::oracle::kernel::object_path;

/// Counts of the day, a line each: kernel, object, program, instructions.
const COUNTS: &str = include_str!("../../verifier.txt");

/// A program of an object.
pub type Named = (String, String);

/// Instructions that the verifier processed, for each program.
pub type Counts = BTreeMap<Named, u32>;

/// Returns the running kernel's version with its first two numbers, and the architecture unless
/// that is x86-64: `6.1` or `6.1-aarch64`.
pub fn kernel() -> Result<String> {
    let uname = uname().context("failed to read the kernel's version")?;
    let release = uname.release().to_string_lossy().into_owned();
    let numbers: Vec<_> = release.splitn(3, '.').take(2).collect();
    let architecture = uname.machine().to_string_lossy();
    Ok(if architecture == "x86_64" {
        numbers.join(".")
    } else {
        format!("{}-{architecture}", numbers.join("."))
    })
}

/// Loads each program of each object, and returns the counts of the verifier.
pub fn load_all() -> Result<Counts> {
    let mut counts = Counts::new();
    for path in objects()? {
        let object = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut ebpf = load(&path).with_context(|| format!("failed to read {}", path.display()))?;
        for (name, program) in ebpf.programs_mut() {
            let count = verify(program).with_context(|| format!("{object}: program {name}"))?;
            counts.insert((object.clone(), name.to_owned()), count);
        }
    }
    ensure!(!counts.is_empty(), "there is no object beside {}", object_path().display());
    Ok(counts)
}

/// Fails with each program that is over its budget, a tenth above the count in the list. A kernel
/// that is not in the list has no budgets; a program that is not in the list of a kernel fails.
pub fn check(kernel: &str, counts: &Counts) -> Result<()> {
    check_against(COUNTS, kernel, counts)
}

fn check_against(list: &str, kernel: &str, counts: &Counts) -> Result<()> {
    let listed = parse(list, kernel)?;
    if listed.is_empty() {
        return Ok(());
    }
    let mut faults = Vec::new();
    for ((object, program), count) in counts {
        match listed.get(&(object.clone(), program.clone())) {
            None => faults.push(format!("tests/verifier.txt lacks `{kernel} {object} {program} {count}`")),
            Some(then) if *count > then + then / 10 => {
                faults.push(format!("{object} {program}: {count}, more than a tenth above {then}"));
            }
            Some(_) => {}
        }
    }
    let gone = listed.keys().filter(|named| !counts.contains_key(*named));
    faults.extend(gone.map(|(object, program)| {
        format!("tests/verifier.txt has `{kernel} {object} {program}`, which is not built any more")
    }));
    if faults.is_empty() {
        return Ok(());
    }
    bail!("kernel {kernel}, instructions that the verifier processed:\n  {}", faults.join("\n  "))
}

fn parse(list: &str, kernel: &str) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [listed, object, program, count] = words[..] else { bail!("no count: {line}") };
        if listed == kernel {
            let count = count.parse().with_context(|| format!("no number: {line}"))?;
            counts.insert((object.to_owned(), program.to_owned()), count);
        }
    }
    Ok(counts)
}

/// Returns the objects that `cargo xtask build-ebpf` has built, by name.
fn objects() -> Result<Vec<PathBuf>> {
    let object = object_path();
    let dir = object.parent().unwrap_or(Path::new("."));
    let entries = fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "o"));
    paths.sort();
    Ok(paths)
}

fn load(path: &Path) -> Result<Ebpf> {
    // With log lines, as with the agent's `--ebpf-log`, the verifier has the most to process.
    Ok(EbpfLoader::new().load_file(path)?)
}

/// Loads a program and returns the count of the verifier.
fn verify(program: &mut Program) -> Result<u32> {
    let info = match program {
        Program::Xdp(program) => program.load().and_then(|()| program.info()),
        Program::SchedClassifier(program) => program.load().and_then(|()| program.info()),
        other => bail!("programs of type {:?} are not loaded here", other.prog_type()),
    };
    let info = info.map_err(named)?;
    info.verified_instruction_count().context("the kernel is older than 5.16 and does not count")
}

/// Returns the error with the end of the verifier's log, where the reason is.
fn named(error: ProgramError) -> anyhow::Error {
    anyhow::Error::new(error).context("the verifier refused it")
}
