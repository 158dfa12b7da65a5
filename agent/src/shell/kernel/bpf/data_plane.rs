//! The open data plane: the programs, their maps and their attachments.

use std::collections::{BTreeMap, BTreeSet};

use aya::{
    Ebpf,
    maps::{MapData, RingBuf},
    programs::links::FdLink,
};
use vipward_common::{VlanKey, maps as names};
use vipward_core::host::attaching::Mode;

use super::{
    error::{BpfError, failed},
    maps::Maps,
    pins::Pins,
    programs::Programs,
};

/// A program on an interface.
pub struct Attached {
    /// The mode in which it runs.
    pub mode: Mode,
    /// The program's id.
    pub(super) program: u32,
    /// True if it is the program for the ports of a bond.
    pub(super) on_ports: bool,
    /// The open link, if there is one. The pin keeps it attached.
    pub(super) _link: Option<FdLink>,
}

/// The programs, their maps and their links.
pub struct DataPlane {
    pub(super) ebpf: Ebpf,
    pub(super) programs: Programs,
    pub(super) maps: Maps,
    pub(super) pins: Pins,
    pub(super) links: BTreeMap<u32, Attached>,
    /// The interfaces whose frames a program sees on others: VLAN devices, and bonds whose ports run it.
    pub(super) through: BTreeMap<u32, BTreeSet<VlanKey>>,
}

impl DataPlane {
    /// Returns the maps.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Returns the maps, for writing.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Returns true if everything is still pinned. Objects without a pin end with this process.
    pub fn is_pinned(&self) -> Result<bool, BpfError> {
        self.pins.has_all(self.points())
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
