//! `cargo xtask bench`: measures Vipward's cost relative
//! to bare XDP programs and to the kernel's ARP and neighbour discovery.
//! Baseline and subject alternate within each repetition, so that other load on the machine
//! affects both. The report has the median over the repetitions, of each figure and of each ratio.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`report`]: figures, their bars and tables, and the files that they are written to.
//! - [`stage`]: the programs with the baselines, their maps, and a cable to run them on.
//! - [`host`]: the cost, speed and memory of the program and the agent on one host.
//! - [`kubernetes`]: thousands of Services on three agents and an API server.
//! - [`peers`]: Vipward beside keepalived, ucarp, and the kernel alone.
//! - [`failover`]: the time from the holder's loss of power until another node has its VIPs.

mod failover;
mod host;
mod kubernetes;
mod peers;
mod report;
mod stage;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use vipward_tests::kit::interrupt;

use self::report::Options;

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
    /// Write the figures into docs/measured/bench.csv too, in place of the rows of the same groups
    #[arg(long, global = true)]
    record: bool,
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
    /// Ten thousand Services that request an address of a pool at once, beside a bare client, and then one
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
    let args = Args::parse();
    let no_bars = args.no_bars;
    match run(args) {
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

/// Returns how many bars were missed.
fn run(args: Args) -> Result<usize> {
    ensure!(
        !args.record || args.is_whole(),
        "--record needs a whole measurement: it goes with neither --quick, --services nor against"
    );
    let Args { quick, record, only, out, what, no_bars: _ } = args;
    let options = Options { quick, record, out };
    interrupt::install()?;
    match what {
        None => host::run(&options, only.as_deref().unwrap_or_default()),
        Some(What::Against { object }) => host::against::run(&options, &object),
        Some(What::Failover) => failover::run(&options, only.as_deref().unwrap_or_default()),
        Some(What::Stalls) => failover::stalls::run(&options),
        Some(What::Rest) => kubernetes::rest::run(&options),
        Some(What::Kubernetes { services }) => kubernetes::run(&options, services),
        Some(What::Pools { services }) => kubernetes::pools::run(&options, services),
        Some(What::Peers(args)) => peers::run(&options, &args),
    }
}

impl Args {
    /// Returns true if each group of figures that this run has is measured in full, and of this build.
    fn is_whole(&self) -> bool {
        let is_less = match &self.what {
            Some(What::Against { .. }) => true,
            Some(What::Kubernetes { services } | What::Pools { services }) => services.is_some(),
            None | Some(What::Failover | What::Stalls | What::Rest | What::Peers(_)) => false,
        };
        !self.quick && !is_less
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::Args;

    #[test]
    fn only_whole_measurements_are_recorded() {
        let table = [
            ("", true),
            ("--only scrape", true),
            ("failover --only many", true),
            ("kubernetes", true),
            ("peers crash", true),
            ("--quick", false),
            ("--quick rest", false),
            ("rest --quick", false),
            ("kubernetes --services 1000", false),
            ("pools --services 1000", false),
            ("against vipward.o", false),
        ];
        for (line, is_whole) in table {
            let words = ["bench", "--record"].into_iter().chain(line.split_whitespace());
            let args = Args::try_parse_from(words).expect("arguments");
            assert_eq!(args.is_whole(), is_whole, "{line}");
            assert!(args.record, "{line}");
        }
    }
}
