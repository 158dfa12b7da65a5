//! The test library itself: its API server, its LANs, and what watches them.

mod apiserver;
mod lan;
mod monitor;
