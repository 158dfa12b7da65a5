//! /proc: the processes of this network namespace.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use vipward_core::diagnosis::{
    doctor::Process,
    fact::{Cause, Unread},
};

use crate::shell::logging::errors::unread_io;

const PROC: &str = "/proc";
/// `PROC_PID_INIT_INO` from the kernel's `include/linux/proc_ns.h`: the inode of the machine's
/// first PID namespace, which contains every process.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Returns the processes in this network namespace, and those whose namespace cannot be read.
pub(super) fn of_this_network() -> Result<Vec<Process>, Unread> {
    let failed = |error| unread_io(format_args!("failed to list {PROC}"), &error);
    let entries = fs::read_dir(PROC).map_err(failed)?;
    let here = network_of(Path::new("/proc/thread-self"));
    let process = |path: PathBuf| {
        let pid = path.file_name()?.to_str()?.parse().ok()?;
        let elsewhere = here.is_some() && network_of(&path).is_some_and(|network| Some(network) != here);
        // The process may have ended meanwhile.
        let name = fs::read_to_string(path.join("comm")).ok()?.trim_end().to_owned();
        let program = fs::read(path.join("cmdline")).map(|line| program(&line)).unwrap_or_default();
        (!elsewhere).then_some(Process { pid, name, program })
    };
    Ok(entries.filter_map(|entry| process(entry.ok()?.path())).collect())
}

/// Returns true if `/proc` shows all processes. Only the first PID namespace has all, and with
/// `hidepid` (proc(5)) a user sees only their own processes, and so not process 1.
pub(super) fn are_all_seen() -> Result<bool, Unread> {
    fs::read("/proc/1/comm").map_err(|error| Unread {
        reason: format!("/proc does not show process 1 (hidepid hides those of other users): {error}"),
        cause: Cause::Denied,
    })?;
    let namespace = fs::metadata("/proc/self/ns/pid");
    let namespace = namespace.map_err(|error| unread_io("failed to read this PID namespace", &error))?;
    Ok(namespace.ino() == FIRST_PID_NAMESPACE)
}

fn network_of(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/net")).ok()
}

/// Returns the last part of the path in the first argument. A process can change its arguments.
fn program(command_line: &[u8]) -> String {
    let first = command_line.split(|byte| *byte == 0 || *byte == b' ').next().unwrap_or_default();
    let last = first.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    String::from_utf8_lossy(last).trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests;
