//! Network cards, links and kernels that this machine lacks, in virtual machines: `cargo xtask vm`.

mod links;
mod proving;
mod segment;
mod takeovers;
mod verifier;
mod vlans;
mod yields;
