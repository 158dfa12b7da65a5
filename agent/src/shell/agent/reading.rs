//! The file of a standalone agent: when it is read, and whether it was refused.
//!
//! Neither its file system nor its size may delay the event loop. Threads read and parse it.

use std::{io, path::PathBuf, time::Duration};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tracing::{error, info};
use vipward_core::{
    agent::{File, Unread},
    config::Config,
    diagnosis::doctor::{FileReport, Refusal},
};

use super::{error::RunError, starting::parse_config};
use crate::shell::{
    kernel::{
        clock,
        file::{self, Cause, FileError, PATIENCE, Threads},
        file_watch::{FileWatch, FileWatchError},
    },
    logging::errors::chain,
};

/// The time until a file is read again that the system could not read.
const RETRY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;

pub(super) struct Reading {
    pub(super) path: PathBuf,
    watch: FileWatch,
    pub(super) stopped_by: Option<&'static str>,
    threads: Threads,
    /// The request that the next attempt serves.
    wanted: Option<Wanted>,
    /// The time at which the file is wanted again.
    retry: Option<Instant>,
    attempt: Option<Attempt>,
    /// The number of attempts that have begun.
    attempts: u64,
    answers: (mpsc::UnboundedSender<Answer>, mpsc::UnboundedReceiver<Answer>),
    /// Time of the last file without a fault.
    read_at: Instant,
    /// The same by the wall clock.
    read_at_unix_seconds: i64,
    refused: Option<Refused>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Wanted {
    reclaim: bool,
}

struct Attempt {
    reclaim: bool,
    /// The end of its time. None if the file was read: parsing it always ends.
    until: Option<Instant>,
}

/// News of the attempt with this number.
type Answer = (u64, News);

enum News {
    /// The file was read, and is being parsed.
    Read,
    Parsed(Result<Box<Config>, RunError>),
}

struct Refused {
    why: String,
    since: Instant,
}

/// The result of an attempt.
pub(super) struct Read {
    result: Result<Box<Config>, RunError>,
    reclaim: bool,
}

impl Reading {
    /// Begins to watch a file that was read just now.
    pub(super) fn start(path: PathBuf) -> Result<Self, FileWatchError> {
        let threads = Threads::default();
        Ok(Self {
            watch: FileWatch::start(&path, threads.clone())?,
            path,
            stopped_by: None,
            threads,
            wanted: None,
            retry: None,
            attempt: None,
            attempts: 0,
            answers: mpsc::unbounded_channel(),
            read_at: Instant::now(),
            read_at_unix_seconds: clock::unix_seconds(),
            refused: None,
        })
    }

    /// Has the file read soon. `reclaim` takes yielded VIPs back.
    pub(super) fn want(&mut self, reclaim: bool) {
        self.wanted.get_or_insert_default().reclaim |= reclaim;
    }

    /// Waits until the file was read, or could not be read in time. Safe to cancel.
    pub(super) async fn next(&mut self) -> Result<Read, FileWatchError> {
        loop {
            if self.attempt.is_none()
                && let Some(Wanted { reclaim }) = self.wanted.take()
                && let Err(error) = self.begin(reclaim)
            {
                return Ok(Read { result: Err(self.failed(error)), reclaim });
            }
            let until = self.attempt.as_ref().and_then(|attempt| attempt.until);
            let retry = self.retry;
            tokio::select! {
                changed = self.watch.changed() => {
                    changed?;
                    self.want(false);
                }
                Some((number, news)) = self.answers.1.recv() => {
                    if let Some(read) = self.on_news(number, news) {
                        return Ok(read);
                    }
                }
                () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                    self.retry = None;
                    self.want(false);
                }
                () = sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {
                    let reclaim = self.attempt.take().is_some_and(|attempt| attempt.reclaim);
                    return Ok(Read { result: Err(self.failed(FileError::TooSlow.into())), reclaim });
                }
            }
        }
    }

    /// Handles news of an attempt. Those of the newest count although its time is over: a file system
    /// that is slow once is slow each time.
    fn on_news(&mut self, number: u64, news: News) -> Option<Read> {
        if number != self.attempts {
            return None;
        }
        match news {
            News::Read => {
                if let Some(attempt) = &mut self.attempt {
                    attempt.until = None;
                }
                None
            }
            News::Parsed(result) => {
                let reclaim = self.attempt.take().is_some_and(|attempt| attempt.reclaim);
                Some(Read { result, reclaim })
            }
        }
    }

    fn begin(&mut self, reclaim: bool) -> io::Result<()> {
        self.retry = None;
        let (number, path, answers) = (self.attempts + 1, self.path.clone(), self.answers.0.clone());
        // The agent may have ended.
        let notify = move |news| drop(answers.send((number, news)));
        self.threads.run(move || {
            let read = file::read(&path);
            notify(News::Read);
            notify(News::Parsed(parse_config(&path, read).map(Box::new)));
        })?;
        self.attempts = number;
        self.attempt = Some(Attempt { reclaim, until: Some(Instant::now() + PATIENCE) });
        Ok(())
    }

    fn failed(&self, source: io::Error) -> RunError {
        RunError::ReadConfig { path: self.path.clone(), source }
    }

    /// Returns the input for the agent. A file that is refused is logged once.
    pub(super) fn on_read(&mut self, Read { result, reclaim }: Read) -> File {
        let config = match result {
            Ok(config) => {
                if let Some(Refused { why, .. }) = self.refused.take() {
                    info!(config = %self.path.display(), was = why, "the file is no longer refused");
                }
                (self.read_at, self.read_at_unix_seconds) = (Instant::now(), clock::unix_seconds());
                Ok(config)
            }
            Err(error) => {
                self.refuse(chain(&error), reclaim);
                Err(self.judge(&error))
            }
        };
        File { config, reclaim }
    }

    /// Returns what is known of a file that was not read, and has it read again if nothing else would.
    fn judge(&mut self, error: &RunError) -> Unread {
        let cause =
            if let RunError::ReadConfig { source, .. } = error { file::cause(source) } else { Cause::File };
        if matches!(cause, Cause::Gone | Cause::System) {
            self.retry = Some(Instant::now() + RETRY);
        }
        match cause {
            Cause::File | Cause::Gone => Unread::Faulty,
            Cause::System | Cause::Slow => Unread::Unknown,
        }
    }

    fn refuse(&mut self, why: String, reclaim: bool) {
        let before = self.refused.as_ref().map(|refused| &refused.why);
        if before != Some(&why) || reclaim {
            error!(
                error = why,
                config = %self.path.display(),
                "configuration is not applied; the running one stays in force"
            );
        }
        let since = self.refused.as_ref().map_or_else(Instant::now, |refused| refused.since);
        self.refused = Some(Refused { why, since });
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns whether the file was refused, and since when.
    pub(super) fn report(&self) -> FileReport {
        let refused = self.refused.as_ref();
        FileReport {
            file: self.path.display().to_string(),
            read_at_unix_seconds: self.read_at_unix_seconds,
            read_seconds_ago: self.read_at.elapsed().as_secs(),
            refused: refused
                .map(|it| Refusal { why: it.why.clone(), seconds_ago: it.since.elapsed().as_secs() }),
        }
    }
}
