//! Network cards, links and kernels that this machine lacks, in virtual machines: `cargo xtask vm`.
#![forbid(unsafe_code)]

mod bonds;
mod cables;
mod links;
mod probing;
mod proving;
mod receiving;
mod removed;
mod scenarios;
mod segment;
mod spanning_tree;
mod takeovers;
mod verifier;
mod vlans;
mod yields;
