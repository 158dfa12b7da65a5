//! Tables of the composed agent: each input in each state that matters, with the effects in their order.

mod api;
mod cluster;
mod failing;
mod file;
mod lines;
mod living;
mod network;
mod order;
mod probing;
mod program;
mod receiving;
mod snapshot;
mod two_hosts;
mod unheard;
mod waiting;
mod world;
mod yielding;

use super::*;
use crate::agent::*;
