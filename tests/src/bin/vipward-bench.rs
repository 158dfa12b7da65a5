//! `cargo xtask bench`: measures Vipward against bare XDP programs and the kernel's own ARP.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use vipward_tests::{bench, interrupt};

/// Measures speed and memory on this machine, in a few minutes; needs root.
///
/// Everything happens in network namespaces of its own and is removed at the end, also on Ctrl-C. The exit code is 1
/// when a bar is missed.
#[derive(Parser)]
#[command(name = "cargo xtask bench", max_term_width = 100)]
struct Args {
    /// What is measured
    #[arg(value_enum, default_value_t = Subject::DataPlane)]
    subject: Subject,
    /// Measure less: half a minute to a minute, and figures that vary more
    #[arg(long)]
    quick: bool,
    /// Exit with 0 even when a bar is missed
    #[arg(long)]
    no_bars: bool,
    /// Where to write the results [default: target/bench]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// How many Services there are, for `kubernetes` [default: 10000, or 500 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=50_000))]
    services: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// The program against bare XDP programs and the kernel's own ARP, loading, and announcing
    DataPlane,
    /// Three agents and their API server with thousands of Services
    Kubernetes,
}

fn main() -> ExitCode {
    let Args { subject, quick, no_bars, out, services } = Args::parse();
    let measure = match subject {
        Subject::DataPlane => bench::run,
        Subject::Kubernetes => bench::kubernetes::run,
    };
    let measured = interrupt::install().and_then(|()| measure(&bench::Options { quick, out, services }));
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
