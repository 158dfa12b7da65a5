//! The pin directory: the names of its files, and what they pin.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aya::maps::{Map, MapData};
use vipward_common::maps as names;
use vipward_core::host::attaching::Mode;

use super::error::{BpfError, failed};

/// The suffix of the pins of a set that is not in force yet, in every version. bpffs refuses names
/// with a dot.
pub(super) const NEW: &str = "_new";
const LINK_PREFIX: &str = "link_";
const FILTER_PREFIX: &str = "filter_";

#[derive(Clone, Debug)]
pub struct Pins {
    dir: PathBuf,
}

/// A set of maps in the directory. It is whole when its `layout` is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Set {
    /// The set that agents use.
    InForce,
    /// The set that is to replace it.
    New,
}

/// A pinned attachment. Its file name has the interface and the mode: the
/// kernel reports those to privileged users only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPin {
    pub ifindex: u32,
    pub mode: Mode,
    pub(super) kind: Pinned,
    pub path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pinned {
    /// A `bpf_link`.
    Link,
    /// The program of a filter of traffic control.
    Filter,
}

impl LinkPin {
    pub(super) fn of(path: PathBuf) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let (ifindex, mode, kind) = match name.strip_prefix(LINK_PREFIX) {
            Some(rest) => {
                let (ifindex, mode) = rest.split_once('_')?;
                (ifindex, Mode::ALL.into_iter().find(|known| known.name() == mode)?, Pinned::Link)
            }
            None => (name.strip_prefix(FILTER_PREFIX)?, Mode::Tc, Pinned::Filter),
        };
        Some(Self { ifindex: ifindex.parse().ok()?, mode, kind, path })
    }
}

impl Pins {
    /// Returns the pins under `dir`, which need not exist.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn map(&self, name: &str) -> PathBuf {
        self.path(Set::InForce, name)
    }

    pub(super) fn path(&self, set: Set, name: &str) -> PathBuf {
        match set {
            Set::InForce => self.dir.join(name),
            Set::New => self.dir.join(format!("{name}{NEW}")),
        }
    }

    pub(super) fn open(&self, name: &'static str) -> Result<Map, BpfError> {
        MapData::from_pin(self.map(name)).and_then(Map::from_map_data).map_err(failed("open", name))
    }

    /// Returns true if these are pins of Vipward, be they few: some may have been removed. The directory
    /// may have been made for others.
    pub fn are_vipwards(&self) -> Result<bool, BpfError> {
        for set in [Set::InForce, Set::New] {
            let has = |name| exists(&self.path(set, name));
            let is_known = has(names::VIPS_V4)? && (has(names::LEASE_DEADLINE)? || has(names::OWN_MACS)?);
            if is_known || has(names::LAYOUT)? {
                return Ok(true);
            }
        }
        for link in self.links()? {
            if link.is_vipwards()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if every map, and an attachment to each of these interfaces, is pinned.
    pub fn has_all(&self, attached: impl Iterator<Item = (u32, Mode)>) -> Result<bool, BpfError> {
        for pin in names::all().map(|name| self.map(name)) {
            if !exists(&pin)? {
                return Ok(false);
            }
        }
        for (ifindex, mode) in attached {
            let is_pinned =
                exists(&self.link(ifindex, mode))? || mode == Mode::Tc && exists(&self.filter(ifindex))?;
            if !is_pinned {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the pins in the directory, also those of others. Directories are left out.
    pub(super) fn files(&self) -> Result<Vec<PathBuf>, BpfError> {
        let failed = |source| BpfError::PinFile { operation: "list", path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if !entry.file_type().map_err(failed)?.is_dir() {
                files.push(entry.path());
            }
        }
        Ok(files)
    }

    pub fn links(&self) -> Result<Vec<LinkPin>, BpfError> {
        let mut links: Vec<_> = self.files()?.into_iter().filter_map(LinkPin::of).collect();
        links.sort_by_key(|link| (link.ifindex, link.mode));
        Ok(links)
    }

    pub(super) fn link(&self, ifindex: u32, mode: Mode) -> PathBuf {
        self.dir.join(format!("{LINK_PREFIX}{ifindex}_{mode}"))
    }

    /// Returns the pin of the program that an interface's filter runs.
    pub(super) fn filter(&self, ifindex: u32) -> PathBuf {
        self.dir.join(format!("{FILTER_PREFIX}{ifindex}"))
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, BpfError> {
    path.try_exists().map_err(|source| BpfError::PinFile { operation: "find", path: path.to_owned(), source })
}

/// Removes a pin. Returns true if there was one.
pub(super) fn remove(path: &Path) -> Result<bool, BpfError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(BpfError::PinFile { operation: "remove", path: path.to_owned(), source }),
    }
}
