//! Network cards, links and kernels that this machine lacks, in virtual machines: `cargo xtask vm`.
#![forbid(unsafe_code)]

mod asking;
mod bonds;
mod cables;
mod links;
mod proving;
mod receiving;
mod scenarios;
mod segment;
mod takeovers;
mod verifier;
mod vlans;
mod yields;
