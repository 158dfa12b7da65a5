//! The test library itself: its API server, its LANs, and its observers.
#![forbid(unsafe_code)]

mod apiserver;
mod lan;
mod monitor;
mod threats;
