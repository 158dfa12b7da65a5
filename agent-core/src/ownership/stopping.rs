//! End of the agent. For a restart everything stays. A node that leaves hands
//! everything over. An uninstall removes everything.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    Command, Engine, StopReason,
    members::Member,
    vip::{Again, Busy, Vip},
};
use crate::{
    cluster::{ClaimState, NodeName},
    time::Monotonic,
};

/// Longest time that a restart waits for its last renewal.
const RESTART_LIMIT: Duration = Duration::from_secs(3);
/// Longest time that a leaving node waits until others have taken its
/// VIPs, or until the last claim is deleted.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);

/// A shutdown under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Stopping {
    reason: StopReason,
    limit: Monotonic,
    /// True if the last write of the Lease may be made, without waiting for the next renewal.
    gave_up: bool,
    /// True if the last write of the Lease was made.
    last_written: bool,
    /// True if `Command::Stopped` was given.
    told: bool,
}

impl Engine {
    pub(super) fn on_stop(&mut self, reason: StopReason, now: Monotonic) {
        if self.stopping.is_some() {
            return;
        }
        let limit = now
            + match reason {
                StopReason::Restart => RESTART_LIMIT,
                StopReason::Leave | StopReason::Uninstall => LEAVE_LIMIT,
            };
        let last_written = !self.own.lives();
        self.stopping = Some(Stopping { reason, limit, gave_up: false, last_written, told: false });
        self.own.renew_now(now);
        self.all_dirty();
    }

    pub(super) fn stop_reason(&self) -> Option<StopReason> {
        self.stopping.as_ref().map(|stopping| stopping.reason)
    }

    pub(super) fn stop_deadline(&self) -> Option<Monotonic> {
        self.stopping.as_ref().filter(|stopping| !stopping.told).map(|stopping| stopping.limit)
    }

    /// Returns true if other nodes are to take this node's VIPs.
    pub(super) fn is_leaving(&self) -> bool {
        matches!(self.stop_reason(), Some(StopReason::Leave | StopReason::Uninstall))
    }

    /// Returns true if the next write of the Lease ends the session. By then no VIP
    /// is held in it, and no request is left to make.
    pub(super) fn gives_up_session(&self) -> bool {
        let is_done = |vip: &Vip| {
            !vip.is_held()
                && vip.busy.is_none()
                && vip.handing.as_ref().is_none_or(|handing| !handing.is_open())
        };
        match self.stop_reason() {
            Some(StopReason::Leave) => self.dirty.is_empty() && self.vips.values().all(|vip| is_done(vip)),
            // Every other agent deletes its own claims too. The claims of a
            // dead agent are left to the last living ones.
            Some(StopReason::Uninstall) => {
                self.dirty.is_empty() && self.vips.values().all(|vip| is_done(vip) && vip.claim.is_none())
            }
            Some(StopReason::Restart) | None => false,
        }
    }

    /// Takes in that the Lease was written for the last time.
    pub(super) fn on_last_lease(&mut self) {
        if let Some(stopping) = &mut self.stopping {
            stopping.last_written = true;
        }
    }

    /// Stops answering for a VIP, regardless of its object.
    pub(super) fn withdraw(&mut self, address: Ipv4Addr) {
        self.set_entry(address, None);
        if let Some(vip) = self.vips.get_mut(&address) {
            vip.held = None;
            vip.handing = None;
        }
    }

    /// Deletes the object of a VIP that this node or a dead one held, and that has no successor.
    pub(super) fn uninstall(&mut self, address: Ipv4Addr, now: Monotonic) -> Again {
        let claim = self.vips[&address].claim.clone()?;
        // A living holder deletes its object itself. A node that is offered a VIP
        // and leaves too does not accept it any more.
        let leaves = |node: &NodeName| self.members.get(node).is_some_and(Member::is_leaving);
        let is_our_offer = matches!(&claim.state, ClaimState::Offered { to: _, from } if self.names_us(from));
        let offered_to = claim.state.holder().map(|to| &to.node);
        // A successor that does not accept in time cannot accept any more.
        // Without the claim, another node may take the VIP.
        let taken_back = self.vips[&address].changed + self.take_back();
        let is_refused = offered_to.is_some_and(leaves) || taken_back <= now;
        if is_our_offer && is_refused || self.nobody_else_may_answer(&claim.state, now) {
            self.delete(address, &claim);
            return None;
        }
        is_our_offer.then_some(taken_back)
    }

    pub(super) fn tick_stopping(&mut self, now: Monotonic) {
        let gives_up = self.gives_up_session();
        let Some(stopping) = &mut self.stopping else { return };
        if stopping.told {
            return;
        }
        // The next process must know the state: a claim that is being
        // written has its entry, and is not held over.
        let is_settled = stopping.last_written
            && self.doubt.is_over()
            && !self.vips.values().any(|vip| matches!(vip.busy, Some(Busy::Hold(..))));
        if is_settled || stopping.limit <= now {
            stopping.told = true;
            self.command(Command::Stopped);
        } else if gives_up && !stopping.gave_up && !self.own.is_renewing() {
            stopping.gave_up = true;
            self.own.renew_now(now);
            self.tick_lease(now);
        }
    }
}
