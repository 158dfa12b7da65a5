//! Watches what other programs can take from this host: pins, links, and memberships in groups.

use std::{collections::BTreeSet, path::Path};

use tracing::{error, info, warn};
use vipward_core::{
    agent::{Changed, Input, Line},
    diagnosis::doctor::Agent,
};

use super::{error::RunError, event_loop::EventLoop, timing::now};
use crate::shell::{
    kernel::{
        groups,
        preflight::{PinDirError, PinDirLock, ensure_bpffs, user_of},
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

    pub(super) fn into_lock(self) -> PinDirLock {
        self.lock
    }
}

impl EventLoop {
    /// Restores what the kernel does not notify of.
    pub(super) async fn watch(&mut self) -> Result<(), RunError> {
        self.pin_again();
        let may_have_left = self.left().await;
        let has_detached_link = match self.plane.has_detached_link() {
            Ok(has) => has,
            Err(error) => {
                self.log.line(&Line::Unread(chain(&error)), &self.agent, &self.metrics, now()?);
                false
            }
        };
        if !may_have_left.is_empty() || has_detached_link {
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

    /// Pins the running maps and links again, if their pins, the directory or the bpffs are gone.
    fn pin_again(&mut self) {
        let dir = self.plane.pin_dir().display();
        let missing = match self.missing() {
            Ok(0) => return,
            missing => missing,
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

    /// Returns the number of objects that have lost their pins: all of them with the directory.
    fn missing(&self) -> Result<usize, String> {
        let has_dir = self.watch.lock.is_of(self.plane.pin_dir()).map_err(|error| chain(&error))?;
        let missing = if has_dir { self.plane.unpinned() } else { Ok(self.plane.objects()) };
        missing.map_err(|error| chain(&error))
    }

    fn try_to_pin(&mut self) -> Result<(), String> {
        let dir = self.plane.pin_dir();
        ensure_bpffs(dir).map_err(|error| chain(&error))?;
        if !self.watch.lock.is_of(dir).map_err(|error| chain(&error))? {
            if self.plane.has_pins().map_err(|error| chain(&error))? {
                return Err(anothers(dir));
            }
            self.watch.lock = PinDirLock::acquire(dir).map_err(|error| chain(&error))?;
        }
        self.plane.pin_again().map_err(|error| chain(&error))
    }
}

/// Returns the error of a new directory in which another agent has pinned its own.
fn anothers(dir: &Path) -> String {
    match user_of(dir) {
        Ok(Agent::Runs(pid)) => chain(&PinDirError::InUse { dir: dir.to_owned(), pid }),
        Ok(Agent::None) => {
            let dir = dir.display();
            format!("another agent, which has ended, left its pins in {dir}: vipward unload --pin-dir {dir}")
        }
        Err(error) => chain(&error),
    }
}
