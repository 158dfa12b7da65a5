//! `cargo xtask demo`: shows Vipward on LANs in network namespaces.
#![forbid(unsafe_code)]

mod cluster;
mod commands;
mod findings;
mod left_up;
mod narrator;
mod scenes;
mod stage;
mod timeline;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use vipward_tests::kit::{interrupt, require_root};

use self::left_up::LanLeftUp;
use self::narrator::Narrator;
use self::stage::Stage;

/// Shows Vipward on a LAN and in a cluster, in network
/// namespaces, with measured figures; needs root.
/// It takes about a minute. It removes everything at the end, also on
/// Ctrl-C. The program is optimised; the agent is a debug build.
#[derive(Parser)]
#[command(name = "cargo xtask demo", max_term_width = 100)]
struct Args {
    /// Leave the LAN and the agent up, and print commands to try
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Remove the LAN that `--keep` left
    #[arg(long)]
    down: bool,
}

fn main() -> ExitCode {
    let Args { keep, down } = Args::parse();
    let done = interrupt::install().and_then(|()| if down { remove() } else { show(keep) });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // Like a shell's status for a process that SIGINT ended.
            if interrupt::happened() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// Runs the scenes and removes everything. With `keep` the LAN and its agent stay up.
fn show(keep: bool) -> Result<()> {
    require_root()?;
    left_up::ensure_none()?;
    let started = Instant::now();
    let narrator = Narrator::new();
    let notified = Stage::new(keep).and_then(|mut stage| {
        let findings = scenes::run(narrator, &mut stage)?;
        findings.show(narrator);
        Ok(stage)
    });
    // An interruption comes first: system calls that it interrupts fail too.
    interrupt::check()?;
    let stage = notified?;
    if keep {
        let lan = stage.keep().context("failed to leave the LAN up")?;
        commands::print(&lan, narrator);
    } else {
        drop(stage);
        narrator.text(&format!("Done in {} s; everything is removed again.", started.elapsed().as_secs()));
        narrator.text("To look around yourself: cargo xtask demo --keep");
    }
    Ok(())
}

/// Removes the LAN that `--keep` left.
fn remove() -> Result<()> {
    require_root()?;
    let narrator = Narrator::new();
    match LanLeftUp::read()? {
        Some(lan) => {
            lan.remove()?;
            narrator.text("The LAN, its agent and its pins are removed.");
        }
        None => narrator.text("No LAN was left up: there is nothing to remove."),
    }
    Ok(())
}
