//! The pin directory: its files, and the replacement of a set of maps by another.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf,
    maps::{Array, MapData, MapInfo},
    programs::links::PinnedLink,
};
use vipward_common::{Meta, maps as names};
use vipward_core::pinned::{LinkIds, Mode};

use super::{BpfError, map_data, maps::failed, sys};

/// The suffix of a map's pin while its set is incomplete. bpffs refuses names with a dot.
const UNFINISHED: &str = "_new";
const LINK_PREFIX: &str = "link_";

/// A directory of pins.
#[derive(Clone, Debug)]
pub struct Pins {
    dir: PathBuf,
}

/// The pinned set of maps.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) meta: Meta,
    pub(super) max_vips: u32,
    /// True if every map of this version is pinned.
    pub(super) complete: bool,
}

/// A pinned link. Its file name has the interface and the mode: the
/// kernel reports those to privileged users only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkPin {
    /// The interface that it was made for.
    pub ifindex: u32,
    /// The mode that it was made in.
    pub mode: Mode,
    /// The pin.
    pub path: PathBuf,
}

impl LinkPin {
    /// Detaches the program and removes the pin.
    pub(super) fn remove(&self) -> Result<(), BpfError> {
        sys::detach_link(&self.path).map_err(|source| BpfError::PinFile {
            operation: "detach the link of",
            path: self.path.clone(),
            source,
        })?;
        remove(&self.path).map(|_| ())
    }

    /// Returns the ids of the link and of the program that it runs.
    pub fn ids(&self) -> Result<LinkIds, BpfError> {
        let failed = |source| BpfError::Link {
            operation: "read",
            interface: format!("interface {}", self.ifindex),
            source: Box::new(source),
        };
        let link = aya::programs::links::FdLink::from(PinnedLink::from_pin(&self.path).map_err(failed)?);
        let info = link.info().map_err(failed)?;
        Ok(LinkIds { link: info.id(), program: info.program_id() })
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
        self.dir.join(name)
    }

    /// Returns true if every map, and a link to each of these interfaces, is pinned.
    pub fn has_all(&self, links: impl Iterator<Item = (u32, Mode)>) -> Result<bool, BpfError> {
        let links = links.map(|(ifindex, mode)| self.link(ifindex, mode));
        for pin in names::ALL.iter().map(|name| self.map(name)).chain(links) {
            if !exists(&pin)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn unfinished(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}{UNFINISHED}"))
    }

    /// Returns the pinned set of maps, if there is one.
    pub(super) fn inspect(&self) -> Result<Option<Found>, BpfError> {
        let path = self.map(names::META);
        if !exists(&path)? {
            return Ok(None);
        }
        let meta = MapData::from_pin(&path).map_err(failed("open", names::META))?;
        let info = MapInfo::from_pin(&path).map_err(failed("open", names::META))?;
        let meta = if info.value_size() as usize == size_of::<Meta>() {
            let meta = Array::<_, [u8; size_of::<Meta>()]>::try_from(aya::maps::Map::Array(meta))
                .map_err(failed("open", names::META))?;
            bytemuck::pod_read_unaligned(&meta.get(&0, 0).map_err(failed("read", names::META))?)
        } else {
            return Err(BpfError::Value { map: names::META });
        };
        let vips = MapInfo::from_pin(self.map(names::VIPS_V4)).map_err(failed("open", names::VIPS_V4))?;
        let mut complete = true;
        for name in names::ALL {
            complete &= exists(&self.map(name))?;
        }
        Ok(Some(Found { meta, max_vips: vips.max_entries(), complete }))
    }

    /// Pins new maps beside those in force.
    pub(super) fn pin_new(&self, ebpf: &Ebpf) -> Result<(), BpfError> {
        for name in names::ALL {
            let map = ebpf.map(name).and_then(map_data).ok_or(BpfError::Missing { kind: "map", name })?;
            let path = self.unfinished(name);
            map.pin(&path).map_err(|source| BpfError::Pin { path: path.clone(), source })?;
        }
        Ok(())
    }

    /// Puts the new maps in force. `meta` is removed first and added last: its presence marks a
    /// complete set. Former maps are removed.
    pub(super) fn publish(&self) -> Result<(), BpfError> {
        remove(&self.map(names::META))?;
        for name in names::FORMER {
            remove(&self.map(name))?;
        }
        for name in names::ALL {
            let path = self.unfinished(name);
            fs::rename(&path, self.map(name)).map_err(|source| BpfError::PinFile {
                operation: "publish",
                path,
                source,
            })?;
        }
        Ok(())
    }

    /// Removes an incomplete set of maps, which an agent that was killed may have left.
    pub(super) fn clear_unfinished(&self) -> Result<(), BpfError> {
        for name in names::ALL {
            remove(&self.unfinished(name))?;
        }
        Ok(())
    }

    /// Returns the pinned links.
    pub fn links(&self) -> Result<Vec<LinkPin>, BpfError> {
        let failed = |source| BpfError::PinFile { operation: "list", path: self.dir.clone(), source };
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut links = Vec::new();
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            let link = path.file_name().and_then(|name| name.to_str()).and_then(|name| {
                let (ifindex, mode) = name.strip_prefix(LINK_PREFIX)?.split_once('_')?;
                let mode = Mode::ALL.into_iter().find(|known| known.name() == mode)?;
                Some((ifindex.parse().ok()?, mode))
            });
            if let Some((ifindex, mode)) = link {
                links.push(LinkPin { ifindex, mode, path });
            }
        }
        links.sort_by_key(|link| link.ifindex);
        Ok(links)
    }

    /// Returns the pin of an interface's link.
    pub(super) fn link(&self, ifindex: u32, mode: Mode) -> PathBuf {
        self.dir.join(format!("{LINK_PREFIX}{ifindex}_{mode}"))
    }

    /// Detaches every pinned link.
    pub(super) fn remove_links(&self) -> Result<(), BpfError> {
        self.links()?.iter().try_for_each(LinkPin::remove)
    }

    /// Removes links, maps and the directory, links first, and returns descriptions of them.
    pub(super) fn remove_all(&self) -> Result<Vec<String>, BpfError> {
        let mut removed = Vec::new();
        for link in self.links()? {
            link.remove()?;
            removed.push(format!("link of interface {} ({})", link.ifindex, link.mode));
        }
        // `meta` is removed first, so that an interruption leaves no set of maps.
        for name in names::FORMER.iter().chain(names::ALL).rev() {
            remove(&self.unfinished(name))?;
            if remove(&self.map(name))? {
                removed.push(format!("map {name}"));
            }
        }
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
