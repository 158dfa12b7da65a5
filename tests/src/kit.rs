//! Runs processes, external tools and threads, and waits for conditions.
//!
//! - [`wait_for`], [`interrupt`]: waiting for a condition, and Ctrl-C.
//! - [`Process`]: child processes, and what the kernel counts of a process.
//! - [`tools`]: external tools, such as `bpftool`.

pub mod interrupt;
mod process;
pub mod tools;
mod wait;
pub(crate) mod worker;

pub use self::{
    process::{Process, SpawnOptions, cpu_time, memory_bytes, output_of, require_root, thread_time},
    wait::{wait_for, wait_until},
};
