//! Vipward's pin directories on every bpffs that is mounted here: an agent that was killed, or another one
//! that runs, may have pinned a program under a directory that no option names.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use thiserror::Error;
use vipward_core::{
    diagnosis::doctor::OtherPins,
    host::{attaching::Mode, net::NetView},
};

use super::{
    bpf::{BpfError, Pins},
    preflight::user_of,
};

const MOUNTS: &str = "/proc/thread-self/mountinfo";
/// The levels below a mount that are searched.
const DEPTH: usize = 4;

#[derive(Debug, Error)]
pub enum SearchError {
    #[error("failed to search {} for pins", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the pins in {}", dir.display())]
    Pins {
        dir: PathBuf,
        #[source]
        source: BpfError,
    },
    #[error("failed to read the programs of traffic control on {0}")]
    TrafficControl(String),
}

/// What was found, and the first error that may have hidden more.
pub struct Search<T> {
    pub found: Vec<T>,
    pub error: Option<SearchError>,
}

impl<T> Search<T> {
    /// Returns what was found. Fails if that is nothing, and an error may have hidden something.
    pub fn certain(self) -> Result<Vec<T>, SearchError> {
        match self.error {
            Some(error) if self.found.is_empty() => Err(error),
            Some(_) | None => Ok(self.found),
        }
    }

    fn read<V>(&mut self, path: &Path, read: io::Result<V>) -> Option<V> {
        match read {
            Ok(value) => Some(value),
            // It was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => {
                self.error.get_or_insert(SearchError::Read { path: path.to_owned(), source });
                None
            }
        }
    }

    /// Notes an error about the pins in a directory, unless it has vanished.
    fn pins_failed(&mut self, dir: &Path, source: BpfError) {
        if dir.exists() {
            self.error.get_or_insert(SearchError::Pins { dir: dir.to_owned(), source });
        }
    }
}

/// Returns all pin directories of Vipward that are in sight, each once.
pub fn all() -> Search<PathBuf> {
    let mut search = Search { found: Vec::new(), error: None };
    let mut seen = BTreeSet::new();
    let mountinfo = fs::read_to_string(MOUNTS);
    for mount in search.read(Path::new(MOUNTS), mountinfo).iter().flat_map(|text| mounts(text)) {
        search.below(&mount, DEPTH, &mut seen);
    }
    search
}

impl Search<PathBuf> {
    /// Adds the pin directories at and below `dir`.
    fn below(&mut self, dir: &Path, depth: usize, seen: &mut BTreeSet<(u64, u64)>) {
        if !self.read(dir, identity(dir)).is_some_and(|identity| seen.insert(identity)) {
            return;
        }
        match Pins::new(dir).are_vipwards() {
            Ok(true) => self.found.push(dir.to_owned()),
            Ok(false) => {}
            Err(source) => self.pins_failed(dir, source),
        }
        for entry in self.read(dir, fs::read_dir(dir)).into_iter().flatten() {
            let Some(entry) = self.read(dir, entry) else { continue };
            if depth > 0 && self.read(dir, entry.file_type()).is_some_and(|it| it.is_dir()) {
                self.below(&entry.path(), depth - 1, seen);
            }
        }
    }
}

/// Returns the directories whose programs run on interfaces of this network namespace, without `own`.
pub fn running(own: &Path, view: &NetView) -> Search<OtherPins> {
    let own = identity(own).ok();
    let Search { found, error } = all();
    let mut search = Search { found: Vec::new(), error };
    for dir in found {
        if own.is_some() && identity(&dir).ok() == own {
            continue;
        }
        let programs = search.programs(&dir, view);
        if programs.is_empty() {
            continue;
        }
        if let Some(agent) = search.read(&dir, user_of(&dir)) {
            search.found.push(OtherPins { agent, dir, programs });
        }
    }
    search
}

impl Search<OtherPins> {
    /// Returns the interfaces on which programs of a directory run, with their ids.
    fn programs(&mut self, dir: &Path, view: &NetView) -> Vec<(u32, u32)> {
        let mut programs = Vec::new();
        let links = match Pins::new(dir).links() {
            Ok(links) => links,
            Err(source) => {
                self.pins_failed(dir, source);
                return programs;
            }
        };
        for link in links {
            // An interface of another network namespace may have the same index.
            let Some(interface) = view.interfaces.get(&link.ifindex) else { continue };
            match (link.ids(), &interface.tc_programs) {
                (Err(source), _) => {
                    if link.path.exists() {
                        self.pins_failed(dir, source);
                    }
                }
                (Ok(_), None) if link.mode == Mode::Tc => {
                    self.error.get_or_insert(SearchError::TrafficControl(interface.name.clone()));
                }
                (Ok(ids), tc) => {
                    let mut all = interface.xdp_programs.iter().chain(tc.iter().flatten());
                    if all.any(|id| *id == ids.program) {
                        programs.push((link.ifindex, ids.program));
                    }
                }
            }
        }
        programs
    }
}

/// Returns the device and the inode: a bpffs may be mounted at several places.
fn identity(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Returns the mount points of each bpffs, by lines like `26 22 0:23 / /sys/fs/bpf rw - bpf bpf rw`.
fn mounts(mounts: &str) -> Vec<PathBuf> {
    let mount_point = |line: &str| {
        let (mount, filesystem) = line.split_once(" - ")?;
        // A space in a path is written as an octal number.
        let at = mount.split(' ').nth(4)?.replace("\\040", " ");
        filesystem.starts_with("bpf ").then(|| PathBuf::from(at))
    };
    mounts.lines().filter_map(mount_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bpffs_is_found_by_its_mount_point() {
        let text = "26 22 0:23 / /sys/fs/bpf rw,nosuid shared:7 - bpf bpf rw,mode=700\n\
                    27 22 0:24 / /run/a\\040b rw - bpf none rw\n\
                    28 22 0:25 / /bpf rw - tmpfs bpf rw\ncut";
        assert_eq!(mounts(text), ["/sys/fs/bpf", "/run/a b"].map(PathBuf::from));
    }
}
