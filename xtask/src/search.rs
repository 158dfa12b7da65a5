//! `search`: looks for faults with random inputs, for a limited time.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::{
    fuzz, process, root,
    setup::{self, Need},
    simulate, test_run,
    workspace::Workspace,
};

/// Name of the unit tests and fixtures.
const TESTS: &str = "tests";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Minutes to search, without the time to build
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    minutes: u32,
    /// Seed of the simulation, the tests and libFuzzer [default: another one each time]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seed: Option<u32>,
    /// Only fuzz targets whose name contains one of these, `simulation`, or `tests` (unit tests and fixtures)
    filters: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Part {
    Fuzz(String),
    Simulation,
    Tests,
}

impl Part {
    fn name(&self) -> &str {
        match self {
            Self::Fuzz(target) => target,
            Self::Simulation => simulate::NAME,
            Self::Tests => TESTS,
        }
    }
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let parts = parts(fuzz::targets(workspace)?, &args.filters);
    ensure!(!parts.is_empty(), "there is no part whose name contains {}", args.filters.join(" or "));
    root::check()?;
    setup::ensure(workspace, &[Need::Build, Need::Test])?;
    let seed = args.seed.unwrap_or_else(|| fastrand::u32(1..));
    let time = share(args.minutes, parts.len());
    process::step(&format!("searching with --seed {seed}, {} s for each part", time.as_secs()));
    let mut found = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        process::step(&format!(
            "part {} of {}: {}, {} found so far",
            number + 1,
            parts.len(),
            part.name(),
            found.len()
        ));
        if let Err(error) = search(workspace, part, time, seed, &mut found) {
            found.push(format!("{} ended early: {error:#}", part.name()));
        }
    }
    for what in &found {
        println!("found: {what}");
    }
    println!("searched with --seed {seed}, {} found", found.len());
    ensure!(found.is_empty(), "the search found {} faults", found.len());
    Ok(())
}

/// Searches one part. Adds a line for each find: what it is, and how to have it again.
fn search(
    workspace: &Workspace,
    part: &Part,
    time: Duration,
    seed: u32,
    found: &mut Vec<String>,
) -> Result<()> {
    match part {
        Part::Fuzz(target) => {
            for path in fuzz::search(workspace, target, time, seed)? {
                let path = path.display();
                found.push(format!("{target} fails with {path} (cargo xtask test {target})"));
            }
            Ok(())
        }
        Part::Simulation => simulate::search(workspace, time, seed, found),
        Part::Tests => test_run::search(workspace, time, seed, found),
    }
}

/// Returns the parts whose name contains one of `filters`; without filters, all of them.
fn parts(targets: Vec<String>, filters: &[String]) -> Vec<Part> {
    let mut parts: Vec<_> = targets.into_iter().map(Part::Fuzz).collect();
    parts.extend([Part::Simulation, Part::Tests]);
    parts.retain(|part| filters.is_empty() || filters.iter().any(|filter| part.name().contains(filter)));
    parts
}

/// Returns the time of one of `parts` parts.
fn share(minutes: u32, parts: usize) -> Duration {
    let parts = u32::try_from(parts).expect("invariant: there are few parts");
    Duration::from_secs(u64::from(minutes) * 60) / parts
}

#[cfg(test)]
mod tests;
