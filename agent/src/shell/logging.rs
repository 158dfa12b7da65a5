//! The log: its writer, the limits of its lines, and errors in words.

pub(crate) mod causes;
pub(crate) mod lines;
mod writer;

pub use self::writer::start;

#[cfg(test)]
pub(in crate::shell) use self::writer::tests::log_of;
