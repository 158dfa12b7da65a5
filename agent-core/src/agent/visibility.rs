//! Decides on which segments the program sees the frames, and which VIPs' frames the network takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{Proof, VipFault, VipKey};

use crate::{
    base::time::Monotonic,
    segment::{
        egress::{self, Egress, Resting},
        inquiry::Inquiry,
        own_frames::Twins,
        proving::Proving,
    },
};

/// The time until a VIP of another node that was not answered is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// The segments, and the findings whether the program sees their frames.
#[derive(Debug)]
pub(super) struct Visibility {
    pub(super) proving: Proving,
    pub(super) egress: Egress,
    pub(super) inquiry: Inquiry,
    /// The last VIP of others that was considered, by segment.
    pub(super) inquired: BTreeMap<u32, IpAddr>,
    /// The VIPs of this node whose clients do not reach it, as other nodes found.
    pub(super) unreached: BTreeMap<IpAddr, VipFault>,
    /// The VIPs that this node found unheard, and for which it comes last.
    pub(super) resting: Resting,
    /// The findings why frames with this host's own MAC come in.
    pub(super) twins: Twins,
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
            egress: Egress::default(),
            inquiry: Inquiry::default(),
            inquired: BTreeMap::new(),
            unreached: BTreeMap::new(),
            resting: Resting::default(),
            twins: Twins::default(),
            segments: BTreeSet::new(),
            listening: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    pub(super) fn proof(&self, ifindex: u32) -> Proof {
        self.proving.proof(ifindex)
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.proving.next_deadline().into_iter().chain(self.resting.next_deadline()).min()
    }

    /// Passes an event to the proof of the way out, which may need rounds.
    pub(super) fn on_egress(&mut self, event: egress::Event, now: Monotonic) -> Vec<egress::Command> {
        let segment = event.segment();
        let commands = self.egress.on_event(event, now);
        self.want_round(segment, now);
        commands
    }

    /// Has a round begin when one is needed.
    pub(super) fn want_round(&mut self, segment: u32, now: Monotonic) {
        let own = self.egress.wanted(segment);
        let others = self.inquiry.is_open(segment).then(|| now + AGAIN);
        self.proving.want(segment, own.into_iter().chain(others).min());
    }

    /// Returns the fault of a held VIP. Another node's finding outweighs this one's.
    pub(super) fn fault(&self, key: VipKey) -> Option<VipFault> {
        fault(&self.egress, &self.unreached, key)
    }

    /// Records that frames of a segment take another way. Returns true if a finding for the Lease ends.
    pub(super) fn begin_anew(&mut self, segment: u32) -> bool {
        let is_faulty = |key| fault(&self.egress, &self.unreached, key).is_some();
        let has_ended = self.resting.begin_anew(segment, is_faulty);
        self.inquiry.begin_anew(segment) || has_ended
    }

    /// Ends the rests whose time is over. Returns true if one ends.
    pub(super) fn end_rests(&mut self, now: Monotonic) -> bool {
        let is_faulty = |key| fault(&self.egress, &self.unreached, key).is_some();
        self.resting.on_tick(now, is_faulty)
    }

    /// Records that an entry has changed.
    pub(super) fn on_entry(&mut self, vip: IpAddr) {
        if !self.listening.is_empty() {
            self.changed.insert(vip);
        }
    }
}

fn fault(egress: &Egress, unreached: &BTreeMap<IpAddr, VipFault>, key: VipKey) -> Option<VipFault> {
    unreached.get(&key.addr).copied().or_else(|| egress.is_unheard(key).then_some(VipFault::Unheard))
}
