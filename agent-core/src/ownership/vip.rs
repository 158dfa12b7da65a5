//! State of one VIP, as this node sees it.

mod address;
mod known;
mod occupancy;
mod requests;
mod tenure;

use std::sync::Arc;

use vipward_common::MacAddr;

use self::{address::ProbeState, known::KnownClaim, requests::Requests};
use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    records::{Demand, Epoch, NodeName, ServiceName},
};

pub(super) use self::{
    address::Address,
    occupancy::{Answering, Occupancy},
    requests::{Busy, News},
    tenure::{Handover, Tenure},
};

/// The last command about a VIP's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commanded {
    /// No command was given, or the program may have changed the entry since.
    Nothing,
    NoEntry,
    Entry(Entry),
}

impl From<Option<Entry>> for Commanded {
    fn from(entry: Option<Entry>) -> Self {
        entry.map_or(Self::NoEntry, Self::Entry)
    }
}

/// Times since which a VIP waits for its next holder.
#[derive(Default, Debug)]
pub(super) struct Waiting {
    /// Time since which this node could take the VIP.
    pub(super) free: Option<Monotonic>,
    /// Time since which the VIP has no holder and no candidate.
    pub(super) unholdable: Option<Monotonic>,
    /// Time since which this node should let go of the VIP, and the other nodes wait for their proxies.
    pub(super) proxies: Option<Monotonic>,
    /// A better candidate, and the time since which it is one.
    pub(super) better: Option<(NodeName, Monotonic)>,
}

/// The state of a VIP, as this node sees it.
#[derive(Debug)]
pub(super) struct Vip {
    pub(super) demand: Option<Demand>,
    pub(super) claim: KnownClaim,
    pub(super) tenure: Tenure,
    pub(super) occupancy: Occupancy,
    /// MAC of the last other node that this process has known as the holder.
    pub(super) former: Option<MacAddr>,
    pub(super) commanded: Commanded,
    /// The interface of the last command.
    pub(super) home: Option<Arc<str>>,
    pub(super) requests: Requests,
    pub(super) waiting: Waiting,
    /// True if the program gave way or a peer claims the VIP. Then the claim decides.
    pub(super) disputed: bool,
    /// Results of probes of its address.
    pub(super) asking: ProbeState,
    /// True if this node is the first that would take the VIP from its holder.
    pub(super) is_successor: bool,
    pub(super) due: Option<Monotonic>,
}

impl Vip {
    pub(super) fn new(now: Monotonic) -> Self {
        Self {
            demand: None,
            claim: KnownClaim::new(now),
            tenure: Tenure::Elsewhere,
            occupancy: Occupancy::default(),
            former: None,
            commanded: Commanded::Nothing,
            home: None,
            requests: Requests::new(now),
            waiting: Waiting::default(),
            disputed: false,
            asking: ProbeState::default(),
            is_successor: false,
            due: None,
        }
    }

    /// Returns true if this node holds the VIP, or has commanded an
    /// entry that answers with its own MAC.
    pub(super) fn has_a_stake(&self) -> bool {
        self.tenure.is_held() || self.commanded == Commanded::Entry(Entry::Held)
    }

    /// Returns true if this node answers for the VIP, or hands it over.
    pub(super) fn is_at_stake(&self) -> bool {
        self.has_a_stake() || self.tenure.handover().is_some()
    }

    /// Returns true if the last command was an entry that answers.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.commanded, Commanded::Entry(Entry::Held | Entry::Handover { .. }))
    }

    /// Returns true if the last command was an entry that is silent.
    pub(super) fn is_guarded(&self) -> bool {
        matches!(self.commanded, Commanded::Entry(Entry::Foreign { .. }))
    }

    /// Gives up holding the VIP. The claim may go on naming this node until it is
    /// written or deleted. It is this node's own claim, so it is not in doubt.
    pub(super) fn let_go(&mut self) {
        self.claim.attempted |= self.tenure.is_held();
        self.tenure.stop_holding();
    }

    /// Forgets that this node held the VIP, or tried to.
    pub(super) fn disown(&mut self) {
        self.tenure.stop_holding();
        (self.claim.attempted, self.claim.accepted) = (false, false);
        self.disputed = false;
    }

    /// Returns true if the VIP is held, but its claim must be read or repaired first.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.tenure.is_held() && (self.requests.unread || self.disputed || self.requests.busy.is_some())
    }

    /// Returns the epoch of the claim, or of this node's tenure if that is later.
    pub(super) fn epoch(&self) -> Epoch {
        self.claim.epoch().max(self.tenure.held_in()).unwrap_or_default()
    }

    pub(super) fn services(&self) -> &[ServiceName] {
        self.demand.as_ref().map(|demand| demand.services.as_slice()).unwrap_or_default()
    }
}
