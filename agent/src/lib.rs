//! Vipward's agent: decides which VIPs this node holds, and keeps the XDP program's maps, the announcements
//! and the operator informed.
//!
//! The [`core`] decides and the `shell` does; ARCHITECTURE.md draws the line between them.

#[cfg(feature = "shell")]
pub mod cli;
pub mod core;
#[cfg(feature = "shell")]
pub mod shell;
