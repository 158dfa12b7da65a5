//! A node and the network: clocks, interfaces, the pinned program, the agent's process.

mod network;
mod node;
mod process;
mod program;
mod time;
pub(crate) mod wired;
mod witness;

pub(crate) use self::{
    network::{Host, Network, Way},
    node::{Marks, Node},
    process::Process,
    program::{FenceState, Program, Role, Slot},
    time::At,
    witness::{Pinger, SOCKET},
};
