//! Times, pauses between attempts, addresses, names and texts.
//!
//! The limits are of three kinds. `pace` is a rate that nothing changes. [`concurrency`] is a number of requests
//! under way that follows a server's answers. [`retrying`] repeats one write until it succeeds.

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
