//! The log: its writer, the limits of its lines, and the text of errors.

pub(crate) mod errors;
pub(crate) mod lines;
mod writer;

pub use self::{
    errors::{chain, is_denied},
    writer::start,
};

#[cfg(test)]
pub(in crate::shell) use self::writer::tests::log_of;
