//! Vipward's agent: keeps the program's maps, the announcements, the API server and the
//! operator informed of what [`vipward_core`] decides.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//! - [`cli`]: the command line and its help.
//! - [`shell`]: one kind of I/O in each module, and no decisions.

#[cfg(all(feature = "next-layout", not(debug_assertions)))]
compile_error!("`next-layout` is an invented version for tests: build without --all-features");

pub mod cli;
pub mod shell;
