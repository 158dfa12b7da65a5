//! The data plane in the kernel: loads, pins, attaches and replaces the program, and accesses its
//! maps.
//!
//! The agent holds one [`DataPlane`] per pin directory. [`Reader`] reads the same pins without it.
//! Reports are read back from the kernel, never remembered.

mod attach;
mod bulk;
mod maps;
mod migrate;
mod pins;
mod reader;
mod sys;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use aya::{
    Ebpf, EbpfError, EbpfLoader, include_bytes_aligned,
    maps::{Map, MapData, MapError, RingBuf},
    pin::PinError,
    programs::{ProgramError, Xdp, links::LinkError},
};
use thiserror::Error;
use vipward_common::{ABI_VERSION, Fence, Meta, maps as names};
use vipward_core::pinned::Mode;

use self::bulk::Bulk;
pub use self::{
    attach::Attached,
    maps::{Maps, VipCount},
    pins::{LinkPin, Pins},
    reader::{Extent, Reader, plane},
};

/// The object that `cargo xtask build-ebpf` builds, with the layout of this version.
static OBJECT: &[u8] = include_bytes_aligned!(env!("VIPWARD_EBPF_OBJECT"));

/// The program's name in the object and in the kernel.
pub const PROGRAM: &str = "vipward";

/// A failure of an operation on the kernel's BPF objects.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The object could not be read or loaded.
    #[error("failed to load the XDP program from {object}")]
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
        /// The kernel's error, with the verifier's log.
        #[source]
        source: Box<ProgramError>,
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
    /// A map holds a value that this version does not write.
    #[error("map {map} holds a value that this version does not write; run `vipward unload` and start again")]
    Value {
        /// The map's name.
        map: &'static str,
    },
    /// The maps have another layout.
    #[error("the pins have layout {found}, and this vipward reads layout {ABI_VERSION} only")]
    Layout {
        /// Their layout.
        found: u32,
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
        "interface {interface} has another XDP program already: {program}; an interface takes one. Detach it, \
         or leave the interface out of `interfaces:`"
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// The other program's id and, where it may be read, its name.
        program: String,
    },
    /// The program could not be attached.
    #[error("failed to attach {PROGRAM} to {interface} in {mode} mode")]
    Attach {
        /// The interface.
        interface: String,
        /// The mode.
        mode: Mode,
        /// The kernel's error.
        #[source]
        source: Box<ProgramError>,
    },
    /// The kernel offers only a netlink attachment, which ends with the agent.
    #[error("the kernel has no bpf_link for XDP on {interface}; Linux 5.9 or later is needed")]
    NoLink {
        /// The interface.
        interface: String,
    },
}

/// The options of opening the data plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// The pin directory, on a bpffs.
    pub pin_dir: PathBuf,
    /// The size of `vips_v4`.
    pub max_vips: u32,
    /// True if the program logs claims through aya-log. Off, that costs nothing.
    pub log: bool,
    /// An object to load instead of the embedded one.
    pub object: Option<PathBuf>,
    /// The fence of new maps, which are never without one.
    pub fence: Fence,
}

/// A loader. It is made while the agent has little else in memory: aya reads the kernel's BTF for
/// it, which takes 15 MiB for a moment. The program reads no kernel structure and needs no BTF.
pub struct Loader(EbpfLoader<'static>);

impl Loader {
    /// Makes the loader.
    pub fn new() -> Self {
        let mut loader = EbpfLoader::new();
        loader.btf(None);
        Self(loader)
    }
}

impl Default for Loader {
    fn default() -> Self {
        Self::new()
    }
}

/// The pinned state that was found when the data plane was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// New maps: nothing was pinned.
    Fresh,
    /// Maps of this layout and size were pinned, and go on.
    Reused,
    /// Maps of another size were pinned. Their entries were taken over.
    Resized {
        /// Their size.
        from: u32,
        /// The new size.
        to: u32,
        /// Entries that did not fit.
        dropped: usize,
    },
    /// Maps of another layout were pinned. Their entries were taken over.
    Migrated {
        /// Their ABI version.
        from: u32,
        /// The new ABI version.
        to: u32,
        /// Entries that did not fit or could not be read.
        dropped: usize,
    },
}

/// The loaded program, its maps and its links.
pub struct DataPlane {
    ebpf: Ebpf,
    maps: Maps,
    pins: Pins,
    links: BTreeMap<u32, Attached>,
}

impl DataPlane {
    /// Opens the pinned data plane, or makes one. A program that is attached already is replaced
    /// atomically.
    pub fn open(loader: Loader, options: &Options) -> Result<(Self, Opening), BpfError> {
        let pins = Pins::new(&options.pin_dir);
        let found = pins.inspect()?;
        let reuse = found.as_ref().is_some_and(|found| {
            found.meta == Meta::CURRENT && found.max_vips == options.max_vips && found.complete
        });
        let mut ebpf = load(loader, options, if reuse { Some(&pins) } else { None })?;
        if let Some(name) = names::ALL.iter().find(|name| ebpf.map(name).is_none()) {
            return Err(BpfError::Missing { kind: "map", name });
        }
        load_program(&mut ebpf)?;

        if reuse {
            let maps = Maps::take(&mut ebpf)?;
            let mut plane = Self { ebpf, maps, pins, links: BTreeMap::new() };
            plane.take_over_links()?;
            return Ok((plane, Opening::Reused));
        }
        pins.clear_unfinished()?;
        pins.pin_new(&ebpf)?;
        let mut maps = Maps::take(&mut ebpf)?;
        maps.set_meta(&Meta::CURRENT)?;
        maps.set_fence(&options.fence)?;
        let Some(found) = found else {
            pins.remove_links()?;
            pins.publish()?;
            return Ok((Self { ebpf, maps, pins, links: BTreeMap::new() }, Opening::Fresh));
        };
        let old = migrate::Old::open(&pins, &found)?;
        let dropped = old.copy_entries(&mut maps)?;
        let mut plane = Self { ebpf, maps, pins, links: BTreeMap::new() };
        plane.take_over_links()?;
        // From here on nothing writes the old maps.
        old.copy_yields(&mut plane.maps)?;
        plane.pins.publish()?;
        let opening = if found.meta == Meta::CURRENT {
            Opening::Resized { from: found.max_vips, to: options.max_vips, dropped }
        } else {
            Opening::Migrated { from: found.meta.abi_version, to: Meta::CURRENT.abi_version, dropped }
        };
        Ok((plane, opening))
    }

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
        self.pins.has_all(self.attached())
    }

    /// Returns the loaded program's id.
    pub fn program_id(&mut self) -> Result<u32, BpfError> {
        let program = program_mut(&mut self.ebpf)?;
        Ok(program.info().map_err(refused)?.id())
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

/// Loads the object, and creates the maps or opens the pinned ones.
fn load(loader: Loader, options: &Options, reuse: Option<&Pins>) -> Result<Ebpf, BpfError> {
    const OFF: &u8 = &0;
    const ON: &u8 = &u8::MAX;
    let Loader(mut loader) = loader;
    loader
        .map_max_entries(names::VIPS_V4, options.max_vips)
        .map_max_entries(names::VIP_STATE, options.max_vips)
        // An object that was built without log lines has no log level.
        .override_global("AYA_LOG_LEVEL", if options.log { ON } else { OFF }, false);
    if let Some(pins) = reuse {
        for name in names::ALL {
            loader.map_pin_path(name, pins.map(name));
        }
    }
    let (loaded, object) = match &options.object {
        Some(path) => (loader.load_file(path), path.display().to_string()),
        None => (loader.load(OBJECT), "the object in this binary".to_owned()),
    };
    loaded.map_err(|source| BpfError::Load { object, source: Box::new(source) })
}

fn load_program(ebpf: &mut Ebpf) -> Result<(), BpfError> {
    program_mut(ebpf)?.load().map_err(refused)
}

fn program_mut(ebpf: &mut Ebpf) -> Result<&mut Xdp, BpfError> {
    ebpf.program_mut(PROGRAM)
        .and_then(|program| program.try_into().ok())
        .ok_or(BpfError::Missing { kind: "XDP program", name: PROGRAM })
}

fn refused(source: ProgramError) -> BpfError {
    BpfError::Program { program: PROGRAM, source: Box::new(source) }
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
