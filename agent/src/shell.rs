//! The shell does: one kind of I/O a module, no decisions.

pub mod bpf;
pub mod clock;
pub mod status;
