//! Handover under way, as the old holder sees it.

use vipward_common::MacAddr;

use super::Entry;
use crate::{
    cluster::{Holder, NodeName},
    time::Monotonic,
};

/// A handover under way, as the old holder sees it.
///
/// The old holder answers with the successor's MAC until `until`. The offer
/// fixes that time. It comes before the claim has rested, and so before another
/// node can have the VIP, even if this process dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Handing {
    pub(super) to: Holder,
    pub(super) offered: Monotonic,
    /// Time at which the successor's announcement was heard. None again if a read
    /// has shown that the announcement was another's.
    pub(super) moved: Option<Monotonic>,
    /// True if this node has seen the successor's own claim.
    pub(super) accepted: bool,
    pub(super) until: Monotonic,
}

impl Handing {
    pub(super) fn new(to: Holder, offered: Monotonic, until: Monotonic) -> Self {
        Self { to, offered, moved: None, accepted: false, until }
    }

    pub(super) fn entry(&self) -> Entry {
        Entry::Handover { mac: self.to.mac, until: self.until }
    }

    pub(super) fn successor(&self) -> &NodeName {
        &self.to.node
    }

    pub(super) fn is_open(&self) -> bool {
        self.moved.is_none() && !self.accepted
    }

    pub(super) fn hear(&mut self, mac: MacAddr, now: Monotonic) {
        if self.to.mac == mac {
            self.moved.get_or_insert(now);
        }
    }
}
