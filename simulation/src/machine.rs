//! A node, the network and a controller: clocks, interfaces, the pinned program, the processes.

mod desk;
mod frame;
mod leader;
mod monitor;
mod network;
mod node;
mod process;
mod program;
mod proxy;
mod time;
pub(crate) mod wired;

pub(crate) use self::{
    desk::Desk,
    frame::{Frame, Oper},
    leader::{Candidate, Contender, Elected, Leading},
    monitor::{Pinger, SOCKET},
    network::{Host, Network, Way},
    node::{Faults, Marks, Node, Noise, PROGRAM},
    process::{Process, Watch, Writing},
    program::{Program, Refuses, receiving::Handled},
    time::{At, Clock},
};
