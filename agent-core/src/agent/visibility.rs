//! Decides on which segments the program sees the frames.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::Proof;

use crate::{base::time::Monotonic, segment::proving::Proving};

/// The segments, and the findings whether the program sees their frames.
#[derive(Debug)]
pub(super) struct Visibility {
    pub(super) proving: Proving,
    /// The segments that the program serves, from the last full round.
    pub(super) segments: BTreeSet<u32>,
    /// The segments on which a round of listening is under way, with its number.
    pub(super) listening: BTreeMap<u32, u64>,
    /// VIPs with entries that have changed since those rounds began.
    pub(super) changed: BTreeSet<IpAddr>,
}

impl Visibility {
    pub(super) fn start(proofs: BTreeMap<u32, Proof>) -> Self {
        Self {
            proving: Proving::start(proofs),
            segments: BTreeSet::new(),
            listening: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    pub(super) fn proof(&self, ifindex: u32) -> Proof {
        self.proving.proof(ifindex)
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.proving.next_deadline()
    }

    /// Records that an entry has changed.
    pub(super) fn on_entry(&mut self, vip: IpAddr) {
        if !self.listening.is_empty() {
            self.changed.insert(vip);
        }
    }
}
