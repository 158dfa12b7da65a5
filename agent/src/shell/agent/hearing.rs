//! Reads and changes the memberships in the groups of solicitations for IPv6 VIPs.

use tracing::{debug, warn};
use vipward_common::VipKey;
use vipward_core::{agent::memberships::SHARE, base::time::Monotonic};

use super::{error::RunError, event_loop::EventLoop, source::Source, timing::now};
use crate::shell::{
    kernel::{
        groups::{self, GroupsError},
        netlink::Exchange,
    },
    logging::causes::chain,
};

impl<S: Source> EventLoop<S> {
    /// Reads the kernel's memberships.
    pub(super) async fn read_groups(&mut self) -> Result<(), GroupsError> {
        self.memberships.on_observed(groups::observe().await?);
        Ok(())
    }

    /// Has the membership of a VIP follow its entry, its probes and the succession.
    pub(super) fn hear_questions(&mut self, key: VipKey) -> Result<(), RunError> {
        if key.addr.is_ipv6() {
            let entry = self.plane.maps().entry(&key)?;
            self.memberships.on_entry(&key, entry.as_ref(), self.segment.is_probed(&key), now()?);
        }
        Ok(())
    }

    /// Joins and leaves groups, as many as there is time for.
    pub(super) fn change_groups(&mut self) -> Result<(), RunError> {
        let may_leave = self.source.is_known();
        if self.memberships.next(may_leave).is_none() {
            return Ok(());
        }
        let mut kernel = Exchange::open().map_err(GroupsError::Open)?;
        let until = now()? + SHARE;
        while let Some(command) = self.memberships.next(may_leave) {
            let now = now()?;
            if until <= now {
                self.memberships.put_off(now);
                break;
            }
            debug!(?command, "change a membership");
            match groups::change(&mut kernel, command) {
                Ok(()) => self.memberships.on_done(command),
                Err(error) => self.memberships.on_refused(command, chain(&error)),
            }
        }
        Ok(())
    }

    /// Reads and changes memberships when that is due.
    pub(super) async fn tick_hearing(&mut self, now: Monotonic) {
        if self.memberships.next_deadline().is_none_or(|due| now < due) {
            return;
        }
        let must_be_read = self.memberships.must_be_read(now);
        let is_read = if must_be_read { self.read_groups().await.map_err(RunError::from) } else { Ok(()) };
        if let Err(error) = is_read.and_then(|()| self.change_groups()) {
            warn!(error = chain(&error), "memberships could not be changed; trying again");
            self.memberships.try_again_soon(now);
        }
    }
}
