//! `cargo xtask bench`: measures Vipward's cost relative
//! to bare XDP programs and to the kernel's ARP and neighbour discovery.
//! Baseline and subject alternate within each repetition, so that other load on the machine
//! affects both. The report has the median over the repetitions, of each figure and of each ratio.

mod against;
mod askers;
mod cost;
mod failover;
mod flood;
mod kubernetes;
mod load;
mod machine;
mod memory;
mod pacing;
mod peers;
mod pings;
mod plot;
mod rates;
mod report;
mod rest;
mod scrape;
mod stage;
mod stalls;
mod stats;
mod table;
mod traffic;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use vipward_tests::tools::target_dir;
use vipward_tests::{interrupt, require_root};

use self::load::Load;
use self::machine::Machine;
use self::report::Report;

/// Measures speed and memory on this machine, in a few minutes; needs root.
/// It works in its own network namespaces and removes them at the
/// end, also on Ctrl-C. The exit code is 1 if a bar is missed.
#[derive(Parser)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
struct Args {
    /// Measure less; the figures vary more
    #[arg(long, global = true)]
    quick: bool,
    /// Exit with 0 even when a bar is missed
    #[arg(long, global = true)]
    no_bars: bool,
    /// Measure only what has this in its name, as stderr shows it
    #[arg(long, value_name = "TEXT", global = true)]
    only: Option<String>,
    /// Directory for tables and plots [default: target/bench]
    #[arg(long, value_name = "DIR", global = true)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

/// A benchmark that is measured alone.
#[derive(Subcommand)]
enum What {
    /// The cost of the program for frames that are neither ARP nor neighbour discovery, and its
    /// answers a second, against the program of another build's `target/bpf/vipward.o`
    Against {
        /// The other object
        object: PathBuf,
    },
    /// Take the power from the holder three hundred times, and measure the time until another node
    /// answers and receives the client's datagrams, beside the Lease alone and keepalived; takes about
    /// half an hour
    Failover,
    /// Let the holder of a cluster stall for 50 to 600 ms, and count the moves that wire failover makes
    /// of that; takes about twenty minutes
    Stalls,
    /// The CPU time of agents at rest, standalone and in clusters, with up to 10,000 VIPs; takes
    /// about twelve minutes
    Rest,
    /// Ten thousand Services on three agents: starts, changes, memory, calm, and the death of a
    /// node
    Kubernetes {
        /// Number of Services
        #[arg(long)]
        services: Option<u32>,
    },
    /// Ten thousand Services that ask a pool for an address at once, beside a bare client, and then one
    /// after the other; the memory of the controller
    Pools {
        /// Number of Services
        #[arg(long)]
        services: Option<u32>,
    },
    /// Vipward beside keepalived, ucarp and the kernel: crash, move, kill, flood, askers and forged
    /// claims; takes about thirteen minutes
    ///
    /// `cargo xtask setup` gets keepalived and ucarp. A system that is missing is skipped.
    Peers(peers::Args),
}

fn main() -> ExitCode {
    let Args { quick, no_bars, only, out, what } = Args::parse();
    let options = Options { quick, out };
    let measured = interrupt::install().and_then(|()| match what {
        None => measure_host(&options, only.as_deref().unwrap_or_default()),
        Some(What::Against { object }) => against::run(&options, &object),
        Some(What::Failover) => failover::run(&options, only.as_deref().unwrap_or_default()),
        Some(What::Stalls) => stalls::run(&options),
        Some(What::Rest) => rest::run(&options),
        Some(What::Kubernetes { services }) => kubernetes::run(&options, services),
        Some(What::Pools { services }) => kubernetes::pools::run(&options, services),
        Some(What::Peers(args)) => peers::run(&options, &args),
    });
    match measured {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) if no_bars => ExitCode::SUCCESS,
        Ok(missed) => {
            eprintln!("{missed} bars were missed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Options of every benchmark.
#[derive(Clone, Debug)]
struct Options {
    /// True to measure fewer repetitions and sizes.
    quick: bool,
    /// Directory for tables and plots, unless `target/bench`.
    out: Option<PathBuf>,
}

/// Repetitions and sizes.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Repetitions of a `TEST_RUN` and runs of the program in each.
    cost: (usize, u32),
    /// Repetitions of a generator's run, its frames to Vipward, and its frames to the kernel's ARP.
    rates: (usize, u32, u32),
    /// Repetitions of other traffic, datagrams of each, and the duration of each stream.
    traffic: (usize, u32, Duration),
    /// Repetitions of loading each configuration.
    loads: usize,
    /// Sizes of these configurations.
    vips: &'static [Load],
    /// Announced VIPs, and configured frames per second.
    announced: (u32, u32),
}

impl Effort {
    const WHOLE: Self = Self {
        cost: (21, 1_000_000),
        rates: (9, 2_000_000, 500_000),
        traffic: (9, 300_000, Duration::from_millis(700)),
        loads: 3,
        vips: &[
            Load { v4: 1, v6: 0 },
            Load { v4: 4_096, v6: 0 },
            Load { v4: 65_536, v6: 0 },
            Load { v4: 32_768, v6: 32_768 },
            Load { v4: 0, v6: 65_536 },
        ],
        announced: (10_000, 5_000),
    };
    const QUICK: Self = Self {
        cost: (7, 200_000),
        rates: (3, 500_000, 200_000),
        traffic: (3, 100_000, Duration::from_millis(200)),
        loads: 1,
        vips: &[Load { v4: 1, v6: 0 }, Load { v4: 65_536, v6: 0 }, Load { v4: 32_768, v6: 32_768 }],
        announced: (1_000, 1_000),
    };
}

/// Measures one host, or the part with `only` in its name, prints the table to stdout, and
/// writes the files. Returns the number of missed bars.
fn measure_host(options: &Options, only: &str) -> Result<usize> {
    require_root()?;
    let started = Instant::now();
    let effort = if options.quick { Effort::QUICK } else { Effort::WHOLE };
    let machine = Machine::read()?;
    println!("{machine}\n");

    let mut report = Report::new(machine, options.quick);
    for (what, measure) in MEASUREMENTS.into_iter().filter(|(what, _)| what.contains(only)) {
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
