//! A node and the network: clocks, interfaces, the pinned program, the agent's process.

mod frame;
mod network;
mod node;
mod process;
mod program;
mod time;
pub(crate) mod wired;
mod witness;

pub(crate) use self::{
    frame::{Frame, Oper},
    network::{Host, Network, Way},
    node::{Marks, Node, PROGRAM},
    process::{Process, Writing},
    program::{Program, Refuses, hearing::Handled},
    time::At,
    witness::{Pinger, SOCKET},
};
