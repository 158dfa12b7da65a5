//! The data plane in the kernel: loads, pins, attaches and replaces the program, and accesses its
//! maps.
//!
//! The agent holds one [`DataPlane`] per pin directory. [`Reader`] reads the same pins without it.
//! Reports are read back from the kernel, never remembered.

mod attach;
mod bulk;
mod description;
mod filter;
mod maps;
mod migrate;
mod opening;
mod pins;
mod programs;
mod reader;
mod sys;
mod vips;
mod wire;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf, EbpfError,
    maps::{Map, MapData, MapError, RingBuf},
    pin::PinError,
    programs::{ProgramError, links::LinkError},
};
use thiserror::Error;
use vipward_common::{VlanKey, maps as names};
use vipward_core::host::{attaching::Mode, layout::Change};

pub use self::{
    attach::Attached,
    maps::{Maps, VipCount},
    opening::{Loader, Opening, Options},
    pins::{LinkPin, Pins},
    reader::{Extent, Reader, plane},
    wire::WireMaps,
};
use self::{bulk::Bulk, pins::Set, programs::Programs};

/// A failure of an operation on the kernel's BPF objects.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The object could not be read or loaded.
    #[error("failed to load the programs from {object}")]
    Load {
        /// The source of the object.
        object: String,
        /// The loader's error.
        #[source]
        source: Box<EbpfError>,
    },
    /// The kernel refused the program.
    #[error("the kernel refused program {program}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        #[source]
        source: Box<ProgramError>,
    },
    /// The verifier refused the program.
    #[error("the kernel's verifier refuses program {program}: {why}. The log has all of it at level debug")]
    Refused {
        /// Its name.
        program: &'static str,
        /// The end of the verifier's log, and the kernel's error.
        why: String,
    },
    /// The program for an interface cannot be loaded.
    #[error("no program for interface {interface}")]
    NoProgram {
        /// The interface.
        interface: String,
        /// The reason.
        source: Box<Self>,
    },
    /// The object lacks a map or program.
    #[error("the object has no {kind} named {name}; build it with `cargo xtask build-ebpf`")]
    Missing {
        /// `map` or `program`.
        kind: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// A map could not be opened, read or written.
    #[error("failed to {operation} map {map}")]
    Map {
        /// The operation.
        operation: &'static str,
        /// The map's name.
        map: &'static str,
        /// The kernel's error.
        #[source]
        source: Box<MapError>,
    },
    /// The map is full.
    #[error("map {map} is full at {max} entries; start the agent with a larger {option}")]
    Full {
        /// The map's name.
        map: &'static str,
        /// Its size.
        max: u32,
        /// The option that makes it larger.
        option: &'static str,
    },
    /// More VLAN devices than the map of their tags has room for.
    #[error("there is room for the tags of {max} VLAN devices; name fewer in `interfaces`")]
    TooManyVlans {
        /// The size of the map.
        max: u32,
    },
    /// A map holds a value that this version does not write.
    #[error("map {map} holds a value that this version does not write; run `vipward unload` and start again")]
    Value {
        /// The map's name.
        map: &'static str,
    },
    /// The maps have another layout.
    #[error("the pins are of another version: {change}. Use the vipward that the agent runs")]
    Layout {
        /// The first difference.
        change: Change,
    },
    /// A system call on a map or link failed.
    #[error("failed to {operation}")]
    Sys {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A pin could not be made, read or removed.
    #[error("failed to {operation} pin {}", path.display())]
    PinFile {
        /// The operation.
        operation: &'static str,
        /// The pin.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// An object could not be pinned.
    #[error("failed to pin {}", path.display())]
    Pin {
        /// The pin.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: PinError,
    },
    /// A link could not be opened, replaced or read.
    #[error("failed to {operation} the link of {interface}")]
    Link {
        /// The operation.
        operation: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's error.
        #[source]
        source: Box<LinkError>,
    },
    /// Another XDP program is attached.
    #[error(
        "interface {interface} has another XDP program already: {program}; an interface takes one. Set `attach: auto` or \
         `tc` (--attach), which run beside it"
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// The other program's id and, where it may be read, its name.
        program: String,
    },
    /// The program could not be attached.
    #[error("failed to attach to {interface} in {mode} mode")]
    Attach {
        /// The interface.
        interface: String,
        /// The mode.
        mode: Mode,
        /// The kernel's error.
        #[source]
        source: Box<ProgramError>,
    },
    /// The kernel refused the filter of traffic control.
    #[error(
        "failed to attach a filter with priority {priority} to the ingress of {interface}; a filter of another kind or \
         protocol may have that priority: see `tc filter show dev {interface} ingress`, and give it a larger number"
    )]
    FilterRefused {
        /// The interface.
        interface: String,
        /// The priority.
        priority: u16,
        /// The kernel's error.
        #[source]
        source: Box<ProgramError>,
    },
    /// The kernel offers only a netlink attachment, which ends with the agent.
    #[error("the kernel made no bpf_link on {interface}; Linux 5.9 or later is needed")]
    NoLink {
        /// The interface.
        interface: String,
    },
}

/// The programs, their maps and their links.
pub struct DataPlane {
    ebpf: Ebpf,
    programs: Programs,
    maps: Maps,
    pins: Pins,
    links: BTreeMap<u32, Attached>,
    /// The interfaces whose frames a program sees on others: VLAN devices, and bonds whose ports run it.
    through: BTreeMap<u32, BTreeSet<VlanKey>>,
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
        RingBuf::try_from(map).map_err(maps::failed("open", names::EVENTS))
    }

    /// Returns the loaded object, for aya-log.
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

/// Returns the data of a map of any kind.
fn map_data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::PerCpuArray(data)
        | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

/// Returns the ids of the programs attached to an interface with a type of `enum bpf_attach_type`.
/// A kernel without that type returns `EINVAL`.
pub(crate) fn attached_programs(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    sys::attached_programs(ifindex, attach_type)
}

/// Removes everything pinned under `dir`: the links, which detaches the program, the maps, and the
/// directory.
///
/// Returns a description of each object that was removed. It is no error if the directory does not
/// exist.
pub fn unload(dir: &Path) -> Result<Vec<String>, BpfError> {
    Pins::new(dir).remove_all()
}
