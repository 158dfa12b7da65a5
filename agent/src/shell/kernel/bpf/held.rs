//! The pinned objects of the running agent, by descriptor. They live on without their pins, and can be
//! pinned again.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use vipward_common::maps as names;
use vipward_core::host::layout::Description;

use super::{
    description::Records,
    error::BpfError,
    pins::{LinkPin, Pinned, Pins, Set},
    sys,
};

#[derive(Default)]
pub(super) struct Held(BTreeMap<PathBuf, OwnedFd>);

impl Held {
    /// Opens Vipward's pins, also of maps that only another version knows.
    pub(super) fn all(pins: &Pins) -> Result<Self, BpfError> {
        let unknown = match Records::open(pins, Set::InForce)? {
            Some(records) => records.read()?.unknown(),
            None => Description::default(),
        };
        let maps: BTreeSet<PathBuf> = names::all()
            .map(|name| pins.map(name))
            .chain(unknown.maps().map(|name| pins.map(name)))
            .collect();
        let is_vipwards = |path: &PathBuf| maps.contains(path) || LinkPin::of(path.clone()).is_some();
        let mut held = Self::default();
        pins.files()?.into_iter().filter(is_vipwards).try_for_each(|path| held.add(path))?;
        Ok(held)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, path: PathBuf) -> Result<(), BpfError> {
        let object = sys::open(&path).map_err(failed("open", &path))?;
        self.0.insert(path, object);
        Ok(())
    }

    /// Closes attachments. A link without a pin ends.
    pub(super) fn close(&mut self, is_closed: impl Fn(&LinkPin) -> bool) {
        self.0.retain(|path, _| LinkPin::of(path.clone()).is_none_or(|pin| !is_closed(&pin)));
    }

    /// Returns the paths of the objects that have lost their pins. `layout` comes last: it makes a set
    /// of maps whole.
    pub(super) fn unpinned(&self, pins: &Pins) -> Result<Vec<PathBuf>, BpfError> {
        let there: BTreeSet<PathBuf> = pins.files()?.into_iter().collect();
        let mut unpinned: Vec<_> = self.0.keys().filter(|path| !there.contains(*path)).cloned().collect();
        unpinned.sort_by_key(|path| *path == pins.map(names::LAYOUT));
        Ok(unpinned)
    }

    /// Pins an object again.
    pub(super) fn pin(&self, path: &Path) -> Result<(), BpfError> {
        let Some(object) = self.0.get(path) else { return Ok(()) };
        sys::pin(object, path).map_err(failed("restore", path))
    }

    /// Returns true if another program has detached a link.
    pub(super) fn has_detached_link(&self) -> Result<bool, BpfError> {
        for (path, object) in &self.0 {
            let is_link = LinkPin::of(path.clone()).is_some_and(|pin| pin.kind == Pinned::Link);
            if is_link && sys::is_detached(object).map_err(failed("query the link of", path))? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BpfError {
    move |source| BpfError::PinFile { operation, path: path.to_owned(), source }
}
