//! The data plane in the kernel: loads, pins, attaches and replaces the program, and accesses its
//! maps.
//!
//! The agent holds one [`DataPlane`] per pin directory. [`Reader`] reads the same pins without it.
//! Reports are read back from the kernel, and never from the agent's memory.

mod attach;
mod bulk;
mod data;
mod data_plane;
mod description;
mod error;
mod filter;
mod held;
mod liveness;
mod maps;
mod migrate;
mod opening;
mod pins;
mod programs;
mod reader;
mod sets;
mod sys;
mod vips;

pub(crate) use self::{attach::describe, sys::attached_programs};
pub use self::{
    data::VipCount,
    data_plane::DataPlane,
    error::BpfError,
    liveness::WireMaps,
    maps::Maps,
    opening::{Loader, Opening, Options},
    pins::{LinkPin, Pins},
    reader::{Reader, plane},
    sets::unload,
};
