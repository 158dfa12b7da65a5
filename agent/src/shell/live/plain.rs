//! Lines for a pipe: what changed, and the rates, once an interval.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use serde::Serialize;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

use super::{Lines, LiveError, Watching};
use crate::core::watch::{Change, Snapshot, changes};
use crate::shell::causes::chain;

/// A line for programs.
#[derive(Serialize)]
pub(in crate::shell) struct Line<'a> {
    pub(in crate::shell) time: String,
    #[serde(flatten)]
    pub(in crate::shell) change: &'a Change,
}

/// Prints until it is told to end, or nobody reads any more.
pub async fn plain(watching: &Watching, lines: Lines) -> Result<(), LiveError> {
    let mut ticks = interval(watching.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminate = signal(SignalKind::terminate()).map_err(LiveError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(LiveError::Signals)?;
    let mut before: Option<Snapshot> = None;
    let mut trouble = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        let printed = match watching.snapshot().await {
            Ok(after) => {
                trouble = None;
                let changes = changes(before.as_ref(), &after);
                before = Some(after);
                changes.iter().try_for_each(|change| print(change, lines))
            }
            // At first there must be something to watch; later it may come back.
            Err(error) if before.is_none() && trouble.is_none() => return Err(error.into()),
            Err(error) => {
                before = None;
                let error = chain(&error);
                let is_new = trouble.as_ref() != Some(&error);
                trouble = Some(error.clone());
                if is_new { print(&Change::Unread { error }, lines) } else { Ok(()) }
            }
        };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            printed => printed.map_err(LiveError::Print)?,
        }
    }
}

fn print(change: &Change, lines: Lines) -> io::Result<()> {
    let line = match lines {
        Lines::Text => format!("{} {change}\n", now()),
        Lines::Json => serde_json::to_string(&Line { time: now(), change })? + "\n",
    };
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of a line is for people, and nothing is decided by it"
)]
fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
