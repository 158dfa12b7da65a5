//! Knowledge about one node: its Lease, its Node object, and when they were seen.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::MacAddr;

use crate::{
    base::time::Monotonic,
    ownership::times::{REFUSED_RETRY, RETRY},
    records::{LeaseRecord, NodeRecord, Session, Version},
};

/// A node, as this node sees it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) lease: Option<LeaseRecord>,
    /// The Lease before it was deleted, with the sessions that have been ended since. None for a node
    /// that took no part in the failure detector, that has written its Lease since, or whose time is
    /// over.
    pub(super) deleted: Option<LeaseRecord>,
    /// True if this process has seen its Lease carry a session.
    pub(super) has_lived: bool,
    pub(crate) node: Option<NodeRecord>,
    /// Time at which the present version of the Lease, or its absence, was first seen.
    pub(crate) seen: Monotonic,
    /// Duration of the last Lease that was seen, and the time at which it was
    /// first seen. Both stay when the Lease is gone.
    pub(crate) duration: Option<(Duration, Monotonic)>,
    /// Time at which the Lease's session was first seen.
    pub(crate) session_seen: Monotonic,
    /// Time since which each of its MACs has stood in the Lease without a break.
    macs: BTreeMap<MacAddr, Monotonic>,
    /// Time at which it was last seen to get a VIP.
    pub(crate) took: Option<Monotonic>,
    /// True if this node's request about its Lease is under way.
    pub(crate) expiring: bool,
    /// Time before which no next request about its Lease is sent.
    pub(crate) retry: Monotonic,
    pub(super) notices: Notices,
}

/// Expiry notices for a node's present session.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// True if the Lease is being read for one.
    pub(super) reads: bool,
    number: u32,
    next: Monotonic,
}

impl Notices {
    /// Records a notice, and that the Lease is read for it. Returns false if it must wait.
    pub(super) fn begin(&mut self, now: Monotonic) -> bool {
        if self.reads || now < self.next {
            return false;
        }
        let pause = RETRY.saturating_mul(2_u32.saturating_pow(self.number)).min(REFUSED_RETRY);
        *self = Self { reads: true, number: self.number.saturating_add(1), next: now + pause };
        true
    }
}

impl Member {
    pub(crate) fn new(now: Monotonic) -> Self {
        Self {
            lease: None,
            deleted: None,
            has_lived: false,
            node: None,
            seen: now,
            duration: None,
            session_seen: now,
            macs: BTreeMap::new(),
            took: None,
            expiring: false,
            retry: now,
            notices: Notices::default(),
        }
    }

    /// Returns the time since which this MAC has stood in its Lease.
    pub(super) fn mac_since(&self, mac: MacAddr) -> Option<Monotonic> {
        self.macs.get(&mac).copied()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.lease.as_ref()?.live_session()
    }

    /// Returns the last Lease that its node has written. It may be deleted.
    pub(super) fn description(&self) -> Option<&LeaseRecord> {
        self.deleted.as_ref().or(self.lease.as_ref())
    }

    /// Returns true if its Lease states that the node leaves.
    pub(crate) fn is_leaving(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| lease.leaving)
    }

    /// Returns the time until which the node may be away: one duration after
    /// `since`, or after that duration was first seen.
    pub(crate) fn away_until(&self, since: Monotonic) -> Option<Monotonic> {
        self.duration.map(|(duration, said)| since.max(said) + duration)
    }

    /// Records that its Lease is gone. Returns false if it had none.
    pub(crate) fn lose_lease(&mut self, now: Monotonic) -> bool {
        let Some(lease) = self.lease.take() else { return false };
        self.keep_description(lease);
        self.seen = now;
        self.session_seen = now;
        self.macs.clear();
        true
    }

    /// Keeps the Lease that is gone for the failure detector. The node may be dead, or about to write
    /// it again.
    fn keep_description(&mut self, gone: LeaseRecord) {
        if gone.wire.is_some() && gone.live_session().is_some() {
            self.deleted = Some(gone);
        }
    }

    fn version(&self) -> Option<&Version> {
        self.lease.as_ref().map(|lease| &lease.version)
    }

    pub(crate) fn update(&mut self, record: LeaseRecord, now: Monotonic) {
        if self.version() == Some(&record.version) {
            return;
        }
        self.seen = now;
        if self.lease.as_ref().and_then(|lease| lease.session) != record.session {
            self.session_seen = now;
            self.notices = Notices { reads: self.notices.reads, ..Notices::default() };
        }
        self.macs.retain(|mac, _| record.interfaces.iter().any(|interface| interface.mac == *mac));
        for interface in &record.interfaces {
            self.macs.entry(interface.mac).or_insert(now);
        }
        if self.duration.is_none_or(|(known, _)| known != record.duration) {
            self.duration = Some((record.duration, now));
        }
        self.has_lived |= record.session.is_some();
        if record.is_anothers() {
            if let Some(gone) = self.lease.take() {
                self.keep_description(gone);
            }
            if let Some(deleted) = &mut self.deleted {
                deleted.ended.clone_from(&record.ended);
            }
        } else {
            self.deleted = None;
        }
        self.lease = Some(record);
    }
}
