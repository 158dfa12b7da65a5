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
    #[error(
        "this vipward was built without its XDP object: run `cargo xtask build-ebpf`, and build it again without \
         VIPWARD_EBPF_STUB"
    )]
    Stub,
    #[error("failed to load the programs from {object}")]
    Load {
        object: String,
        #[source]
        source: Box<EbpfError>,
    },
    #[error("the kernel refused program {program}")]
    Program {
        program: &'static str,
        #[source]
        source: Box<ProgramError>,
    },
    #[error("the kernel's verifier refuses program {program}: {why}. The log has all of it at level debug")]
    Refused {
        program: &'static str,
        /// The end of the verifier's log, and the kernel's error.
        why: String,
    },
    #[error("no program for interface {interface}")]
    NoProgram { interface: String, source: Box<Self> },
    #[error("the object has no {kind} named {name}; build it with `cargo xtask build-ebpf`")]
    Missing {
        /// `map` or `program`.
        kind: &'static str,
        name: &'static str,
    },
    #[error("failed to {operation} map {map}")]
    Map {
        operation: &'static str,
        map: &'static str,
        #[source]
        source: Box<MapError>,
    },
    #[error("map {map} is full at {max} entries; start the agent with a larger {option}")]
    Full { map: &'static str, max: u32, option: &'static str },
    #[error("there is room for the tags of {max} VLAN devices; name fewer in `interfaces`")]
    TooManyVlans { max: u32 },
    #[error("map {map} holds a value that this version does not write; run `vipward unload` and start again")]
    Value { map: &'static str },
    #[error("the pins are of another version: {change}. Use the vipward that the agent runs")]
    Layout { change: Change },
    #[error("failed to {operation}")]
    Sys {
        operation: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("failed to {operation} pin {}", path.display())]
    PinFile {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to pin {}", path.display())]
    Pin {
        path: PathBuf,
        #[source]
        source: PinError,
    },
    #[error("failed to {operation} the link of {interface}")]
    Link {
        operation: &'static str,
        interface: String,
        #[source]
        source: Box<LinkError>,
    },
    #[error(
        "interface {interface} has another XDP program already: {program}; an interface takes one. Set \
         `attach: auto` or `tc` (--attach), which run beside it"
    )]
    Occupied {
        interface: String,
        /// The other program's id and, where it may be read, its name.
        program: String,
    },
    #[error("failed to attach to {interface} in {mode} mode")]
    Attach {
        interface: String,
        mode: Mode,
        #[source]
        source: Box<ProgramError>,
    },
    #[error(
        "failed to attach a filter with priority {priority} to the ingress of {interface}; a filter of another \
         kind or protocol may have that priority: see `tc filter show dev {interface} ingress`, and give it a \
         larger number"
    )]
    FilterRefused {
        interface: String,
        priority: u16,
        #[source]
        source: Box<ProgramError>,
    },
    #[error("the kernel made no bpf_link on {interface}; Linux 5.9 or later is needed")]
    NoLink { interface: String },
}

pub(super) enum Replace {
    Dead,
    Failed(BpfError),
}

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

pub(super) fn not_attached(interface: &Interface, mode: Mode) -> impl FnOnce(ProgramError) -> BpfError {
    let interface = interface.name.clone();
    move |source| BpfError::Attach { interface, mode, source: Box::new(source) }
}
