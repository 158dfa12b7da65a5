//! The failures of operations on the kernel's BPF objects.

use std::{io, path::PathBuf};

use aya::{
    EbpfError,
    maps::MapError,
    pin::PinError,
    programs::{ProgramError, links::LinkError},
};
use thiserror::Error;
use vipward_core::host::{attaching::Mode, layout::Change, net::Interface};

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
        "interface {interface} has another XDP program already: {program}; an interface takes one. Set \
         `attach: auto` or `tc` (--attach), which run beside it"
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

/// The failure of a replacement.
pub(super) enum Replace {
    /// There is nothing to replace.
    Dead,
    /// The kernel refused.
    Failed(BpfError),
}

/// Wraps a map error with its operation.
pub(super) fn failed<E: Into<MapError>>(
    operation: &'static str,
    map: &'static str,
) -> impl FnOnce(E) -> BpfError {
    move |source| BpfError::Map { operation, map, source: Box::new(source.into()) }
}

pub(super) fn absent_is_fine(result: Result<(), MapError>, map: &'static str) -> Result<(), BpfError> {
    match result {
        Ok(()) | Err(MapError::KeyNotFound) => Ok(()),
        Err(error) => Err(failed("remove from", map)(error)),
    }
}

/// Returns the error of a program that could not be attached.
pub(super) fn attaching(interface: &Interface, mode: Mode) -> impl FnOnce(ProgramError) -> BpfError {
    let interface = interface.name.clone();
    move |source| BpfError::Attach { interface, mode, source: Box::new(source) }
}
