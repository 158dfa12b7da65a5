//! The pinned sets of maps: the set in force, the one that is to replace it, and their removal.

use std::{collections::BTreeMap, fs, io, path::Path};

use aya::Ebpf;
use vipward_common::{PINNED, maps as names};
use vipward_core::host::layout::{Comparison, Description, MapInfo};

use super::{
    data::map_data,
    description::{self, Records},
    error::BpfError,
    pins::{LinkPin, NEW, Pinned, Pins, Set, exists, remove},
};

#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) description: Description,
    pub(super) comparison: Comparison,
}

impl Pins {
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

    pub(super) fn remove_links(&self) -> Result<(), BpfError> {
        self.links()?.iter().try_for_each(LinkPin::remove)
    }

    /// Removes links, maps and the directory, links first, and returns descriptions of them. Pins of others
    /// stay, with the directory.
    pub(super) fn remove_all(&self) -> Result<Vec<String>, BpfError> {
        let mut removed = Vec::new();
        if !self.are_vipwards()? {
            return Ok(removed);
        }
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
        match fs::remove_dir(self.dir()) {
            Ok(()) => removed.push(format!("directory {}", self.dir().display())),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {}
            Err(source) => {
                return Err(BpfError::PinFile {
                    operation: "remove the directory of",
                    path: self.dir().to_owned(),
                    source,
                });
            }
        }
        Ok(removed)
    }
}

/// Removes everything pinned under `dir`: the links, which detaches the program, the maps, and the
/// directory.
///
/// Returns a description of each object that was removed. It is no error if the directory does not
/// exist.
pub fn unload(dir: &Path) -> Result<Vec<String>, BpfError> {
    Pins::new(dir).remove_all()
}
