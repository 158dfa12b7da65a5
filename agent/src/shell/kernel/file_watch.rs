//! The file watcher: reports when the contents of the configuration file may have changed.
//!
//! It watches each directory entry that leads to the file: the file itself, and each symbolic link on
//! the way to it. It notices a file that is written in place, renamed over or made again. It also
//! notices a file swapped behind a link, as a Kubernetes `ConfigMap` does with `..data`.
//!
//! A path may lead to a file system that does not answer. So a watch runs in a thread of its own, and
//! each look along the path in another one: what was found before is watched meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::file::Threads;

#[cfg(test)]
mod tests;

/// The time between the first sign of a change and its report: an editor makes several changes.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// The time between two attempts to watch a directory that is gone.
const RETRY: Duration = Duration::from_secs(1);
/// The time between two log lines about trouble that goes on.
const AGAIN: Duration = Duration::from_secs(60);
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

struct Queue(Arc<Inotify>);

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A watch on one file, which need not exist. Its thread ends with it.
pub struct FileWatch {
    changes: mpsc::Receiver<Result<(), FileWatchError>>,
}

impl FileWatch {
    /// Starts to watch, and to look along the path in these threads. A change is reported when all is
    /// watched: a file that is read then misses none.
    pub fn start(path: &Path, threads: Threads) -> Result<Self, FileWatchError> {
        let open = |source| FileWatchError::Open { path: path.to_owned(), source };
        let inotify = init(path)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(open)?;
        let (sender, changes) = mpsc::channel(1);
        let path = std::path::absolute(path).map_err(open)?;
        let watch = move || runtime.block_on(report(inotify, path, threads, sender));
        thread::Builder::new().name("file-watch".to_owned()).spawn(watch).map_err(open)?;
        Ok(Self { changes })
    }

    /// Resolves when the file's content may have changed since the last time it resolved. Safe to
    /// cancel.
    pub async fn changed(&mut self) -> Result<(), FileWatchError> {
        match self.changes.recv().await {
            Some(changed) => changed,
            // It has failed before.
            None => std::future::pending().await,
        }
    }
}

/// Reports changes until the receiver is gone, or the watch fails.
async fn report(
    inotify: Inotify,
    path: PathBuf,
    threads: Threads,
    sender: mpsc::Sender<Result<(), FileWatchError>>,
) {
    let mut watch = match Watch::on(inotify, path, threads) {
        Ok(watch) => watch,
        Err(error) => return drop(sender.try_send(Err(error))),
    };
    loop {
        let changed = tokio::select! {
            changed = watch.changed() => changed,
            () = sender.closed() => return,
        };
        let has_failed = changed.is_err();
        // A full channel has a report that was not read yet.
        drop(sender.try_send(changed));
        if has_failed {
            return;
        }
    }
}

fn init(path: &Path) -> Result<Inotify, FileWatchError> {
    if path.file_name().is_none() {
        return Err(FileWatchError::NotAFile { path: path.to_owned() });
    }
    Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(|errno| FileWatchError::Open { path: path.to_owned(), source: errno.into() })
}

/// The names that matter in each watched directory.
type Names = BTreeMap<WatchDescriptor, BTreeSet<OsString>>;

/// What a look along the path finds.
enum Found {
    /// An entry that decides, which is watched, and what is there.
    Entry(WatchDescriptor, OsString, State),
    /// A directory that cannot be watched.
    Missing(PathBuf, Errno),
    /// There is nothing else.
    All,
}

/// What is at an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// A file with one name. If it has just appeared, its writer will close it, and its content may be
    /// incomplete until then.
    MayBeWritten,
    /// A link, nothing, or a file that was linked or moved here.
    Complete,
}

/// A look along the path.
#[derive(Default)]
struct Look {
    names: Names,
    missing: Option<(PathBuf, Errno)>,
}

/// The watch, in its thread.
struct Watch {
    path: PathBuf,
    queue: AsyncFd<Queue>,
    threads: Threads,
    names: Names,
    /// The last look, while it goes on.
    look: Option<Look>,
    /// The number of looks that have begun.
    looks: u64,
    /// Where looks put what they have found, with their numbers.
    found: mpsc::UnboundedSender<(u64, Found)>,
    findings: mpsc::UnboundedReceiver<(u64, Found)>,
    due: Option<Instant>,
    retry: Option<Instant>,
    has_missed: bool,
    /// Entries that have appeared since the last look.
    created: BTreeSet<(WatchDescriptor, OsString)>,
    /// The time of the last log line that no look can begin. None if one can.
    barred: Option<Instant>,
}

impl Watch {
    /// Watches the absolute `path`, in a tokio runtime.
    fn on(inotify: Inotify, path: PathBuf, threads: Threads) -> Result<Self, FileWatchError> {
        // SAFETY: a queue owns its descriptor, returns the same one
        // always, and closes it when the last owner is dropped.
        let queue = unsafe { AsyncFd::register_with_interest(Queue(Arc::new(inotify)), Interest::READABLE) };
        let queue =
            queue.map_err(|error| FileWatchError::Open { path: path.clone(), source: error.into() })?;
        let (found, findings) = mpsc::unbounded_channel();
        let mut watch = Self {
            path,
            queue,
            threads,
            names: Names::new(),
            look: None,
            looks: 0,
            found,
            findings,
            due: None,
            retry: None,
            has_missed: false,
            created: BTreeSet::new(),
            barred: None,
        };
        watch.begin_to_look();
        Ok(watch)
    }

    /// Resolves when the file's content may have changed since the last time it resolved. Safe to
    /// cancel.
    async fn changed(&mut self) -> Result<(), FileWatchError> {
        loop {
            let wake = [self.due, self.retry].into_iter().flatten().min();
            tokio::select! {
                ready = self.queue.readable() => {
                    ready.map_err(|source| self.read_error(source))?.clear_ready();
                    self.drain()?;
                }
                Some((look, found)) = self.findings.recv() => {
                    if look == self.looks {
                        self.on_found(found);
                    }
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {
                    let now = Instant::now();
                    if self.due.take_if(|due| *due <= now).is_some() {
                        return Ok(());
                    }
                    self.retry = None;
                    self.begin_to_look();
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
            let relevant: Vec<_> = events.into_iter().filter(|event| self.is_relevant(event)).collect();
            let is_relevant = !relevant.is_empty();
            for event in relevant {
                match event.name {
                    // The look finds out whether it is complete.
                    Some(name) if event.mask.contains(AddWatchFlags::IN_CREATE) => {
                        self.created.insert((event.wd, name));
                    }
                    Some(_) | None => self.report_soon(),
                }
            }
            if is_relevant {
                self.begin_to_look();
            }
        }
    }

    fn report_soon(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + DEBOUNCE);
    }

    fn is_relevant(&self, event: &InotifyEvent) -> bool {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return true;
        }
        let found = self.look.as_ref().and_then(|look| look.names.get(&event.wd));
        let mut names = self.names.get(&event.wd).into_iter().chain(found).flatten().peekable();
        if names.peek().is_none() {
            return false;
        }
        let directory_itself =
            AddWatchFlags::IN_DELETE_SELF | AddWatchFlags::IN_MOVE_SELF | AddWatchFlags::IN_IGNORED;
        let Some(name) = &event.name else { return event.mask.intersects(directory_itself) };
        names.any(|it| it == name)
    }

    /// Begins to watch the entries that decide now.
    fn begin_to_look(&mut self) {
        self.looks += 1;
        self.look = Some(Look::default());
        let (look, sender) = (self.looks, self.found.clone());
        let (path, inotify) = (self.path.clone(), Arc::clone(&self.queue.get_ref().0));
        // The watch may have ended.
        let notify = move |found| drop(sender.send((look, found)));
        let begun = self.threads.run(move || {
            find_deciding_entries(&path, |directory, name, state| {
                match inotify.add_watch(&directory, mask()) {
                    Ok(watch) => notify(Found::Entry(watch, name, state())),
                    Err(errno) => notify(Found::Missing(directory, errno)),
                }
            });
            notify(Found::All);
        });
        let now = Instant::now();
        match begun {
            Ok(()) => {
                if self.barred.take().is_some() {
                    info!(path = %self.path.display(), "looking where the configuration is again");
                }
            }
            Err(error) => {
                if self.barred.is_none_or(|logged| logged + AGAIN <= now) {
                    let path = self.path.display();
                    warn!(%path, %error, "cannot look where the configuration is; trying every second");
                    self.barred = Some(now);
                }
                self.retry = Some(now + RETRY);
            }
        }
    }

    fn on_found(&mut self, found: Found) {
        let Some(look) = &mut self.look else { return };
        match found {
            Found::Entry(watch, name, state) => {
                look.names.entry(watch).or_default().insert(name.clone());
                if self.created.remove(&(watch, name)) && state == State::Complete {
                    self.report_soon();
                }
            }
            Found::Missing(directory, errno) => look.missing = Some((directory, errno)),
            Found::All => {
                let Look { names, missing } = self.look.take().unwrap_or_default();
                self.watch_only(names);
                self.note_missing(missing);
                // What has appeared and decides no longer.
                if !std::mem::take(&mut self.created).is_empty() {
                    self.report_soon();
                }
            }
        }
    }

    /// Leaves all entries that no longer decide. What has happened before others were watched is a change.
    fn watch_only(&mut self, names: Names) {
        for gone in self.names.keys().filter(|watch| !names.contains_key(watch)) {
            // This fails if the directory is gone, and then there is nothing to remove.
            let _ = self.queue.get_ref().0.rm_watch(*gone);
        }
        if self.names != names {
            self.names = names;
            self.report_soon();
        }
    }

    /// Handles that a directory cannot be watched, or that all can.
    fn note_missing(&mut self, missing: Option<(PathBuf, Errno)>) {
        match missing {
            Some((directory, error)) => {
                if !std::mem::replace(&mut self.has_missed, true) {
                    let (directory, error) = (directory.display(), error.desc());
                    warn!(%directory, error, "cannot watch the configuration's directory; trying every second");
                }
                self.retry = Some(Instant::now() + RETRY);
            }
            None if std::mem::take(&mut self.has_missed) => {
                info!(path = %self.path.display(), "watching the configuration's directory again");
                self.report_soon();
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

/// Finds each symbolic link on the way along the absolute `path`, and the file at its end, as a
/// directory and a name in it, and how to find what is there. May take for ever.
fn find_deciding_entries(path: &Path, mut found: impl FnMut(PathBuf, OsString, &dyn Fn() -> State)) {
    let mut links = 0;
    let mut at = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = components(path);
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&name);
        let target = if links < MAX_LINKS { std::fs::read_link(&here).ok() } else { None };
        if let Some(target) = target {
            links += 1;
            found(at.clone(), name, &|| State::Complete);
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            for name in components(&target).into_iter().rev() {
                rest.push_front(name);
            }
        } else if rest.is_empty() {
            found(at.clone(), name, &|| state_of(&here));
        } else {
            at = here;
        }
    }
}

/// Returns what is at the end of a path. May take for ever.
fn state_of(path: &Path) -> State {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() && metadata.nlink() == 1 => State::MayBeWritten,
        Ok(_) | Err(_) => State::Complete,
    }
}

fn components(path: &Path) -> VecDeque<OsString> {
    let meant = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(meant).collect()
}
