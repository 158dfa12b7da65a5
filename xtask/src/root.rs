//! Runs single commands as root. Cargo never runs as root, so its files belong to the user.

use std::{
    env,
    ffi::{OsStr, OsString},
    process::Command,
};

use anyhow::{Result, bail};

use crate::process;

pub(crate) fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Fails if nothing can run as root here. Called before a build, to fail early.
pub(crate) fn check() -> Result<()> {
    prefix(&[]).map(drop)
}

/// Returns the words to put before a command that needs root: none for root, sudo for others.
///
/// `sudo -E` alone is not enough: sudo sets its own PATH, which `variables` may name, and on some
/// systems its own HOME.
pub(crate) fn prefix(variables: &[(&str, OsString)]) -> Result<Vec<OsString>> {
    if is_root() {
        return Ok(Vec::new());
    }
    if process::find("sudo").is_none() {
        bail!("this needs root, and there is no sudo here: run it as root");
    }
    let mut words: Vec<OsString> = ["sudo", "-E", "env"].map(OsString::from).into();
    words.extend(env::var_os("HOME").map(|home| assignment("HOME", &home)));
    words.extend(variables.iter().map(|(name, value)| assignment(name, value)));
    Ok(words)
}

pub(crate) fn command(program: impl AsRef<OsStr>, variables: &[(&str, OsString)]) -> Result<Command> {
    let prefix = prefix(variables)?;
    let mut command = match prefix.split_first() {
        Some((sudo, rest)) => {
            let mut command = Command::new(sudo);
            command.args(rest).arg(program);
            command
        }
        None => Command::new(program),
    };
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

fn assignment(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}
