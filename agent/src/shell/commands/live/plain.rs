//! Lines for a pipe: the changes and the rates, once an interval.

use std::{
    io::{self, Write},
    time::SystemTime,
};

use schemars::JsonSchema;
use serde::Serialize;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{MissedTickBehavior, interval},
};
use vipward_core::diagnosis::{
    live::{Change, changes},
    pinned::Status,
};

use super::watching::{Lines, LiveError, Watching};
use crate::shell::logging::errors::chain;

/// A line of `vipward watch --plain -o json`. Its keys depend on its `event`; docs/commands.md
/// says when each event comes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Line<'a> {
    /// The machine's time (RFC 3339, with milliseconds).
    pub(crate) time: String,
    #[serde(flatten)]
    pub(crate) change: &'a Change,
}

/// Prints lines until a signal ends it or the reader closes the pipe.
pub async fn plain(watching: &Watching, lines: Lines) -> Result<(), LiveError> {
    let mut ticks = interval(watching.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut terminate = signal(SignalKind::terminate()).map_err(LiveError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(LiveError::Signals)?;
    let mut before: Option<Status> = None;
    let mut trouble = None;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
        }
        let printed = match watching.look().await {
            Ok(after) => {
                trouble = None;
                let changes = changes(before.as_ref(), &after);
                before = Some(after);
                changes.iter().try_for_each(|change| print(change, lines))
            }
            // At first there must be something to watch. Later, it may come back.
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

fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
