//! `cargo xtask bench`: measures Vipward against bare XDP programs and the kernel's own ARP.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use vipward_tests::{bench, interrupt};

/// Measures speed and memory on this machine, in about two minutes; needs root.
///
/// Everything happens in network namespaces of its own and is removed at the end, also on Ctrl-C. The exit code is 1
/// when a bar is missed.
#[derive(Parser)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
struct Args {
    /// Measure less: half a minute, and figures that vary more
    #[arg(long)]
    quick: bool,
    /// Exit with 0 even when a bar is missed
    #[arg(long)]
    no_bars: bool,
    /// Where to write bench.json and replies.svg [default: target/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Args { quick, no_bars, out } = Args::parse();
    let measured = interrupt::install().and_then(|()| bench::run(&bench::Options { quick, out }));
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
