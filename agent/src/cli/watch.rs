//! `vipward watch`: the arguments.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::plane::PinArgs;

pub(super) const HELP: &str = "\
Keys: q or Ctrl-C leaves; arrows, Page Up, Page Down, Home and End scroll. / takes a filter: every word must be in \
the row (an address, an interface, a MAC, a role, or `trouble`). Enter keeps the filter, Escape removes it.

In a pipe: vipward watch --plain | grep conflict";

/// `vipward watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    #[command(flatten)]
    pub pins: PinArgs,
    /// Print what changes, line by line, and the rates once an interval.
    #[arg(long)]
    pub plain: bool,
    /// The time between two reads.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Duration,
    /// How lines look.
    #[arg(short, long, value_enum, default_value_t = LinesArg::Text, requires = "plain")]
    pub output: LinesArg,
}

/// The form of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LinesArg {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

fn interval(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < LEAST { Err("at least 100ms, since every read takes all maps".to_owned()) } else { Ok(time) }
}
