//! Times, pauses between attempts, addresses, names and texts.

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
