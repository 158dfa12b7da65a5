//! Runs a command that prints much behind one line of progress. Its output goes into a log.

use std::{
    fs,
    io::{self, BufWriter, IsTerminal as _, Read as _, Write as _},
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::process::{self, Stopwatch};

/// Interval of the line's elapsed time.
const TICK: Duration = Duration::from_millis(250);
/// Lines of the log in the error of a command that failed.
const LAST: usize = 20;

/// What the command does now: its last step, and how far cargo is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Progress {
    step: String,
    units: String,
}

impl Progress {
    /// Reads a line of the output. Returns true if it is cargo's progress, which belongs into no log.
    fn read(&mut self, line: &str) -> bool {
        if let Some(step) = line.strip_prefix("==> ") {
            // In brackets are remarks.
            step.split(" (").next().unwrap_or(step).clone_into(&mut self.step);
            self.units.clear();
        }
        let Some((_, bar)) = line.split_once("Building [") else { return false };
        let units = bar.split_once("] ").and_then(|(_, rest)| rest.split(':').next());
        units.unwrap_or_default().trim().clone_into(&mut self.units);
        true
    }

    fn line(&self, elapsed: Duration) -> String {
        let Self { step, units } = self;
        let step = if step.is_empty() { "looking for the tools" } else { step };
        let words: Vec<&str> = [step, units].into_iter().filter(|word| !word.is_empty()).collect();
        format!("{} … {}", words.join(" "), minutes(elapsed))
    }
}

fn minutes(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m{:02}s", seconds / 60, seconds % 60) }
}

/// Runs a command. On a terminal it shows one line, which is gone at the end. An error names the log.
pub(crate) fn run(mut command: Command, log: &Path) -> Result<()> {
    let watch = Stopwatch::start();
    let shows = io::stderr().is_terminal();
    if !shows {
        process::step(&format!("building; the log is {}", log.display()));
    }
    let name = process::command_line(&command);
    let (reader, writer) = io::pipe().context("failed to create a pipe")?;
    command.stdout(writer.try_clone().context("failed to copy a pipe")?).stderr(writer);
    command.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "100");
    command.env("CARGO_TERM_COLOR", "never");
    let mut child = command.spawn().with_context(|| format!("failed to start `{name}`"))?;
    // It has the other ends of the pipe.
    drop(command);
    let progress = Mutex::new(Progress::default());
    let status = thread::scope(|scope| -> Result<_> {
        let copying = scope.spawn(|| copy(reader, log, &progress));
        let status = loop {
            if let Some(status) = child.try_wait().with_context(|| format!("failed to wait for `{name}`"))? {
                break status;
            }
            if shows {
                eprint!("\r\x1b[K  {}", locked(&progress).line(watch.elapsed()));
            }
            thread::sleep(TICK);
        };
        copying.join().expect("invariant: copying does not panic")?;
        Ok(status)
    });
    if shows {
        eprint!("\r\x1b[K");
    }
    if !status?.success() {
        let text = fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
        bail!("{last}\n\n`{name}` failed after {}; its log is {}", minutes(watch.elapsed()), log.display());
    }
    process::step(&format!("built in {}", minutes(watch.elapsed())));
    Ok(())
}

fn locked(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies the output into the log, without cargo's progress.
fn copy(mut reader: io::PipeReader, log: &Path, progress: &Mutex<Progress>) -> Result<()> {
    let failed = || format!("failed to write {}", log.display());
    if let Some(directory) = log.parent() {
        fs::create_dir_all(directory).with_context(failed)?;
    }
    let mut log = BufWriter::new(fs::File::create(log).with_context(failed)?);
    let (mut bytes, mut rest) = (vec![0; 8192], Vec::new());
    loop {
        let count = reader.read(&mut bytes).context("failed to read a pipe")?;
        rest.extend_from_slice(&bytes[..count]);
        if count == 0 {
            // An unfinished line is the last one.
            rest.push(b'\n');
        }
        while let Some(end) = rest.iter().position(|byte| b"\r\n".contains(byte)) {
            let line: Vec<u8> = rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if !locked(progress).read(line) && !line.is_empty() {
                writeln!(log, "{line}").with_context(failed)?;
            }
        }
        if count == 0 {
            return log.flush().with_context(failed);
        }
    }
}

#[cfg(test)]
mod tests;
