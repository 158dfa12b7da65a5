//! End of the agent. For a restart everything stays. A node that leaves hands
//! everything over. An uninstall removes everything.

use std::time::Duration;

use super::subject::{Again, Subject};
use crate::{
    base::time::Monotonic,
    ownership::{
        event::StopReason,
        nodes::Member,
        vip::{Tenure, Vip},
    },
    records::{ClaimState, NodeName},
};

#[cfg(test)]
mod tests;

/// Longest time that a restart waits for its last renewal.
const RESTART_LIMIT: Duration = Duration::from_secs(3);
/// Longest time that a leaving node waits until others have taken its VIPs.
const LEAVE_LIMIT: Duration = Duration::from_secs(20);
/// Longest time that an uninstall waits until the last claim is deleted. The agent has waited for
/// another `DaemonSet` before, for half of its Pod's termination.
const UNINSTALL_LIMIT: Duration = Duration::from_secs(10);

/// A shutdown under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stopping {
    limit: Monotonic,
    /// True if the last write of the Lease may be made, without waiting for the next renewal.
    gave_up: bool,
    /// True if the last write of the Lease was made.
    last_written: bool,
    /// True if the agent may end.
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopStep {
    Wait,
    /// The session ends with a write of the Lease at once.
    GiveUpSession,
    /// The agent may end.
    End,
}

impl Stopping {
    /// Begins a shutdown. Without a session there is no last write of the Lease.
    pub(crate) fn new(reason: StopReason, has_session: bool, now: Monotonic) -> Self {
        let limit = match reason {
            StopReason::Restart => RESTART_LIMIT,
            StopReason::Leave => LEAVE_LIMIT,
            StopReason::Uninstall => UNINSTALL_LIMIT,
        };
        Self { limit: now + limit, gave_up: false, last_written: !has_session, is_over: false }
    }

    /// Returns the time at which the agent ends in any case.
    pub(crate) fn deadline(&self) -> Option<Monotonic> {
        (!self.is_over).then_some(self.limit)
    }

    /// Records that the Lease was written for the last time.
    pub(crate) fn on_last_lease(&mut self) {
        self.last_written = true;
    }

    /// Returns the next step. `is_settled` is true if the next process would know the whole state,
    /// `may_give_up` if no VIP needs the session any more.
    pub(crate) fn step(&mut self, is_settled: bool, may_give_up: bool, now: Monotonic) -> StopStep {
        if self.is_over {
            return StopStep::Wait;
        }
        if self.last_written && is_settled || self.limit <= now {
            self.is_over = true;
            return StopStep::End;
        }
        if may_give_up && !self.gave_up {
            self.gave_up = true;
            return StopStep::GiveUpSession;
        }
        StopStep::Wait
    }
}

/// Returns true if a VIP no longer needs this node's session. In an uninstall its claim
/// must be gone too. The holder deletes the claim, or a living agent if the holder is dead.
pub(crate) fn needs_no_session(vip: &Vip, is_uninstall: bool) -> bool {
    let is_done = !vip.tenure.is_held() && vip.requests.busy.is_none() && !vip.tenure.is_open();
    is_done && (!is_uninstall || vip.claim.record.is_none())
}

impl Subject<'_> {
    /// Stops answering for a VIP, regardless of its object.
    pub(super) fn withdraw(&mut self) {
        self.set_entry(None);
        self.vip.tenure = Tenure::Elsewhere;
    }

    /// Deletes the object of a VIP that this node or a dead one held, and that has no successor.
    pub(super) fn uninstall(&mut self) -> Again {
        let claim = self.vip.claim.record.clone()?;
        // A living holder deletes its object itself. A node that is offered a VIP
        // and leaves too does not accept it any more.
        let leaves = |node: &NodeName| self.nodes.member(node).is_some_and(Member::is_leaving);
        let is_own_offer =
            matches!(&claim.state, ClaimState::Offered { to: _, from } if self.nodes.names_us(from));
        let offered_to = claim.state.holder().map(|to| &to.node);
        // A successor that does not accept in time cannot accept any more.
        // Without the claim, another node may take the VIP.
        let taken_back = self.vip.claim.changed + self.nodes.take_back();
        let is_refused = offered_to.is_some_and(leaves) || taken_back <= self.now;
        if is_own_offer && is_refused || self.nodes.no_other_may_answer(&claim.state, self.now) {
            self.delete(&claim);
            return None;
        }
        is_own_offer.then_some(taken_back)
    }
}
