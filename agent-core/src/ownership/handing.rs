//! Keeps a handover under way, as the old holder sees it.

use vipward_common::MacAddr;

use super::Entry;
use crate::{
    cluster::{Holder, NodeName},
    time::Monotonic,
};

/// A handover under way, as the old holder sees it.
///
/// The old holder answers with the successor's MAC until `until`. That time is
/// fixed with the offer: it ends before the claim has rested, so before another
/// node can have the VIP, even if this process dies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Handing {
    pub(super) to: Holder,
    pub(super) offered: Monotonic,
    /// When the successor's announcement was heard, unless a read has shown that it was another's.
    pub(super) moved: Option<Monotonic>,
    /// True if the successor's own claim was seen.
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
