//! Claim of a VIP, as this process knows it from lists, watches and its own requests.

use crate::{
    base::time::Monotonic,
    ownership::command::Expected,
    records::{ClaimRecord, ClaimState, Epoch, NodeName, Session},
};

#[cfg(test)]
mod tests;

/// The claim of a VIP, as this process knows it.
#[derive(Debug)]
pub(crate) struct KnownClaim {
    /// The claim. None if there is no object.
    pub(crate) record: Option<ClaimRecord>,
    /// Time at which the last change of holder was first seen.
    pub(crate) changed: Monotonic,
    /// Time since which the claim is in doubt: it is blank, missing,
    /// edited by hand, or of an earlier epoch.
    pub(crate) unclear: Option<Monotonic>,
    /// True if there was an object, and it is gone.
    pub(crate) is_lost: bool,
    /// The sessions that the last believed claim names. The VIP may be answered in them.
    pub(crate) owners: Vec<(NodeName, Session)>,
    /// Time at which this node last deleted the object.
    pub(crate) deleted: Option<Monotonic>,
    /// The cause of the VIP's place, while the claim does not state it: the claim was edited or is
    /// gone.
    pub(crate) cause: Option<Box<str>>,
    /// True if a write of this process may have made this node the holder without its knowledge.
    pub(crate) attempted: bool,
    /// True if the claim states that a handover to this node has ended. Only a holder of this
    /// node's token can write that.
    pub(crate) accepted: bool,
}

impl KnownClaim {
    pub(crate) fn new(now: Monotonic) -> Self {
        Self {
            record: None,
            changed: now,
            unclear: None,
            is_lost: false,
            owners: Vec::new(),
            deleted: None,
            cause: None,
            attempted: false,
            accepted: false,
        }
    }

    /// Records a claim. Returns true for the first claim. Later returns true if a holder is named,
    /// and the holder, the epoch or the step of a handover has changed.
    pub(crate) fn update(&mut self, record: ClaimRecord, now: Monotonic) -> bool {
        let is_new = self.record.as_ref().is_none_or(|known| {
            let is_offered = |state: &ClaimState| matches!(state, ClaimState::Offered { .. });
            let is_other =
                known.epoch != record.epoch || is_offered(&known.state) != is_offered(&record.state);
            let named = record.state.named();
            named.is_some() && (named != known.state.named() || is_other)
        });
        if is_new {
            self.changed = now;
        }
        let is_unclear =
            record.state == ClaimState::Blank || self.is_edited(&record) || self.is_of_the_past(&record);
        self.unclear = is_unclear.then(|| self.unclear.unwrap_or(now));
        if !is_unclear {
            self.owners = record.state.sessions();
        }
        self.record = Some(record);
        self.is_lost = false;
        is_new
    }

    /// Records that the object is gone. Returns false if there was none.
    pub(crate) fn lose(&mut self, is_wanted: bool, now: Monotonic) -> bool {
        let Some(record) = self.record.take() else { return false };
        self.is_lost = true;
        // Anybody can delete an object that is still wanted, and its holder goes on answering.
        let is_clear = record.state == ClaimState::Released || record.deleting && !is_wanted;
        self.unclear = (!is_clear).then_some(now);
        if is_clear {
            self.owners.clear();
        }
        true
    }

    /// Remembers the cause of a held VIP's place before `next`
    /// replaces its claim, except if `next` confirms the claim.
    pub(crate) fn keep_cause(&mut self, next: Option<&ClaimRecord>) {
        let Some(known) = self.record.as_ref().filter(|_| self.cause.is_none()) else { return };
        let confirms = |next: &ClaimRecord| next.state == known.state && next.epoch >= known.epoch;
        if !next.is_some_and(confirms) {
            self.cause = Some(known.note.cause.as_str().into());
        }
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.record.as_ref().map(|record| record.epoch)
    }

    /// Returns the state that the next write rests on.
    pub(crate) fn expected(&self) -> Expected {
        self.record.as_ref().map_or(Expected::Absent, |record| Expected::At(record.version.clone()))
    }

    /// Returns true if a claim was edited by hand: it names no node that has had the
    /// VIP or was to have it, and its epoch is no later.
    fn is_edited(&self, record: &ClaimRecord) -> bool {
        let named = record.state.sessions();
        let is_later = self.record.as_ref().is_none_or(|known| record.epoch > known.epoch);
        !named.is_empty()
            && !self.owners.is_empty()
            && !is_later
            && !self.is_own()
            && !named.iter().any(|session| self.owners.contains(session))
    }

    /// Returns true if the store went back to this claim: epochs only
    /// grow. A node that has held the VIP since may still answer.
    fn is_of_the_past(&self, record: &ClaimRecord) -> bool {
        self.record.as_ref().is_some_and(|known| {
            let is_known = known.epoch == record.epoch && known.state == record.state;
            known.epoch > record.epoch || is_known && self.unclear.is_some()
        })
    }

    /// Returns true if the claim, where it names this node, is this node's own.
    pub(crate) fn is_own(&self) -> bool {
        self.attempted || self.accepted
    }

    /// Returns the sessions in which the VIP may be answered.
    pub(crate) fn depends_on(&self) -> Vec<(NodeName, Session)> {
        let claimed = self.record.iter().flat_map(|record| record.state.sessions());
        claimed.chain(self.owners.iter().cloned()).collect()
    }
}
