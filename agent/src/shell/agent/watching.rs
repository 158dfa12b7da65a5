//! Watches what other programs can take from this host: pins, links, and memberships in groups.

use std::collections::BTreeSet;

use tracing::{error, info, warn};
use vipward_core::agent::{Changed, Input};

use super::{error::RunError, event_loop::EventLoop};
use crate::shell::{
    kernel::{
        groups,
        preflight::{PinDirLock, ensure_bpffs},
    },
    logging::errors::chain,
};

/// What must outlive a removed pin directory.
pub(super) struct Watch {
    lock: PinDirLock,
    /// The error of the last attempt to pin again, since pins are missing.
    failure: Option<String>,
}

impl Watch {
    pub(super) fn start(lock: PinDirLock) -> Self {
        Self { lock, failure: None }
    }
}

impl EventLoop {
    /// Restores what the kernel does not notify of.
    pub(super) async fn watch(&mut self) -> Result<(), RunError> {
        self.pin_again();
        let may_have_left = self.left().await;
        if !may_have_left.is_empty() || self.plane.has_detached_link()? {
            self.step(Input::Changed(Changed { may_have_left, ..Changed::default() })).await?;
        }
        Ok(())
    }

    /// Returns the interfaces that have left groups without a notification.
    async fn left(&self) -> BTreeSet<u32> {
        if self.inputs.netlink.notifies_of_groups() || !self.agent.has_groups() {
            return BTreeSet::new();
        }
        // The next regular reading reports the error.
        groups::observe().await.map(|joined| self.agent.left(&joined)).unwrap_or_default()
    }

    /// Pins the running maps and links again, if their pins or the bpffs are gone.
    fn pin_again(&mut self) {
        let dir = self.plane.pin_dir().display();
        let missing = match self.plane.unpinned() {
            Ok(0) => return,
            Ok(missing) => Ok(missing),
            Err(error) => Err(chain(&error)),
        };
        if self.watch.failure.is_none() {
            match missing {
                Ok(pins) => warn!(%dir, pins, "pins were removed; pinning the running maps and links again"),
                Err(error) => warn!(%dir, error, "the pins cannot be listed"),
            }
        }
        match self.try_to_pin() {
            Ok(()) => {
                info!(dir = %self.plane.pin_dir().display(), "everything is pinned again");
                self.watch.failure = None;
            }
            Err(error) => {
                if self.watch.failure.as_ref() != Some(&error) {
                    error!(error, "failed to pin again; what answers now ends with this agent; trying again");
                }
                self.watch.failure = Some(error);
            }
        }
    }

    fn try_to_pin(&mut self) -> Result<(), String> {
        let dir = self.plane.pin_dir();
        ensure_bpffs(dir).and_then(|()| self.watch.lock.follow(dir)).map_err(|error| chain(&error))?;
        self.plane.pin_again().map_err(|error| chain(&error))
    }
}
