//! The pin directory: on a bpffs, writable by its owner alone, and used by one agent at a time.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MsFlags, mount};
use nix::sys::stat::{major, minor};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use nix::unistd::geteuid;
use tracing::{info, warn};

use vipward_core::diagnosis::doctor::{Agent, PinDir};

#[cfg(test)]
mod tests;

/// The usual mount point of a bpffs.
const BPFFS: &str = "/sys/fs/bpf";
/// Attempts to take a lock that no visible process holds, and the pause between two.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(10);
const LOCKS: &str = "/proc/locks";
const MOUNTS: &str = "/proc/thread-self/mountinfo";

#[derive(Debug, thiserror::Error)]
pub enum PinDirError {
    #[error("failed to inspect the pin directory {dir}")]
    Inspect {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{dir} is not on a bpffs: choose a --pin-dir below {BPFFS}")]
    NotBpffs { dir: PathBuf },
    #[error(
        "no bpffs is mounted on {BPFFS} and mounting it failed: run `mount -t bpf bpf {BPFFS}` as root, or choose \
         a --pin-dir on a bpffs that is mounted elsewhere"
    )]
    Mount(#[source] Errno),
    #[error(
        "no bpffs is mounted on {BPFFS} of the node, and one that this container mounts would end with it: run \
         `mount -t bpf bpf {BPFFS}` on the node, also at its boot, or give this mount the propagation \
         Bidirectional (chart: mountPropagation)"
    )]
    OfContainer,
    #[error("failed to create the pin directory {dir}")]
    Create {
        dir: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "the pin directory {dir} belongs to user {owner} with mode {mode:o}, so that others than this user \
         ({user}) can take the pins away: chown {user} {dir} && chmod 0700 {dir}, or name another one with \
         --pin-dir"
    )]
    NotOurs { dir: PathBuf, owner: u32, mode: u32, user: u32 },
    #[error(
        "another vipward agent{} uses {dir}: stop it; two agents need network namespaces and pin directories \
         (--pin-dir) of their own",
        in_brackets(*pid)
    )]
    InUse {
        dir: PathBuf,
        /// The other agent's process, if it can be seen from here.
        pid: Option<u32>,
    },
    #[error("failed to lock the pin directory {dir}")]
    Lock {
        dir: PathBuf,
        #[source]
        source: Errno,
    },
}

/// Makes sure that `dir` exists and is on a bpffs. Mounts one at the usual place if there is none.
pub fn ensure_bpffs(dir: &Path) -> Result<(), PinDirError> {
    let inspect = |source| PinDirError::Inspect { dir: dir.to_owned(), source };
    let dir = std::path::absolute(dir).map_err(inspect)?;
    let at = nearest_existing(&dir).map_err(inspect)?;
    if !is_bpffs(at).map_err(inspect)? {
        if !dir.starts_with(BPFFS) {
            return Err(PinDirError::NotBpffs { dir: dir.clone() });
        }
        if is_of_container(&std::fs::read_to_string(MOUNTS).unwrap_or_default()) {
            return Err(PinDirError::OfContainer);
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("bpf"), BPFFS, Some("bpf"), flags, Some("mode=0700")).map_err(PinDirError::Mount)?;
        info!(path = BPFFS, "mounted bpffs");
        if is_of_this_process(&std::fs::read_to_string(MOUNTS).unwrap_or_default()) {
            warn!(
                path = BPFFS,
                "the pins end with this agent's mount namespace, as after `ip netns exec`: use nsenter --net, or mount \
                 a bpffs on the host and name it with --pin-dir"
            );
        }
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|source| PinDirError::Create { dir: dir.clone(), source })?;
    check_owner(dir)
}

/// Checks that a directory, which exists, is on a bpffs.
pub fn check_bpffs(dir: &Path) -> Result<(), PinDirError> {
    match is_bpffs(dir) {
        Ok(true) => Ok(()),
        Ok(false) => Err(PinDirError::NotBpffs { dir: dir.to_owned() }),
        Err(source) => Err(PinDirError::Inspect { dir: dir.to_owned(), source }),
    }
}

/// Returns true if a mount on the usual place stays in this container: a volume is mounted there, and
/// is not shared with the host.
fn is_of_container(mounts: &str) -> bool {
    let fields = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let last = mounts.lines().map(fields).rfind(|fields| fields.get(4).is_some_and(|at| at == BPFFS));
    let optional = |fields: Vec<String>| fields.into_iter().skip(6).take_while(|field| field != "-");
    last.is_some_and(|fields| !optional(fields).any(|field| field.starts_with("shared:")))
}

/// Returns true if the mount on the usual place is not shared with other mount namespaces, unless this
/// process is in that of process 1.
fn is_of_this_process(mounts: &str) -> bool {
    let namespace = |of: &str| std::fs::metadata(format!("/proc/{of}/ns/mnt")).map(|it| (it.dev(), it.ino()));
    let is_hosts = matches!((namespace("thread-self"), namespace("1")), (Ok(own), Ok(host)) if own == host);
    !is_hosts && is_of_container(mounts)
}

/// Checks that only this user can write the directory. Other users
/// could remove the pins, and so end the answers.
fn check_owner(dir: PathBuf) -> Result<(), PinDirError> {
    const GROUP_OR_OTHERS_WRITE: u32 = 0o022;

    let metadata =
        std::fs::metadata(&dir).map_err(|source| PinDirError::Inspect { dir: dir.clone(), source })?;
    let (owner, mode, user) = (metadata.uid(), metadata.mode() & 0o7777, geteuid().as_raw());
    if owner == user && mode & GROUP_OR_OTHERS_WRITE == 0 {
        Ok(())
    } else {
        Err(PinDirError::NotOurs { dir, owner, mode, user })
    }
}

fn nearest_existing(dir: &Path) -> io::Result<&Path> {
    for ancestor in dir.ancestors() {
        if ancestor.try_exists()? {
            return Ok(ancestor);
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

fn is_bpffs(path: &Path) -> io::Result<bool> {
    Ok(statfs(path)?.filesystem_type() == BPF_FS_MAGIC)
}

/// Examines the directory, or the place where it would be created. Changes nothing.
pub fn look_at(dir: &Path) -> io::Result<PinDir> {
    let dir = std::path::absolute(dir)?;
    let at = nearest_existing(&dir)?;
    let metadata = std::fs::metadata(at)?;
    Ok(PinDir {
        exists: at == dir,
        on_bpffs: is_bpffs(at)?,
        owner: metadata.uid(),
        mode: metadata.mode() & 0o7777,
        user: geteuid().as_raw(),
    })
}

/// Returns the agent that uses the directory.
///
/// `/proc/locks` does not list a lock of another pid namespace. So this function takes the lock
/// too, shared, and drops it at once. `PinDirLock::acquire` waits for that.
pub fn user_of(dir: &Path) -> io::Result<Agent> {
    let metadata = match std::fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Agent::None),
        metadata => metadata?,
    };
    let locks = std::fs::read_to_string(LOCKS).unwrap_or_default();
    if let Some(pid) = flock_holder(&locks, metadata.dev(), metadata.ino()) {
        return Ok(Agent::Runs(Some(pid)));
    }
    let file = match File::open(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Agent::None),
        file => file?,
    };
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_lock) => Ok(Agent::None),
        Err((_, Errno::EWOULDBLOCK)) => Ok(Agent::Runs(None)),
        Err((_, errno)) => Err(errno.into()),
    }
}

/// The right to use a pin directory, until it is dropped or the process ends.
///
/// A bpffs holds no regular files, but its directories can be locked like any other.
#[derive(Debug)]
pub struct PinDirLock {
    locked: Flock<File>,
}

impl PinDirLock {
    /// Takes the lock. Fails at once if another agent is seen to have it, and soon if a process has it
    /// that is not seen: that may be `user_of`.
    pub fn acquire(dir: &Path) -> Result<Self, PinDirError> {
        let inspect = |source| PinDirError::Inspect { dir: dir.to_owned(), source };
        let mut file = File::open(dir).map_err(inspect)?;
        let metadata = file.metadata().map_err(inspect)?;
        let mut attempts = 0;
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(locked) => return Ok(Self { locked }),
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, source)) => return Err(PinDirError::Lock { dir: dir.to_owned(), source }),
            };
            // A hardened /proc hides the process. The error is useful without it.
            let locks = std::fs::read_to_string(LOCKS).unwrap_or_default();
            let pid = flock_holder(&locks, metadata.dev(), metadata.ino());
            attempts += 1;
            if pid.is_some() || attempts == ATTEMPTS {
                return Err(PinDirError::InUse { dir: dir.to_owned(), pid });
            }
            thread::sleep(PAUSE);
        }
    }

    /// Returns true if the directory that has this path now is the locked one. It may have been removed,
    /// or its bpffs unmounted.
    pub fn is_of(&self, dir: &Path) -> Result<bool, PinDirError> {
        let inspect = |source| PinDirError::Inspect { dir: dir.to_owned(), source };
        let locked = self.locked.metadata().map_err(inspect)?;
        match std::fs::metadata(dir) {
            Ok(there) => Ok((locked.dev(), locked.ino()) == (there.dev(), there.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(inspect(error)),
        }
    }
}

/// Returns the process that holds an exclusive flock on an inode, by a line of `/proc/locks` (`1: FLOCK
/// ADVISORY  WRITE 4711 00:28:60033 0 EOF`; a waiting process has `->` as the second word).
fn flock_holder(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    locks.lines().find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_flock = fields.next()? == "FLOCK";
        let is_exclusive = fields.nth(1)? == "WRITE";
        let pid = fields.next()?;
        if is_flock && is_exclusive && fields.next()? == file { pid.parse().ok() } else { None }
    })
}

fn in_brackets(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (pid {pid})"))
}
