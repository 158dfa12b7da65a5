//! The file watcher: reports when the contents of the configuration file may have changed.
//!
//! It watches each directory entry that leads to the file: the file itself, and each symbolic link on
//! the way to it. It notices a file that is written in place, renamed over or made again. It also
//! notices a file swapped behind a link, as a Kubernetes `ConfigMap` does with `..data`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

#[cfg(test)]
mod tests;

/// The time between the first sign of a change and its report: an editor makes several changes.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The time between two attempts to watch a directory that is gone.
const RETRY: Duration = Duration::from_secs(1);
/// The most symbolic links that are followed, as in the kernel (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

#[derive(Debug, thiserror::Error)]
pub enum FileWatchError {
    #[error("cannot watch {path}: it names no file")]
    NotAFile { path: PathBuf },
    #[error("failed to set up watching {path} (fs.inotify.max_user_instances may be too small)")]
    Open {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to read what has changed around {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

struct Queue(Inotify);

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A watch on one file, which need not exist.
pub struct FileWatch {
    path: PathBuf,
    queue: AsyncFd<Queue>,
    /// The names that matter in each watched directory.
    names: BTreeMap<WatchDescriptor, BTreeSet<OsString>>,
    due: Option<Instant>,
    retry: Option<Instant>,
}

impl FileWatch {
    /// Starts to watch, in a tokio runtime. A file that is read afterwards misses no change.
    pub fn new(path: &Path) -> Result<Self, FileWatchError> {
        let open = |source| FileWatchError::Open { path: path.to_owned(), source };
        if path.file_name().is_none() {
            return Err(FileWatchError::NotAFile { path: path.to_owned() });
        }
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
            .map_err(|errno| open(errno.into()))?;
        // SAFETY: an Inotify owns its descriptor, returns the same one
        // always, and closes it when it is dropped.
        let queue = unsafe { AsyncFd::register_with_interest(Queue(inotify), Interest::READABLE) }
            .map_err(|error| open(error.into()))?;
        let path = std::path::absolute(path).map_err(open)?;
        let mut watch = Self { path, queue, names: BTreeMap::new(), due: None, retry: None };
        watch.arm();
        Ok(watch)
    }

    /// Resolves when the file's content may have changed since the last time it resolved. Safe to
    /// cancel.
    pub async fn changed(&mut self) -> Result<(), FileWatchError> {
        loop {
            let wake = [self.due, self.retry].into_iter().flatten().min();
            tokio::select! {
                ready = self.queue.readable() => {
                    ready.map_err(|source| self.read_error(source))?.clear_ready();
                    self.drain()?;
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    let now = Instant::now();
                    if self.due.is_some_and(|due| due <= now) {
                        self.due = None;
                        return Ok(());
                    }
                    self.arm();
                }
            }
        }
    }

    fn drain(&mut self) -> Result<(), FileWatchError> {
        loop {
            let events = match self.queue.get_ref().0.read_events() {
                Ok(events) => events,
                Err(Errno::EAGAIN) => return Ok(()),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(self.read_error(errno.into())),
            };
            if events.iter().any(|event| self.is_relevant(event)) {
                self.due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
                self.arm();
            }
        }
    }

    fn is_relevant(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        let Some(names) = self.names.get(&event.wd) else { return false };
        let directory_itself =
            AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
        let Some(name) = &event.name else { return event.mask.intersects(directory_itself) };
        let being_written = event.mask.contains(AddWatchFlags::IN_CREATE) && self.is_being_written();
        names.contains(name) && !being_written
    }

    /// Returns true if the file has just appeared and its writer will close it. Its content may be
    /// incomplete until then. A file that was linked or moved here is complete.
    fn is_being_written(&self) -> bool {
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
    }

    /// Watches the entries that decide now, and no others.
    fn arm(&mut self) {
        let inotify = &self.queue.get_ref().0;
        let mut names: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        let mut missing = None;
        for (directory, name) in deciding_entries(&self.path) {
            match inotify.add_watch(&directory, mask()) {
                Ok(watch) => {
                    names.entry(watch).or_default().insert(name);
                }
                Err(errno) => missing = Some((directory, errno)),
            }
        }
        for gone in self.names.keys().filter(|watch| !names.contains_key(watch)) {
            // This fails if the directory is gone, and then there is nothing to remove.
            let _ = inotify.rm_watch(*gone);
        }
        self.names = names;

        match missing {
            Some((directory, error)) => {
                if self.retry.is_none() {
                    let (directory, error) = (directory.display(), error.desc());
                    warn!(%directory, error, "cannot watch the configuration's directory; trying every second");
                }
                self.retry = Some(Instant::now() + RETRY);
            }
            None if self.retry.take().is_some() => {
                info!(path = %self.path.display(), "watching the configuration's directory again");
                self.due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
            }
            None => {}
        }
    }

    fn read_error(&self, source: io::Error) -> FileWatchError {
        FileWatchError::Read { path: self.path.clone(), source }
    }
}

fn mask() -> AddWatchFlags {
    AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        // A file that has become readable is a change too.
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR
}

/// Returns each symbolic link on the way along the absolute `path`, and the file at its end, as a
/// directory and a name in it.
fn deciding_entries(path: &Path) -> Vec<(PathBuf, OsString)> {
    let mut entries = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = components(path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&name);
        let target = if entries.len() < MAX_LINKS { std::fs::read_link(&here).ok() } else { None };
        if let Some(target) = target {
            entries.push((at.clone(), name));
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in components(&target).into_iter().rev() {
                rest.push_front(name);
            }
        } else if rest.is_empty() {
            entries.push((at.clone(), name));
        } else {
            at = here;
        }
    }
    entries
}

fn components(path: &Path) -> VecDeque<OsString> {
    let meant = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(meant).collect()
}
