//! Hears the neighbour solicitations for IPv6 VIPs: memberships follow the entries.

use std::time::Duration;

use tracing::{debug, warn};
use vipward_common::VipKey;
use vipward_core::base::time::Monotonic;

use super::{
    error::RunError,
    event_loop::EventLoop,
    memberships::Hearing,
    source::Source,
    timing::{RETRY, now},
};
use crate::shell::{
    kernel::{
        groups::{self, GroupsError},
        netlink::Exchange,
    },
    logging::causes::chain,
};

/// The longest time for changes at once, and the time until the next ones. The more groups there
/// are, the longer the kernel takes for each.
const SHARE: Duration = Duration::from_millis(20);
impl<S: Source> EventLoop<S> {
    /// Reads the kernel's memberships.
    pub(super) async fn read_groups(&mut self) -> Result<(), GroupsError> {
        self.hearing.read_due = None;
        self.hearing.groups.on_observed(groups::observe().await?);
        Ok(())
    }

    /// Hears the questions for a VIP, or no longer, as its entry, its probes and the succession need it.
    /// Another host may probe for the same address (RFC 4862, 5.4.2).
    pub(super) fn hear_questions(&mut self, key: VipKey) -> Result<(), RunError> {
        if key.addr.is_ipv6() {
            let entry = self.plane.maps().entry(&key)?;
            let is_probed = self.segment.is_probed(&key);
            self.hearing.on_entry(&key, entry.as_ref(), is_probed);
            self.hearing.change_due = Some(now()?);
        }
        Ok(())
    }

    /// Joins and leaves groups, as many as there is time for. Leaves none before it is known which
    /// are wanted.
    pub(super) fn change_groups(&mut self) -> Result<(), RunError> {
        let Hearing { groups, change_due, .. } = &mut self.hearing;
        *change_due = None;
        let may_leave = self.source.is_known();
        if groups.next(may_leave).is_none() {
            return Ok(());
        }
        let mut kernel = Exchange::open().map_err(GroupsError::Open)?;
        let until = now()? + SHARE;
        while let Some(command) = groups.next(may_leave) {
            let now = now()?;
            if until <= now {
                *change_due = Some(now + SHARE);
                break;
            }
            debug!(?command, "change a membership");
            match groups::change(&mut kernel, command) {
                Ok(()) => groups.on_done(command),
                Err(error) => groups.on_refused(command, chain(&error)),
            }
        }
        Ok(())
    }

    /// Reads and changes memberships when that is due.
    pub(super) async fn tick_hearing(&mut self, now: Monotonic) {
        if self.hearing.next_deadline().is_none_or(|due| now < due) {
            return;
        }
        let is_read = match self.hearing.read_due {
            Some(due) if due <= now => self.read_groups().await.map_err(RunError::from),
            Some(_) | None => Ok(()),
        };
        if let Err(error) = is_read.and_then(|()| self.change_groups()) {
            warn!(error = chain(&error), "memberships could not be changed; trying again");
            self.hearing.read_due = Some(now + RETRY);
        }
    }
}
