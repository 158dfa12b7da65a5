//! Times, pauses between attempts, addresses, names and texts.
//!
//! `pace` limits what is sent by a fixed rate. [`concurrency`] limits the requests that are under way, and
//! its limit follows the server's answers. [`retrying`] limits nothing: it repeats each write until it succeeds.

pub mod address;
pub mod concurrency;
pub mod legible;
pub(crate) mod pace;
pub mod pattern;
pub mod retrying;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod schema;
pub mod time;
