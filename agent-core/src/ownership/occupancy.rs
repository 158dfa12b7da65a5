//! Occupancy of a VIP: if a node holds it, or did so a short time ago.
//!
//! Holding counts, not having been held. An address that was let go of long ago may be another
//! host's by now, whatever its claim's epoch, reservation or pool say.

use std::time::Duration;

use vipward_common::Policy;

use super::{
    Settings,
    nodes::Nodes,
    subject::{LET_GO, Subject},
};
use crate::{
    base::time::Monotonic,
    records::{ClaimState, NodeName, Session},
};

#[cfg(test)]
mod tests;

/// Time for which a VIP that this process saw held is taken without a probe. It is as long as the
/// result of a probe is good for.
pub(super) const LATELY: Duration = Duration::from_secs(10);

/// Occupancy of a VIP, as this process has seen it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Occupancy {
    /// No node is known to hold the VIP, nor to have held it lately.
    #[default]
    Vacant,
    /// Another node holds it, in a session that lives.
    Held,
    /// The program of this node answers for it until this time, also while no agent runs.
    Here(Monotonic),
    /// The last holder has let go of it, or its session has ended, at this time.
    Left(Monotonic),
}

/// The node that answers for a VIP, as this process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answering {
    /// None holds it. `watched` is true if this process would have seen another one let go of it at
    /// once.
    Nobody { watched: bool },
    /// Another node holds it.
    Another,
    /// The program of this node answers for it until this time.
    Own(Monotonic),
}

impl Occupancy {
    /// Records who holds the VIP now.
    fn note(&mut self, seen: Answering, now: Monotonic) {
        *self = match (*self, seen) {
            // A new session begins with a deadline that has passed.
            (Self::Here(before), Answering::Own(until)) => Self::Here(before.max(until)),
            (_, Answering::Own(until)) => Self::Here(until),
            (_, Answering::Another) => Self::Held,
            (Self::Here(until), Answering::Nobody { .. }) => Self::Left(until.min(now)),
            (Self::Held, Answering::Nobody { watched: true }) => Self::Left(now),
            (Self::Left(since), Answering::Nobody { .. }) if now < since + LATELY => Self::Left(since),
            (Self::Held | Self::Left(_) | Self::Vacant, Answering::Nobody { .. }) => Self::Vacant,
        };
    }

    /// Returns true if a node holds the VIP.
    pub(super) const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Here(_))
    }

    /// Returns true if a node holds the VIP, or did so a short time ago.
    pub(super) fn is_lately(self, now: Monotonic) -> bool {
        match self {
            Self::Held => true,
            Self::Here(since) | Self::Left(since) => now < since + LATELY,
            Self::Vacant => false,
        }
    }
}

impl Nodes {
    /// Returns true if this node was cut off lately: it may see late what happened long ago.
    pub(super) fn is_behind(&self, now: Monotonic) -> bool {
        let since = self.own.fence.valid_since(now);
        since.is_none_or(|since| since + self.rest() > now)
    }

    /// Returns the time until which this node's program answers, if the deadline of the fence stays.
    pub(super) fn answers_until(&self, deadline: Monotonic) -> Monotonic {
        let Settings { policy, hold_for, .. } = self.settings;
        match policy {
            Policy::Hold => deadline + hold_for,
            Policy::Stop => deadline,
        }
    }
}

impl Subject<'_> {
    /// Records if a node holds the VIP, and the MAC of its holder.
    pub(super) fn note_occupancy(&mut self) {
        let seen = if self.vip.is_at_stake() {
            Answering::Own(self.nodes.answers_until(self.nodes.own.fence.deadline()))
        } else if self.is_held_by_any() {
            Answering::Another
        } else {
            Answering::Nobody { watched: !self.nodes.is_behind(self.now) && self.was_let_go() }
        };
        self.vip.occupancy.note(seen, self.now);
        let holder = self.vip.claim.record.as_ref().and_then(|claim| claim.state.holder());
        // A claim can name any MAC. That of another node stands in its Lease, too.
        if let Some(holder) = holder.filter(|holder| self.nodes.is_peers(&holder.node, holder.mac)) {
            self.vip.former = Some(holder.mac);
        }
    }

    /// Records that the program of this node has answered for the VIP until now, or until this time.
    pub(super) fn note_answered(&mut self, until: Monotonic) {
        self.vip.occupancy.note(Answering::Own(until), self.now);
    }

    /// Returns true if the node that held the VIP has let go of it, or is gone. The node that a claim
    /// names may not have held it.
    fn was_let_go(&self) -> bool {
        let Some(claim) = &self.vip.claim.record else { return false };
        match claim.state {
            ClaimState::Held(_) | ClaimState::Offered { .. } | ClaimState::Blank => true,
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
