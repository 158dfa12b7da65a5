//! The data plane in the kernel: loading, pinning, attaching and replacing the program, and its maps.
//!
//! One [`DataPlane`] per pin directory, held by the agent; [`Maps::open`] and [`Pins`] read the same pins
//! without it. What is reported is read back from the kernel, never remembered.

mod attach;
mod bulk;
mod maps;
mod migrate;
mod pins;
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
use vipward_common::{Fence, Meta, maps as names};

pub use self::{
    attach::{Attached, Mode},
    bulk::Bulk,
    maps::{Maps, VipCount},
    pins::{LinkPin, Pins},
};

/// The object that is built by `cargo xtask build-ebpf`, with the layout of this version.
static OBJECT: &[u8] = include_bytes_aligned!(env!("VIPWARD_EBPF_OBJECT"));

/// The program's name in the object and in the kernel.
pub const PROGRAM: &str = "vipward";

/// What can go wrong between the agent and the kernel's BPF objects.
#[derive(Debug, Error)]
pub enum BpfError {
    /// The object could not be read or loaded.
    #[error("failed to load the XDP program from {object}")]
    Load {
        /// Where the object came from.
        object: String,
        /// The loader's error.
        #[source]
        source: Box<EbpfError>,
    },
    /// The program was refused.
    #[error("the kernel refused program {program}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The kernel's error, with the verifier's log.
        #[source]
        source: Box<ProgramError>,
    },
    /// The object lacks something.
    #[error("the object has no {kind} named {name}; build it with `cargo xtask build-ebpf`")]
    Missing {
        /// Map or program.
        kind: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// A map could not be opened, read or written.
    #[error("failed to {operation} map {map}")]
    Map {
        /// What was tried.
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
        /// What makes it larger.
        option: &'static str,
    },
    /// A value in a map is not what this version writes.
    #[error("map {map} holds a value that is none of this version's; run `vipward unload` and start again")]
    Value {
        /// The map's name.
        map: &'static str,
    },
    /// A system call on a map or link failed.
    #[error("failed to {operation}")]
    Sys {
        /// What was tried.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// A pin could not be made, read or removed.
    #[error("failed to {operation} pin {}", path.display())]
    PinFile {
        /// What was tried.
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
        /// Where.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: PinError,
    },
    /// A link could not be opened, replaced or read.
    #[error("failed to {operation} the link of {interface}")]
    Link {
        /// What was tried.
        operation: &'static str,
        /// Whose link.
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
        /// The mode tried.
        mode: Mode,
        /// The kernel's error.
        #[source]
        source: Box<ProgramError>,
    },
    /// Only a netlink attachment could be had, which ends with the agent.
    #[error("the kernel has no bpf_link for XDP on {interface}; Linux 5.9 or later is needed")]
    NoLink {
        /// The interface.
        interface: String,
    },
}

/// How the data plane is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is pinned: a directory on a bpffs.
    pub pin_dir: PathBuf,
    /// Entries of `vips_v4`.
    pub max_vips: u32,
    /// Whether the program logs claims through aya-log; off costs nothing.
    pub log: bool,
    /// Another object than the embedded one.
    pub object: Option<PathBuf>,
    /// The fence of maps that are new, so that there is no instant without one.
    pub fence: Fence,
}

/// A loader, to be made while the agent has little else in memory: aya reads the kernel's own BTF for it, which
/// takes 15 MiB for a moment and is of no use here, since the program reads no kernel structure.
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

/// What was found when the data plane was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// Nothing: new maps.
    Fresh,
    /// Maps of this layout and size, which go on.
    Reused,
    /// Maps of another size, whose entries were taken over.
    Resized {
        /// The size found.
        from: u32,
        /// The size now.
        to: u32,
        /// Entries that did not fit.
        dropped: usize,
    },
    /// Maps of another layout, whose entries were taken over.
    Migrated {
        /// The ABI version found.
        from: u32,
        /// The ABI version now.
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
    /// Opens what is pinned, or makes it; a program that is attached already is replaced atomically by this one.
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
        // Only now does nothing write the old maps any more.
        old.copy_yields(&mut plane.maps)?;
        plane.pins.publish()?;
        let opening = if found.meta == Meta::CURRENT {
            Opening::Resized { from: found.max_vips, to: options.max_vips, dropped }
        } else {
            Opening::Migrated { from: found.meta.abi_version, to: Meta::CURRENT.abi_version, dropped }
        };
        Ok((plane, opening))
    }

    /// The maps.
    pub fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The maps, for writing.
    pub fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Whether everything is still pinned; what is not ends with this process.
    pub fn is_pinned(&self) -> Result<bool, BpfError> {
        self.pins.has_all(self.attached())
    }

    /// The loaded program's id.
    pub fn program_id(&mut self) -> Result<u32, BpfError> {
        let program = program_mut(&mut self.ebpf)?;
        Ok(program.info().map_err(refused)?.id())
    }

    /// The ring buffer of events; it can be taken once.
    pub fn take_events(&mut self) -> Result<RingBuf<MapData>, BpfError> {
        let map = self
            .ebpf
            .take_map(names::EVENTS)
            .ok_or(BpfError::Missing { kind: "map", name: names::EVENTS })?;
        RingBuf::try_from(map).map_err(maps::failed("open", names::EVENTS))
    }

    /// The loaded object, for aya-log.
    pub fn object_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }
}

/// Reads the object and creates the maps, or opens the pinned ones.
fn load(loader: Loader, options: &Options, reuse: Option<&Pins>) -> Result<Ebpf, BpfError> {
    const OFF: &u8 = &0;
    const ON: &u8 = &u8::MAX;
    let Loader(mut loader) = loader;
    loader
        .map_max_entries(names::VIPS_V4, options.max_vips)
        .map_max_entries(names::VIP_STATE, options.max_vips)
        // An object that was built without log lines has no such level.
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

/// The kernel's objects behind a map, whatever its kind.
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

/// The ids of the programs that are attached to an interface in one way (`enum bpf_attach_type`); a kernel that does not
/// know it says `EINVAL`.
pub(crate) fn attached_programs(ifindex: u32, attach_type: u32) -> io::Result<Vec<u32>> {
    sys::attached_programs(ifindex, attach_type)
}

/// Removes everything that is pinned under `dir`: the links (which detaches the program), the maps, the directory.
///
/// Returns what was removed, for telling the user. A directory that does not exist is nothing to remove.
pub fn unload(dir: &Path) -> Result<Vec<String>, BpfError> {
    Pins::new(dir).remove_all()
}
