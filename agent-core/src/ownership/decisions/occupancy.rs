//! Occupancy of a VIP, as its claim and the sessions that the claim names show it.

use super::subject::{LET_GO, Subject};
use crate::{
    base::time::Monotonic,
    ownership::vip::Answering,
    records::{ClaimState, NodeName, Session},
};

impl Subject<'_> {
    /// Records if a node holds the VIP, and the MAC of its holder.
    pub(crate) fn record_occupancy(&mut self) {
        let seen = if self.vip.is_at_stake() {
            Answering::Own(self.nodes.answers_until(self.nodes.own.lease_deadline.deadline()))
        } else if self.is_held_by_any() {
            Answering::Another
        } else {
            Answering::NoNode { watched: !self.nodes.is_behind(self.now) && self.was_let_go() }
        };
        self.vip.occupancy.note(seen, self.now);
        let holder = self.vip.claim.record.as_ref().and_then(|claim| claim.state.holder());
        // A claim can name any MAC. Another node's MAC stands in its Lease, too.
        if let Some(holder) = holder.filter(|holder| self.nodes.is_peers(&holder.node, holder.mac)) {
            self.vip.former = Some(holder.mac);
        }
    }

    /// Records that the program of this node has answered for the VIP until now, or until this time.
    pub(crate) fn record_answered(&mut self, until: Monotonic) {
        self.vip.occupancy.note(Answering::Own(until), self.now);
    }

    /// Returns true if the node that held the VIP has let go of it, or is gone. The node that a claim
    /// names may not have held it. If this process has never seen that node live, the claim may be of
    /// another time, or of another cluster.
    fn was_let_go(&self) -> bool {
        let Some(claim) = &self.vip.claim.record else { return false };
        match &claim.state {
            ClaimState::Held(_) | ClaimState::Offered { .. } => {
                claim.state.sessions().iter().any(|(node, _)| self.nodes.has_lived(node))
            }
            ClaimState::Blank => true,
            ClaimState::Released => claim.note.cause.contains(LET_GO),
        }
    }

    /// Returns true if a node holds the VIP: this one, or one that the claim names in a session that
    /// lives. That the claim names this node proves nothing to this node, unless it has tried to write that.
    fn is_held_by_any(&self) -> bool {
        let known = &self.vip.claim;
        let holds = |node: &NodeName, session: Session| {
            if self.nodes.is_us(node, session) {
                known.attempted
            } else {
                !self.nodes.has_ended(node, session, self.now)
            }
        };
        let named = known.record.as_ref().is_some_and(|claim| match &claim.state {
            ClaimState::Held(holder) => holds(&holder.node, holder.session),
            ClaimState::Offered { to, from } => holds(&to.node, to.session) || holds(&from.0, from.1),
            ClaimState::Released | ClaimState::Blank => false,
        });
        // An owner that lives may put a claim in doubt right for a while.
        let may_be_repaired = known.unclear.is_some_and(|since| self.unclear_until(since) > self.now);
        let mut owners = known.owners.iter().filter(|_| may_be_repaired);
        named || owners.any(|(node, session)| holds(node, *session))
    }
}
