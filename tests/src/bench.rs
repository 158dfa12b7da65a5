//! What Vipward costs, as ratios to bare XDP programs and to the kernel's own ARP, measured in one run.
//!
//! Baseline and subject take turns within each repetition, so that whatever else the machine does meets both;
//! what is reported is the median over the repetitions, of each figure and of each ratio.

mod askers;
mod cost;
pub mod failover;
mod flood;
pub mod kubernetes;
mod load;
mod machine;
mod memory;
mod pacing;
pub(crate) mod plot;
mod rates;
mod report;
mod scrape;
mod stage;
mod stats;
mod table;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use self::machine::Machine;
use self::report::Report;
use crate::interrupt;
use crate::tools::target_dir;

/// How much is measured, and where the results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Fewer repetitions and fewer sizes.
    pub quick: bool,
    /// For tables and plots; `target/bench` unless given.
    pub out: Option<PathBuf>,
    /// How many Services there are in a cluster, unless as many as usual.
    pub services: Option<u32>,
}

/// How often and how long things are measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Repetitions of a `TEST_RUN` and runs of the program in each.
    cost: (usize, u32),
    /// Repetitions of a generator's run, its frames towards us, and its frames towards the kernel's own ARP.
    rates: (usize, u32, u32),
    /// How often each configuration is loaded.
    loads: usize,
    /// Sizes of the configurations that are loaded.
    vips: &'static [u32],
    /// VIPs that are announced, and the configured frames a second.
    announced: (u32, u32),
}

impl Effort {
    const WHOLE: Self = Self {
        cost: (21, 1_000_000),
        rates: (9, 2_000_000, 500_000),
        loads: 3,
        vips: &[1, 4_096, 65_536],
        announced: (10_000, 5_000),
    };
    const QUICK: Self = Self {
        cost: (7, 200_000),
        rates: (3, 500_000, 200_000),
        loads: 1,
        vips: &[1, 65_536],
        announced: (1_000, 1_000),
    };
}

/// Measures everything, prints the table to stdout, and writes the files. Returns how many bars were missed.
pub fn run(options: &Options) -> Result<usize> {
    crate::require_root()?;
    let started = Instant::now();
    let effort = if options.quick { Effort::QUICK } else { Effort::WHOLE };
    let machine = Machine::read()?;
    println!("{machine}\n");

    let mut report = Report::new(machine, options.quick);
    for (what, measure) in MEASUREMENTS {
        interrupt::check()?;
        eprintln!("[{:>3} s] {what}", started.elapsed().as_secs());
        measure(&effort, &mut report).with_context(|| format!("failed to measure {what}"))?;
    }
    report.seconds = started.elapsed().as_secs();
    println!("{report}");

    let json = serde_json::to_string_pretty(&report)? + "\n";
    write_files(options, &[("bench.json", json), ("replies.svg", plot::replies(&report))])?;
    Ok(report.missed())
}

fn write_files(options: &Options, files: &[(&str, String)]) -> Result<()> {
    let out = options.out.clone().unwrap_or_else(|| target_dir().join("bench"));
    fs::create_dir_all(&out).with_context(|| format!("failed to make {}", out.display()))?;
    for (name, content) in files {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("failed to write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

type Measure = fn(&Effort, &mut Report) -> Result<()>;

const MEASUREMENTS: [(&str, Measure); 8] = [
    ("what the program costs per frame", cost::measure),
    ("replies per second on a veth pair", rates::measure),
    ("replies per second under a flood of claims", flood::measure),
    ("answers to distinct askers", askers::measure),
    ("kernel memory of the maps", memory::measure),
    ("loading, and the agent's memory", load::measure),
    ("the pace of announcements", pacing::measure),
    ("a scrape of /metrics", scrape::measure),
];
