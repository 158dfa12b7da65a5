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

use anyhow::{Context, Result};
use clap::Parser;
use vipward_tests::kit::{interrupt, require_root};

use self::left_up::LanLeftUp;
use self::narrator::Narrator;
use self::stage::Stage;

/// Shows Vipward on a LAN and in a cluster, in network namespaces; needs root.
///
/// It measures for about a minute, then prints the result and the story. It removes everything at the
/// end, also on Ctrl-C. The program is optimised; the agent is a debug build.
#[derive(Parser)]
#[command(name = "cargo xtask demo", max_term_width = 100)]
struct Args {
    /// Run a part in half a minute: a killed agent, a crowd of askers, a silent rival, a node without
    /// power, a planned move
    #[arg(long, conflicts_with = "down")]
    short: bool,
    /// Leave the LAN and the agent up, and print commands to try
    #[arg(long, conflicts_with = "down")]
    keep: bool,
    /// Remove the LAN that `--keep` left
    #[arg(long)]
    down: bool,
}

fn main() -> ExitCode {
    let Args { short, keep, down } = Args::parse();
    let done = interrupt::install().and_then(|()| if down { remove() } else { show(short, keep) });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // Like a shell's status for a process that SIGINT ended.
            if interrupt::happened() { ExitCode::from(130) } else { ExitCode::FAILURE }
        }
    }
}

/// Runs the scenes, prints the result and then the story, and removes everything. With `keep` the LAN and
/// its agent stay up.
fn show(short: bool, keep: bool) -> Result<()> {
    require_root()?;
    left_up::ensure_none()?;
    let narrator = Narrator::new();
    println!("Vipward beside an ordinary kernel, measured on this machine:\n{}.", about(short));
    let done = Stage::new(keep).and_then(|mut stage| {
        let rows = if short { scenes::run_short } else { scenes::run }(&narrator, &mut stage)?;
        Ok((stage, rows))
    });
    if done.is_err() {
        narrator.tell_story();
    }
    // An interruption comes first: system calls that it interrupts fail too.
    interrupt::check()?;
    let (stage, rows) = done?;
    narrator.tell(&rows);
    // Commands to try have the paths themselves.
    let narrator = Narrator::new();
    if keep {
        let lan = stage.keep().context("failed to leave the LAN up")?;
        commands::print(&lan, &narrator);
    } else {
        drop(stage);
        narrator.text("");
        narrator.text("Everything is removed again. To look around yourself: cargo xtask demo --keep");
    }
    narrator.tell_story();
    Ok(())
}

/// Returns what is shown.
const fn about(short: bool) -> &'static str {
    if short {
        "a killed agent, a crowd, a silent rival, a node without power, a planned move (half a minute)"
    } else {
        "claims, kills, crowds, conflicts, a node without power, a planned move (a minute)"
    }
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
    narrator.tell_story();
    Ok(())
}
