//! `vipward-simulate`: plays schedules, and shows the shortest part that breaks a promise.
#![forbid(unsafe_code)]

use std::{
    io::{self, IsTerminal as _, Write as _},
    num::NonZeroUsize,
    path::PathBuf,
    process::ExitCode,
    thread,
};

use anyhow::{Context as _, Result};
use clap::Parser;
use vipward_simulation::{
    Among, Options, Schedule,
    campaign::{Campaign, Outcome, Progress},
    run, shrink,
};

/// Plays random schedules of crashes, pauses, partitions and the like against the ownership engine.
#[derive(Parser)]
#[command(name = "vipward-simulate")]
struct Args {
    /// Number of schedules
    #[arg(long, default_value_t = 20_000, conflicts_with_all = ["trace", "schedule"])]
    seeds: u64,
    /// Seed of the first schedule
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of threads; the result is the same (default: one per processor)
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Number of failures to show with their traces
    #[arg(long, default_value_t = 1)]
    show: usize,
    /// Play the one schedule of `--seed` and print its trace
    #[arg(long)]
    trace: bool,
    /// Do not shorten failing schedules
    #[arg(long)]
    whole: bool,
    /// Play the schedule in this file (JSON, the first line) and print its trace
    #[arg(long)]
    schedule: Option<PathBuf>,
}

fn main() -> ExitCode {
    match simulate(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn simulate(args: &Args) -> Result<bool> {
    if let Some(path) = &args.schedule {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        let line = text.lines().next().unwrap_or_default();
        let schedule =
            serde_json::from_str(line).with_context(|| format!("{} has no schedule", path.display()))?;
        return show(&schedule);
    }
    if args.trace {
        return show(&Schedule::generate(args.seed));
    }
    let threads = args.threads.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let campaign = Campaign { first: args.seed, seeds: args.seeds, threads, options: Options::default() };
    let outcome = campaign.play(|progress| print_progress(progress, args.seeds));
    conclude(args, &outcome)
}

fn print_progress(progress: Progress, seeds: u64) {
    let Progress { played, failed, elapsed } = progress;
    let line = format!("{played} of {seeds} schedules, {failed} failed, {} s", elapsed.as_secs());
    if io::stderr().is_terminal() {
        eprint!("\r{line}");
    } else {
        eprintln!("{line}");
    }
}

/// Prints the result of a campaign. Returns whether all is well.
fn conclude(args: &Args, outcome: &Outcome) -> Result<bool> {
    if io::stderr().is_terminal() {
        eprintln!();
    }
    for (seed, _) in outcome.failures.iter().take(args.show) {
        let whole = Schedule::generate(*seed);
        let schedule = if args.whole { whole.clone() } else { shrink(&whole, Options::default()) };
        println!("seed {seed}: {} of {} disturbances are enough", schedule.len(), whole.len());
        show(&schedule)?;
        println!("the whole schedule: cargo xtask simulate --trace --seed {seed}\n");
    }
    for (seed, violation) in outcome.failures.iter().take(2_000) {
        println!("seed {seed}: {violation}");
    }
    let tally = &outcome.tally;
    for (what, seen, of, among) in tally.shares() {
        let among = match among {
            Among::Ordinary => "schedules without a controller",
            Among::Host => "schedules with such a host",
            Among::Filter => "schedules with a filter",
            Among::Wire => "schedules with wire failover",
            Among::Controller => "schedules with a controller",
        };
        println!("{seen} of {of} {among} had {what}");
    }
    println!("{} VIPs were held again soon after a crash", tally.crashes);
    println!(
        "{} VIPs were guarded during planned changes, {} were dark and answered again in time",
        tally.guarded, tally.brightened
    );
    let rare = if tally.runs >= 1_000 { tally.too_rare() } else { Vec::new() };
    for what in &rare {
        println!("too rare: less than a tenth of the schedules had {what}");
    }
    println!("{} schedules, {} failed", tally.runs, outcome.failures.len());
    io::stdout().flush().context("failed to write to stdout")?;
    Ok(outcome.failures.is_empty() && rare.is_empty())
}

/// Plays one schedule and prints its trace. Returns whether it kept all promises.
fn show(schedule: &Schedule) -> Result<bool> {
    let report = run(schedule, Options { trace: true, ..Options::default() });
    for line in &report.trace {
        println!("{line}");
    }
    println!("to play it again: cargo xtask simulate --schedule FILE, with this line in FILE:");
    println!("{}", serde_json::to_string(schedule).context("failed to write the schedule as JSON")?);
    if let Some(violation) = &report.violation {
        println!("{violation}");
        println!("to keep it when it is mended: that line in simulation/schedules.txt, below this one:");
        println!("# {violation}");
    }
    Ok(report.violation.is_none())
}
