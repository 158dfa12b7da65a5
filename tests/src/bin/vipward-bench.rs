//! `cargo xtask bench`: measures Vipward against bare XDP programs and the kernel's own ARP.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use vipward_tests::{bench, interrupt};

/// Measures speed and memory on this machine, in a few minutes; needs root.
///
/// Everything happens in network namespaces of its own and is removed at the end, also on Ctrl-C. The exit code is 1
/// when a bar is missed.
#[derive(Parser)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
struct Args {
    /// Measure less, and figures that vary more
    #[arg(long, global = true)]
    quick: bool,
    /// Exit with 0 even when a bar is missed
    #[arg(long, global = true)]
    no_bars: bool,
    /// Where to write tables and plots [default: target/bench]
    #[arg(long, value_name = "DIR", global = true)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    what: Option<What>,
}

/// Something else than the data plane and the agent of one node.
#[derive(Subcommand)]
enum What {
    /// Kill the agent that holds a VIP fifty times, and measure how long it is until another node has the client's
    /// datagrams; takes about eight minutes
    Failover,
}

fn main() -> ExitCode {
    let Args { quick, no_bars, out, what } = Args::parse();
    let options = bench::Options { quick, out };
    let measured = interrupt::install().and_then(|()| match what {
        None => bench::run(&options),
        Some(What::Failover) => bench::failover::run(&options),
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
