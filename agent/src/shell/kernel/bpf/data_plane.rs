//! The open data plane: the programs, their maps and their attachments.

use std::collections::BTreeMap;

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
    programs::links::FdLink,
};
use vipward_common::maps as names;
use vipward_core::host::attaching::Attachments;

use super::{
    error::{BpfError, failed},
    maps::Maps,
    pins::Pins,
    programs::Programs,
};

/// The programs, their maps, their attachments and their links.
pub struct DataPlane {
    pub(super) ebpf: Ebpf,
    pub(super) programs: Programs,
    pub(super) maps: Maps,
    pub(super) pins: Pins,
    pub(super) attachments: Attachments,
    /// The open links by ifindex. A filter of traffic control has none. The pins keep them attached.
    pub(super) links: BTreeMap<u32, FdLink>,
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
