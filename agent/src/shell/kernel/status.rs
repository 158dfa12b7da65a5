//! Reads the pinned state and the interfaces as one status.

use std::path::PathBuf;

use thiserror::Error;
use vipward_core::diagnosis::{
    fact::{Cause, Unread},
    pinned::Status,
};

use super::{
    bpf::{BpfError, Pins, Reader},
    netlink::{Netlink, NetlinkError},
};
use crate::shell::logging::errors::unread;

#[derive(Debug, Error)]
pub enum StatusError {
    #[error(
        "nothing is pinned under {}: no agent has run with this pin directory, or it was unloaded \
         (another directory: --pin-dir)", dir.display()
    )]
    NothingPinned { dir: PathBuf },
    /// This process lacks the rights to read the pins.
    #[error("failed to look into {}; run as root, or with the capabilities of the agent", dir.display())]
    Denied {
        dir: PathBuf,
        #[source]
        source: Unread,
    },
    #[error("failed to read the pinned objects")]
    Pins(#[source] Unread),
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
}

pub async fn read(pins: &Pins) -> Result<Status, StatusError> {
    let dir = || pins.dir().to_owned();
    let failed = |source: Unread| {
        if source.cause == Cause::Denied {
            StatusError::Denied { dir: dir(), source }
        } else {
            StatusError::Pins(source)
        }
    };
    let reader = Reader::find(pins).map_err(failed)?;
    let reader = reader.ok_or_else(|| StatusError::NothingPinned { dir: dir() })?;
    let network = Netlink::connect()?.observe().await?;
    let read = |error: BpfError| failed(unread(&error));
    let state = reader.state(usize::MAX, network).map_err(read)?;
    Ok(Status::of(&state, &reader.offenders().map_err(read)?))
}
