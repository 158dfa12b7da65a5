//! Runs all measurements of one host, or those with a text in their names.

use std::time::Instant;

use anyhow::{Context, Result};
use vipward_tests::kit::interrupt;

use super::{askers, cost, effort::Effort, flood, load, memory, pacing, rates, scrape, traffic};
use crate::report::{Options, Report, replies, write_files};

/// Measures one host, or the part with `only` in its name, prints the table to stdout, and
/// writes the files. Returns the number of missed bars.
pub(crate) fn run(options: &Options, only: &str) -> Result<usize> {
    let started = Instant::now();
    let effort = if options.quick { Effort::QUICK } else { Effort::WHOLE };
    let mut report = Report::begin(options)?;
    for (what, measure) in MEASUREMENTS.into_iter().filter(|(what, _)| what.contains(only)) {
        interrupt::check()?;
        eprintln!("[{:>3} s] {what}", started.elapsed().as_secs());
        measure(&effort, &mut report).with_context(|| format!("failed to measure {what}"))?;
    }
    let missed = report.finish(started, options, "bench.json")?;
    write_files(options, &[("replies.svg", replies(&report))])?;
    Ok(missed)
}

type Measure = fn(&Effort, &mut Report) -> Result<()>;

const MEASUREMENTS: [(&str, Measure); 9] = [
    ("what the program costs per frame", cost::measure),
    ("replies per second on a veth pair", rates::measure),
    ("replies per second under a flood of claims", flood::measure),
    ("other traffic through an interface with the program", traffic::measure),
    ("answers to distinct askers", askers::measure),
    ("kernel memory of the maps", memory::measure),
    ("loading, and the agent's memory", load::measure),
    ("the pace of announcements", pacing::measure),
    ("a scrape of /metrics", scrape::measure),
];
