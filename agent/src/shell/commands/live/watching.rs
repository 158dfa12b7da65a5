//! What is watched and how, and why watching ends.

use std::{io, time::Duration};

use thiserror::Error;
use vipward_core::diagnosis::pinned::Status;

use crate::shell::kernel::{
    bpf::Pins,
    status::{self, StatusError},
};

#[derive(Debug, Error)]
pub enum LiveError {
    #[error("there is nothing to watch")]
    Status(#[from] StatusError),
    #[error("standard output is no terminal: use --plain for lines")]
    NoTerminal,
    #[error("failed to {what} the terminal")]
    Terminal {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("failed to listen to signals")]
    Signals(#[source] io::Error),
    #[error("failed to print")]
    Print(#[source] io::Error),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    Text,
    /// JSON, one object a line.
    Json,
}

#[derive(Clone, Debug)]
pub struct Watching {
    pub pins: Pins,
    pub interval: Duration,
}

impl Watching {
    pub(super) async fn look(&self) -> Result<Status, StatusError> {
        status::read(&self.pins).await
    }
}
