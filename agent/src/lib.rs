//! Vipward's agent: keeps the program's maps, the announcements, the API server and the
//! operator informed of what [`vipward_core`] decides.

#[cfg(all(feature = "next-layout", not(debug_assertions)))]
compile_error!("`next-layout` is an invented version for tests: build without --all-features");

pub mod cli;
pub mod shell;
