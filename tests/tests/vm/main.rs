//! Network cards, links and kernels that this machine lacks, in virtual machines: `cargo xtask vm`.
#![forbid(unsafe_code)]

mod asking;
mod bonds;
mod cables;
mod hearing;
mod links;
mod proving;
mod scenarios;
mod segment;
mod takeovers;
mod verifier;
mod vlans;
mod yields;
