//! Vipward's agent: carries out what [`vipward_core`] decides, and reports it to the operator.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`cli`]: the command line and its help.
//! - [`shell`]: everything that reads and writes, and the loops that step the core.

#[cfg(all(feature = "next-layout", not(debug_assertions)))]
compile_error!("`next-layout` is an invented version for tests: build without --all-features");

pub mod cli;
pub mod shell;
