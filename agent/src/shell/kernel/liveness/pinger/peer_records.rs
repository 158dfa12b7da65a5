//! The program's records of the peers.

use std::sync::Arc;

use vipward_common::WireIndexKey;
use vipward_core::{
    base::time::Boottime,
    liveness::{ExpiryNotice, Seen, Sight},
    records::{Session, Wid},
};

use crate::shell::kernel::{bpf::WireMaps, liveness::slots::Slots};

pub(super) fn index_of(interfaces: &[(Arc<str>, u32)], name: &str) -> Option<u32> {
    interfaces.iter().find(|(known, _)| **known == *name).map(|(_, index)| *index)
}

pub(super) struct PeerRecords<'a> {
    pub(super) maps: &'a WireMaps,
    pub(super) slots: &'a Slots,
    pub(super) interfaces: &'a [(Arc<str>, u32)],
}

impl PeerRecords<'_> {
    fn of(&self, id: u64, interface: &str) -> Sight {
        let ifindex = index_of(self.interfaces, interface);
        let slot = ifindex.and_then(|ifindex| self.slots.of(WireIndexKey::new(id, ifindex)));
        // A map that cannot be read counts as empty. A peer without any record is not found
        // unresponsive.
        let seen = slot.and_then(|slot| self.maps.seen(slot).ok()).unwrap_or_default();
        Sight { answered: Boottime::from_nanos(seen.answered), received: Boottime::from_nanos(seen.received) }
    }
}

impl Seen for PeerRecords<'_> {
    fn holder(&self, session: Session, interface: &str) -> Sight {
        self.of(session.number(), interface)
    }

    fn monitor(&self, wid: Wid, interface: &str) -> Sight {
        self.of(wid.number(), interface)
    }

    fn notified(&self) -> Option<ExpiryNotice> {
        self.maps.expiry_notice().ok().and_then(ExpiryNotice::of)
    }
}
