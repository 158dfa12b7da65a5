//! Why the thread does not run, or runs no longer.

use std::{fmt, io};

use nix::errno::Errno;
use thiserror::Error;

use crate::shell::kernel::bpf::BpfError;

/// Reason why the thread does not run, or runs no longer.
#[derive(Debug, Error)]
pub enum PingerError {
    /// The maps cannot be read or written.
    #[error("failed to {operation}")]
    Maps {
        /// The operation.
        operation: &'static str,
        /// The cause.
        #[source]
        source: BpfError,
    },
    /// A system call failed.
    #[error("failed to {operation}")]
    System {
        /// The operation.
        operation: &'static str,
        /// The kernel's error.
        #[source]
        source: Errno,
    },
    /// The thread cannot be started.
    #[error("failed to start the thread")]
    Thread(#[source] io::Error),
    /// It has panicked.
    #[error("the thread has panicked: {0}")]
    Panicked(Panic),
}

/// The message of a panic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic(pub(super) String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) fn maps(operation: &'static str) -> impl FnOnce(BpfError) -> PingerError {
    move |source| PingerError::Maps { operation, source }
}

pub(super) fn system(operation: &'static str) -> impl FnOnce(Errno) -> PingerError {
    move |source| PingerError::System { operation, source }
}
