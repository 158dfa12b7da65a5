//! /proc: the processes of this network namespace.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use vipward_core::diagnosis::{
    doctor::{Process, WireThread},
    pinned::{Fact, Unread},
};

use crate::shell::kernel::wire::THREAD;

const PROC: &str = "/proc";
/// `PROC_PID_INIT_INO` from the kernel's `include/linux/proc_ns.h`: the inode of the machine's
/// first PID namespace, which contains every process.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Returns the processes in this network namespace, and those whose namespace cannot be read.
pub(super) fn of_this_network() -> Fact<Vec<Process>> {
    let entries = fs::read_dir(PROC).map_err(|error| Unread {
        reason: format!("failed to list {PROC}: {error}"),
        denied: error.kind() == io::ErrorKind::PermissionDenied,
    })?;
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

/// Returns the thread of wire failover in a process. None if it has none.
pub(super) fn wire_thread(pid: u32) -> Fact<Option<WireThread>> {
    let tasks = format!("{PROC}/{pid}/task");
    let unread = |what: &str, error: io::Error| Unread {
        reason: format!("failed to read {what}: {error}"),
        denied: error.kind() == io::ErrorKind::PermissionDenied,
    };
    for entry in fs::read_dir(&tasks).map_err(|error| unread(&tasks, error))? {
        let Ok(entry) = entry else { continue };
        // A thread may have ended meanwhile.
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if name.trim_end() != THREAD {
            continue;
        }
        let stat = entry.path().join("stat");
        let stat = fs::read_to_string(&stat).map_err(|error| unread(&stat.display().to_string(), error))?;
        let status = format!("{PROC}/{pid}/status");
        let status_text = fs::read_to_string(&status).map_err(|error| unread(&status, error))?;
        let runs_first = policy(&stat) == Some(libc::SCHED_FIFO);
        return Ok(Some(WireThread { runs_first, locked_bytes: locked_bytes(&status_text) }));
    }
    Ok(None)
}

/// Returns the scheduling policy in `/proc/PID/stat`: the 41st field. The second, the name, may have
/// spaces, and ends with the last parenthesis.
fn policy(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(38)?.parse().ok()
}

/// Returns the locked memory in `/proc/PID/status`, which counts in kB.
fn locked_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

/// Returns true if `/proc` shows all processes. Only the first PID namespace has all, and with
/// `hidepid` (proc(5)) a user sees only their own processes, and so not process 1.
pub(super) fn are_all_seen() -> Fact<bool> {
    fs::read("/proc/1/comm").map_err(|error| Unread {
        reason: format!("/proc does not show process 1 (hidepid hides those of other users): {error}"),
        denied: true,
    })?;
    let namespace = fs::metadata("/proc/self/ns/pid").map_err(|error| Unread {
        reason: format!("failed to look for this PID namespace: {error}"),
        denied: error.kind() == io::ErrorKind::PermissionDenied,
    })?;
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
