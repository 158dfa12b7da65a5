//! Tenure of a VIP on this node: held, offered, handed over, or elsewhere.

use vipward_common::MacAddr;

use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    records::{Epoch, Holder},
};

#[cfg(test)]
mod tests;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Tenure {
    /// This node neither holds the VIP nor hands it over.
    #[default]
    Elsewhere,
    Holding {
        epoch: Epoch,
    },
    /// This node holds the VIP, and an offer to a successor has an unknown outcome.
    Offering {
        epoch: Epoch,
        handover: Handover,
    },
    /// This node no longer holds the VIP, and answers with the successor's MAC for a while.
    HandingOver(Handover),
}

/// A handover, as the old holder sees it.
///
/// The old holder answers with the successor's MAC until `until`. The offer fixes that time. The
/// claim rests for longer, so no third node can have the VIP before, even if this process dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Handover {
    pub(crate) to: Holder,
    pub(crate) offered: Monotonic,
    /// Time at which an announcement with the successor's MAC arrived. None again if the
    /// successor's claim does not arrive in time.
    pub(crate) moved: Option<Monotonic>,
    /// True if this node has seen the successor's own claim.
    pub(crate) accepted: bool,
    /// End of the answers with the successor's MAC.
    pub(crate) until: Monotonic,
}

impl Handover {
    pub(crate) fn new(to: Holder, offered: Monotonic, until: Monotonic) -> Self {
        Self { to, offered, moved: None, accepted: false, until }
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry::Handover { mac: self.to.mac, until: self.until }
    }

    /// Returns true if the successor has neither announced nor claimed the VIP.
    pub(crate) fn is_open(&self) -> bool {
        self.moved.is_none() && !self.accepted
    }
}

impl Tenure {
    /// Returns the epoch in which this node holds the VIP, if it does.
    pub(crate) fn held_in(&self) -> Option<Epoch> {
        match self {
            Self::Holding { epoch } | Self::Offering { epoch, .. } => Some(*epoch),
            Self::Elsewhere | Self::HandingOver(_) => None,
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        self.held_in().is_some()
    }

    pub(crate) fn handover(&self) -> Option<&Handover> {
        match self {
            Self::Offering { handover, .. } | Self::HandingOver(handover) => Some(handover),
            Self::Elsewhere | Self::Holding { .. } => None,
        }
    }

    pub(crate) fn handover_mut(&mut self) -> Option<&mut Handover> {
        match self {
            Self::Offering { handover, .. } | Self::HandingOver(handover) => Some(handover),
            Self::Elsewhere | Self::Holding { .. } => None,
        }
    }

    /// Returns true if a handover is under way to a successor that has not shown that it answers.
    pub(crate) fn is_open(&self) -> bool {
        self.handover().is_some_and(Handover::is_open)
    }

    /// Makes this node the holder. That ends a handover.
    pub(crate) fn hold(&mut self, epoch: Epoch) {
        *self = Self::Holding { epoch };
    }

    /// Begins a handover. The node holds the VIP until the offer is written.
    pub(crate) fn offer(&mut self, handover: Handover) {
        *self = match self.held_in() {
            Some(epoch) => Self::Offering { epoch, handover },
            None => Self::HandingOver(handover),
        };
    }

    /// Ends the holding. A handover goes on.
    pub(crate) fn stop_holding(&mut self) {
        *self = match std::mem::take(self) {
            Self::Elsewhere | Self::Holding { .. } => Self::Elsewhere,
            Self::Offering { handover, .. } | Self::HandingOver(handover) => Self::HandingOver(handover),
        };
    }

    /// Ends a handover. The node holds the VIP if the offer was not written.
    pub(crate) fn stop_handover(&mut self) {
        *self = match self.held_in() {
            Some(epoch) => Self::Holding { epoch },
            None => Self::Elsewhere,
        };
    }

    /// Records that the successor's MAC was announced.
    pub(crate) fn receive(&mut self, mac: MacAddr, now: Monotonic) {
        if let Some(handover) = self.handover_mut().filter(|handover| handover.to.mac == mac) {
            handover.moved.get_or_insert(now);
        }
    }
}
