//! The open data plane: the programs, their maps and their attachments.

use std::path::Path;

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
};
use vipward_common::maps as names;
use vipward_core::host::attaching::Attachments;

use super::{
    error::{BpfError, failed},
    held::Held,
    maps::Maps,
    pins::Pins,
    programs::Programs,
};

/// The programs, their maps, their attachments and their pinned objects.
pub struct DataPlane {
    pub(super) ebpf: Ebpf,
    pub(super) programs: Programs,
    pub(super) maps: Maps,
    pub(super) pins: Pins,
    pub(super) attachments: Attachments,
    pub(super) held: Held,
}

impl DataPlane {
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    pub fn attachments(&self) -> &Attachments {
        &self.attachments
    }

    /// Returns true if everything is still pinned. Objects without a pin end with this process.
    pub fn is_pinned(&self) -> Result<bool, BpfError> {
        self.pins.has_all(self.attachments.points())
    }

    /// Returns the number of objects that have lost their pins.
    pub fn unpinned(&self) -> Result<usize, BpfError> {
        Ok(self.held.unpinned(&self.pins)?.len())
    }

    /// Returns the number of objects that are to be pinned.
    pub fn objects(&self) -> usize {
        self.held.len()
    }

    /// Returns true if a pin in the directory has the name of one of these objects.
    pub fn has_pins(&self) -> Result<bool, BpfError> {
        Ok(self.unpinned()? < self.held.len())
    }

    /// Pins again what has lost its pin. The maps and links stay the same.
    pub fn pin_again(&self) -> Result<(), BpfError> {
        self.held.unpinned(&self.pins)?.iter().try_for_each(|path| self.held.pin(path))
    }

    /// Returns true if another program has detached a link.
    pub fn has_detached_link(&self) -> Result<bool, BpfError> {
        self.held.has_detached_link()
    }

    pub fn pin_dir(&self) -> &Path {
        self.pins.dir()
    }

    /// Returns the ring buffer of events. It can be taken once.
    pub fn take_events(&mut self) -> Result<RingBuf<MapData>, BpfError> {
        let map = self
            .ebpf
            .take_map(names::EVENTS)
            .ok_or(BpfError::Missing { kind: "map", name: names::EVENTS })?;
        RingBuf::try_from(map).map_err(failed("open", names::EVENTS))
    }

    /// Returns the loaded object, for aya-log.
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}
