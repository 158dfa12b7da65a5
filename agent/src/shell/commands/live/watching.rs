//! What is watched and how, and why watching ends.

use std::{io, time::Duration};

use thiserror::Error;
use vipward_core::diagnosis::pinned::Status;

use crate::shell::kernel::{
    bpf::Pins,
    status::{self, StatusError},
};

/// The reason why watching ended.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The pins cannot be read.
    #[error("there is nothing to watch")]
    Status(#[from] StatusError),
    /// A standard output that is no terminal.
    #[error("standard output is no terminal: use --plain for lines")]
    NoTerminal,
    /// The terminal cannot be used.
    #[error("failed to {what} the terminal")]
    Terminal {
        /// The operation.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be listened to.
    #[error("failed to listen to signals")]
    Signals(#[source] io::Error),
    /// Lines cannot be written.
    #[error("failed to print")]
    Print(#[source] io::Error),
}

/// The form of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// Text for people.
    Text,
    /// JSON, one object a line.
    Json,
}

/// The settings of watching.
#[derive(Clone, Debug)]
pub struct Watching {
    /// The pins to read.
    pub pins: Pins,
    /// The time between two readings.
    pub interval: Duration,
}

impl Watching {
    /// Reads the status.
    pub(super) async fn look(&self) -> Result<Status, StatusError> {
        status::read(&self.pins).await
    }
}
