//! Computes what the program must do with a frame, and runs it in this machine's kernel to compare.
//! The oracle follows the frame tables of docs/internals/dataplane.md alone. It shares no code with the program:
//! it reads frames byte by byte, and its tables are data ([`table::expect`]). A test can flip any cell
//! to prove that the comparison notices it.
//!
//! - [`kernel`], [`verifier`]: the program run frame by frame, and the counts of the kernel's verifier.
//! - [`world`], [`table`]: the contents of the maps, and the frame tables.
//! - [`Oracle`], [`wire`]: expected results, also of wire failover.
//! - [`generate`], [`replay`]: random frames, and the comparison.

mod answer;
mod arp;
mod expected;
mod frame;
pub mod generate;
pub mod kernel;
mod nd;
mod question;
pub mod replay;
pub mod table;
pub mod verifier;
pub mod wire;
pub mod world;

pub use self::{
    expected::{Counter, Notified, Offence, Oracle, Outcome, Step, Tally},
    world::Protocol,
};
