//! Reads the pinned state and the interfaces as one status.

use std::path::PathBuf;

use thiserror::Error;
use vipward_core::diagnosis::pinned::{Status, Unread};

use super::{
    bpf::{Extent, Pins, Reader},
    netlink::{Netlink, NetlinkError},
};

/// The reason why there is no status.
#[derive(Debug, Error)]
pub enum StatusError {
    /// A pin directory without pins.
    #[error(
        "nothing is pinned under {}: no agent has run with this pin directory, or it was unloaded \
         (another directory: --pin-dir)", dir.display()
    )]
    NothingPinned {
        /// The pin directory.
        dir: PathBuf,
    },
    /// This process lacks the rights to read the pins.
    #[error("failed to look into {}; run as root, or with the capabilities of the agent", dir.display())]
    Denied {
        /// The pin directory.
        dir: PathBuf,
        /// The reason.
        #[source]
        source: Unread,
    },
    /// The pins could not be read.
    #[error("failed to read the pinned objects")]
    Pins(#[source] Unread),
    /// The interfaces could not be read.
    #[error("failed to read the interfaces")]
    Netlink(#[from] NetlinkError),
}

/// Reads the status.
pub async fn read(pins: &Pins) -> Result<Status, StatusError> {
    let dir = || pins.dir().to_owned();
    let failed = |source: Unread| {
        if source.denied { StatusError::Denied { dir: dir(), source } } else { StatusError::Pins(source) }
    };
    let reader = Reader::find(pins).map_err(failed)?;
    let reader = reader.ok_or_else(|| StatusError::NothingPinned { dir: dir() })?;
    let network = Netlink::connect()?.observe().await?;
    Ok(Status::of(&reader.state(Extent::ALL, network).map_err(failed)?))
}
