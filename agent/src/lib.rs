//! Vipward's agent: keeps the program's maps, the announcements, the API server and the
//! operator informed of what [`vipward_core`] decides.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`cli`]: the command line and its help.
//! - [`shell`]: everything that reads and writes, and the loops that ask the core and carry out.

#[cfg(all(feature = "next-layout", not(debug_assertions)))]
compile_error!("`next-layout` is an invented version for tests: build without --all-features");

pub mod cli;
pub mod shell;
