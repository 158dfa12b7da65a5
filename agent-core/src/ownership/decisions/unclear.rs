//! Treatment of claims in doubt: blank, missing, edited by hand, of an earlier
//! epoch, or being deleted.

use vipward_common::MacAddr;

use super::subject::{Again, Subject};
use crate::{
    base::time::Monotonic,
    ownership::times::RETRY,
    records::{ClaimRecord, NodeName, Session},
};

impl Subject<'_> {
    /// Returns the end of the time in which an owner may repair a claim that is not as the owner
    /// wrote it. The owner is any of `owners`, or any node if none is known.
    fn grace(&self, since: Monotonic, owners: &[(NodeName, Session)]) -> Monotonic {
        // An agent that is restarting has longer, and needs a moment when it is back.
        let may_own = |name: &NodeName| owners.is_empty() || owners.iter().any(|(owner, _)| owner == name);
        let others = self.nodes.others().filter(|(name, _)| may_own(name));
        let away = others.filter_map(|(_, member)| member.away_until(since)).max();
        let settings = &self.nodes.settings;
        away.unwrap_or(since).max(since + settings.lease) + settings.margin
    }

    /// Returns the same time for this VIP. An owner whose session has ended repairs nothing.
    pub(super) fn unclear_until(&self, since: Monotonic) -> Monotonic {
        let known = &self.vip.claim;
        let is_over = |owner: &(NodeName, Session)| {
            self.nodes.names_us(owner) || self.nodes.has_ended(&owner.0, owner.1, self.now)
        };
        if !known.owners.is_empty() && known.owners.iter().all(is_over) {
            known.changed + self.nodes.rest()
        } else {
            self.grace(since, &known.owners)
        }
    }

    /// Returns the time at which a claim is believed. A claim may have been edited if it names this
    /// node, but this process has not tried to write it. Its holder has time to repair it.
    pub(super) fn believed_at(&self, claim: &ClaimRecord) -> Monotonic {
        let known = &self.vip.claim;
        let is_news = self.nodes.is_ours(&claim.state) && !self.vip.tenure.is_held() && !known.is_own();
        match known.unclear {
            Some(since) => self.unclear_until(since),
            None if is_news => self.grace(known.changed, &[]),
            None => self.now,
        }
    }

    /// Takes the next step for a VIP whose object a user has requested to delete.
    pub(crate) fn deleting(&mut self, claim: &ClaimRecord) -> Again {
        // If the claim does not name the holder, the holder has the usual time to repair it.
        let from = self.believed_at(claim);
        let is_free = from <= self.now
            && (self.nodes.is_ours(&claim.state)
                || self.nodes.no_other_may_answer(&claim.state, self.now)
                    && self.nodes.is_reporter(self.address, self.now));
        if !(self.vip.tenure.is_held() || is_free) {
            self.set_foreign(claim.state.holder().map_or(MacAddr::ZERO, |holder| holder.mac));
            return Some(from.max(self.now + RETRY));
        }
        if self.vip.demand.is_none() {
            self.set_entry(None);
            self.vip.tenure.stop_holding();
        }
        // If the VIP is still wanted, this node goes on answering, and
        // creates a new object when this one is gone.
        self.delete(claim);
        None
    }
}
