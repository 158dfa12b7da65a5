//! The test library itself: its API server, its LANs, and its observers.

mod apiserver;
mod lan;
mod monitor;
mod threats;
