//! The pin directory: its files, and the replacement of a set of maps by another.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    programs::{
        ProgramInfo,
        links::{FdLink, PinnedLink},
    },
};
use vipward_common::{PINNED, maps as names};
use vipward_core::{
    diagnosis::pinned::LinkIds,
    host::{
        attaching::Mode,
        layout::{Comparison, Description, MapInfo},
    },
};

use super::{
    BpfError,
    description::{self, Records},
    filter, map_data,
    programs::{self, refused},
    sys,
};

/// The suffix of the pins of a set that is not in force yet, in every version. bpffs refuses names
/// with a dot.
pub(super) const NEW: &str = "_new";
const LINK_PREFIX: &str = "link_";
const FILTER_PREFIX: &str = "filter_";

/// A directory of pins.
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

/// A pinned set of maps.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) description: Description,
    pub(super) comparison: Comparison,
}

/// A pinned attachment. Its file name has the interface and the mode: the
/// kernel reports those to privileged users only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPin {
    /// The interface that it was made for.
    pub ifindex: u32,
    /// The mode that it was made in.
    pub mode: Mode,
    /// The pinned object.
    pub(super) kind: Pinned,
    /// The pin.
    pub path: PathBuf,
}

/// The object of an attachment's pin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pinned {
    /// A `bpf_link`.
    Link,
    /// The program of a filter of traffic control.
    Filter,
}

impl LinkPin {
    fn of(path: PathBuf) -> Option<Self> {
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

    /// Detaches the program and removes the pin.
    pub(super) fn remove(&self) -> Result<(), BpfError> {
        match self.kind {
            Pinned::Link => sys::detach_link(&self.path).map_err(|source| BpfError::PinFile {
                operation: "detach the link of",
                path: self.path.clone(),
                source,
            })?,
            Pinned::Filter => filter::detach(self.ifindex)?,
        }
        remove(&self.path).map(|_| ())
    }

    /// Returns the ids of the link and of the program that it runs.
    pub fn ids(&self) -> Result<LinkIds, BpfError> {
        match self.kind {
            Pinned::Link => {
                let failed = |source| BpfError::Link {
                    operation: "read",
                    interface: format!("interface {}", self.ifindex),
                    source: Box::new(source),
                };
                let link = FdLink::from(PinnedLink::from_pin(&self.path).map_err(failed)?);
                let info = link.info().map_err(failed)?;
                Ok(LinkIds { link: Some(info.id()), program: info.program_id() })
            }
            Pinned::Filter => {
                let info = ProgramInfo::from_pin(&self.path).map_err(refused(programs::TC))?;
                Ok(LinkIds { link: None, program: info.id() })
            }
        }
    }
}

impl Pins {
    /// Returns the pins under `dir`, which need not exist.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the pin of a map.
    pub fn map(&self, name: &str) -> PathBuf {
        self.path(Set::InForce, name)
    }

    pub(super) fn path(&self, set: Set, name: &str) -> PathBuf {
        match set {
            Set::InForce => self.dir.join(name),
            Set::New => self.dir.join(format!("{name}{NEW}")),
        }
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

    /// Returns a set of maps, if it is whole.
    pub(super) fn inspect(&self, set: Set) -> Result<Option<Found>, BpfError> {
        let Some(records) = Records::open(self, set)? else { return Ok(None) };
        let description = records.read()?;
        let mut pinned: BTreeMap<&str, MapInfo> = BTreeMap::new();
        for map in PINNED {
            let path = self.path(set, map.name);
            if exists(&path)? {
                pinned.insert(map.name, description::info(&path, map.name)?);
            }
        }
        let comparison = description.compare(|name| pinned.get(name).copied());
        Ok(Some(Found { description, comparison }))
    }

    /// Pins new maps beside those in force, without `layout`.
    pub(super) fn pin_new(&self, ebpf: &Ebpf) -> Result<(), BpfError> {
        for name in PINNED.iter().map(|map| map.name) {
            let map = ebpf.map(name).and_then(map_data).ok_or(BpfError::Missing { kind: "map", name })?;
            let path = self.path(Set::New, name);
            map.pin(&path).map_err(|source| BpfError::Pin { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Puts the new set, which is whole, in force. `layout` is removed first and added last.
    pub(super) fn publish(&self) -> Result<(), BpfError> {
        remove(&self.map(names::LAYOUT))?;
        self.finish_publishing()
    }

    /// Completes what an agent that was killed had begun: it had removed `layout`.
    pub(super) fn finish_publishing(&self) -> Result<(), BpfError> {
        if exists(&self.map(names::LAYOUT))? || !exists(&self.path(Set::New, names::LAYOUT))? {
            return Ok(());
        }
        let mut names = self.new_maps()?;
        names.sort_by_key(|name| name == names::LAYOUT);
        for name in names {
            let path = self.path(Set::New, &name);
            fs::rename(&path, self.map(&name)).map_err(|source| BpfError::PinFile {
                operation: "publish",
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Removes a set of maps that is not in force, which an agent that was killed may have left.
    pub(super) fn clear_new(&self) -> Result<(), BpfError> {
        for name in self.new_maps()? {
            remove(&self.path(Set::New, &name))?;
        }
        Ok(())
    }

    /// Returns the names of the maps in the new set, also of those that this version does not know.
    fn new_maps(&self) -> Result<Vec<String>, BpfError> {
        let files = self.files()?;
        let names = files.iter().filter_map(|path| path.file_name()?.to_str()?.strip_suffix(NEW));
        Ok(names.map(str::to_owned).collect())
    }

    fn files(&self) -> Result<Vec<PathBuf>, BpfError> {
        let failed = |source| BpfError::PinFile { operation: "list", path: self.dir.clone(), source };
        match fs::read_dir(&self.dir) {
            Ok(entries) => entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the pinned attachments.
    pub fn links(&self) -> Result<Vec<LinkPin>, BpfError> {
        let mut links: Vec<_> = self.files()?.into_iter().filter_map(LinkPin::of).collect();
        links.sort_by_key(|link| (link.ifindex, link.mode));
        Ok(links)
    }

    /// Returns the pin of an interface's link.
    pub(super) fn link(&self, ifindex: u32, mode: Mode) -> PathBuf {
        self.dir.join(format!("{LINK_PREFIX}{ifindex}_{mode}"))
    }

    /// Returns the pin of the program that an interface's filter runs.
    pub(super) fn filter(&self, ifindex: u32) -> PathBuf {
        self.dir.join(format!("{FILTER_PREFIX}{ifindex}"))
    }

    /// Detaches every pinned attachment.
    pub(super) fn remove_links(&self) -> Result<(), BpfError> {
        self.links()?.iter().try_for_each(LinkPin::remove)
    }

    /// Removes links, maps and the directory, links first, and returns descriptions of them.
    pub(super) fn remove_all(&self) -> Result<Vec<String>, BpfError> {
        let mut removed = Vec::new();
        for link in self.links()? {
            link.remove()?;
            let what = match link.kind {
                Pinned::Link => "link",
                Pinned::Filter => "filter",
            };
            removed.push(format!("{what} of interface {} ({})", link.ifindex, link.mode));
        }
        self.finish_publishing()?;
        self.clear_new()?;
        // `layout` names the maps that this version does not know. It goes before the others, so
        // that an interruption leaves no set of maps.
        let unknown = match Records::open(self, Set::InForce)? {
            Some(records) => records.read()?.unknown(),
            None => Description::default(),
        };
        let mut remove_map = |name: &str| -> Result<(), BpfError> {
            if remove(&self.map(name))? {
                removed.push(format!("map {name}"));
            }
            Ok(())
        };
        unknown.maps().try_for_each(&mut remove_map)?;
        names::all().rev().try_for_each(&mut remove_map)?;
        match fs::remove_dir(&self.dir) {
            Ok(()) => removed.push(format!("directory {}", self.dir.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(BpfError::PinFile {
                    operation: "remove the directory of",
                    path: self.dir.clone(),
                    source,
                });
            }
        }
        Ok(removed)
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, BpfError> {
    path.try_exists().map_err(|source| BpfError::PinFile {
        operation: "look for",
        path: path.to_owned(),
        source,
    })
}

/// Removes a pin. Returns true if there was one.
pub(super) fn remove(path: &Path) -> Result<bool, BpfError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(BpfError::PinFile { operation: "remove", path: path.to_owned(), source }),
    }
}
