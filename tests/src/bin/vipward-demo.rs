//! `cargo xtask demo`: tells the story of Vipward on LANs in network namespaces.

use std::process::ExitCode;

use clap::Parser;
use vipward_tests::{demo, interrupt};

/// Shows what Vipward does, on a LAN and in a cluster in network namespaces, measuring what it says; needs root.
///
/// It takes about a minute. Everything that it makes is removed at the end, also on Ctrl-C.
#[derive(Parser)]
#[command(name = "cargo xtask demo", max_term_width = 100)]
struct Args {
    /// Leave the LAN and the agent up, and print what to try by hand
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Remove what `--keep` left
    #[arg(long)]
    down: bool,
}

fn main() -> ExitCode {
    let Args { keep, down } = Args::parse();
    let done = interrupt::install().and_then(|()| if down { demo::down() } else { demo::run(keep) });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // As a shell has it for a process that SIGINT ended.
            if interrupt::happened() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}
