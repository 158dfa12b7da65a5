//! Runs child processes and reports their failures with the command that was run.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};

/// Returns the cargo that started this process, so that every step uses the same toolchain.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

pub(crate) fn host() -> Result<String> {
    let about = output(cargo().arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`cargo -vV` names no host")?.to_owned())
}

/// Prints to stderr the step that begins.
pub(crate) fn step(what: &str) {
    eprintln!("==> {what}");
}

pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed().as_secs_f64()
    }
}

/// Runs `command` with this process's stdio. An error names the command.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("failed to start `{}`", command_line(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", command_line(command));
    }
    Ok(())
}

/// Runs `command` and returns its stdout. An error carries its stderr.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("failed to start `{}`", command_line(command)))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed: {}: {}", command_line(command), output.status, stderr.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed no UTF-8", command_line(command)))
}

/// Returns what `command` prints about itself, on stdout or stderr, whatever its exit code. Returns
/// `None` if it cannot run, lacks a library, or prints nothing.
pub(crate) fn banner(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    (!said.trim().is_empty() && !said.contains("error while loading shared libraries")).then_some(said)
}

/// Returns the command as a user would type it.
pub(crate) fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
}

/// Returns `word`, quoted if a shell would not read it as one word.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the directories to search for programs: PATH, then those that a user's PATH often lacks.
fn program_dirs() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(cargo_bin()).chain(usual).collect()
}

/// Returns the directory into which `cargo install` puts programs.
fn cargo_bin() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    Some(home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")))?.join("bin"))
}

/// Returns the path of the program `name`, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    program_dirs().into_iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Returns the PATH for child processes: the directories that [`find`] searches, then `more`.
pub(crate) fn path_with(more: &[PathBuf]) -> Result<std::ffi::OsString> {
    let dirs = program_dirs();
    env::join_paths(dirs.iter().chain(more)).context("a directory on PATH has a colon in its name")
}

/// Writes `bytes` to `path`, unless the file has them already. So its time is the time of its last
/// change.
pub(crate) fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    std::fs::write(path, bytes).with_context(|| format!("failed to write {}", path.display()))?;
    Ok(true)
}
