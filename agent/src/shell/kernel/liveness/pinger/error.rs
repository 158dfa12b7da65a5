//! Why the thread does not run, or runs no longer.

use std::{fmt, io};

use nix::errno::Errno;
use thiserror::Error;

use crate::shell::kernel::bpf::BpfError;

#[derive(Debug, Error)]
pub enum PingerError {
    #[error("failed to {operation}")]
    Maps {
        operation: &'static str,
        #[source]
        source: BpfError,
    },
    #[error("failed to {operation}")]
    System {
        operation: &'static str,
        #[source]
        source: Errno,
    },
    #[error("failed to start the thread")]
    Thread(#[source] io::Error),
    #[error("the thread has panicked: {0}")]
    Panicked(Panic),
}

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
