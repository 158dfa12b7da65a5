//! A node, the network and a controller: clocks, interfaces, the pinned program, the processes.

mod desk;
mod frame;
mod leader;
mod network;
mod node;
mod process;
mod program;
mod time;
pub(crate) mod wired;
mod witness;

pub(crate) use self::{
    desk::Desk,
    frame::{Frame, Oper},
    leader::{Candidate, Contender, Elected, Leading},
    network::{Host, Network, Way},
    node::{Faults, Marks, Node, Noise, PROGRAM},
    process::{Process, Watch, Writing},
    program::{Program, Refuses, receiving::Handled},
    time::{At, Clock},
    witness::{Pinger, SOCKET},
};
