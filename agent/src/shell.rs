//! The shell does: one kind of I/O a module, no decisions.

pub mod bind;
pub mod bpf;
pub mod clock;
pub mod kube;
pub mod netlink;
pub mod packet;
pub mod preflight;
pub mod run;
pub mod status;
pub mod watch;

#[cfg(test)]
mod testing;
