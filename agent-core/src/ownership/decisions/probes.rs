//! Probes of a new VIP's address before this node takes it (RFC 5227, 2.1).
//!
//! A VIP that a node holds, or held a short time ago, is not probed: its address belongs to the
//! cluster, and a failover must not wait. Any other one may be another host's by now.

use std::{sync::Arc, time::Duration};

use vipward_common::{MacAddr, Policy};

use super::{
    subject::{Again, Subject},
    taking::ANSWERED_LATE,
};
use crate::{
    base::time::Monotonic,
    ownership::{
        command::Command,
        settings::Settings,
        times::{CLOCKS_DIFFER, STAYS_FREE},
        vip::{Address, Occupancy},
    },
    records::{ClaimRecord, Demand, Epoch, NodeName},
    segment::probing::{Manner, Probed},
};

/// Number of candidates that often probe an address in use: the best, and one
/// that goes on at once when the best is gone. The others probe rarely.
const OFTEN_ASKING: usize = 2;

/// What the answer of a probe means, if a node may have given it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PeersAnswer {
    /// The node may hold the VIP, and write its claim until then.
    MayBeRight { until: Monotonic },
    /// No agent lives there. Its program gives way to an announcement.
    GivesWay,
    /// The address is in use by another host, or by another program of a node.
    IsAnothers,
}

impl Subject<'_> {
    /// Returns true if a VIP must be probed before this node takes it.
    pub(super) fn must_be_probed(&self, demand: &Demand) -> bool {
        self.nodes.settings.probing.is_some() && !demand.force && !self.vip.occupancy.is_lately(self.now)
    }

    /// Succeeds if the address is known to be free. If nothing is known, starts probing, or waits
    /// until there is room. `rank` is the number of better candidates.
    pub(crate) fn is_free(&mut self, rank: usize, namespace: Option<&Arc<str>>) -> Result<(), Again> {
        let answer = self.peers_answer();
        let patient = self.vip.claim.record.as_ref().is_some_and(|claim| claim.note.cause == ANSWERED_LATE);
        let asking = &mut self.vip.asking;
        asking.matters = true;
        asking.first = rank == 0;
        let manner = Manner { often: rank < OFTEN_ASKING, patient };
        let is_news = asking.manner.replace(manner) != Some(manner);
        let known = asking.known;
        if is_news && known.is_being_probed() {
            self.command(Command::Probe { vip: self.address, manner });
        }
        match known {
            Address::Free(since) if self.now < since + STAYS_FREE => Ok(()),
            Address::InUse(_) | Address::AtPeer(..) if answer == PeersAnswer::GivesWay => Ok(()),
            Address::AtPeer(..) => match answer {
                PeersAnswer::MayBeRight { until } => Err(Some(until)),
                PeersAnswer::GivesWay | PeersAnswer::IsAnothers => Err(None),
            },
            Address::Probing | Address::Unheard | Address::InUse(_) => Err(None),
            Address::Unknown | Address::Free(_) => {
                if !namespace.is_none_or(|namespace| self.pacing.may_ask(self.address, namespace)) {
                    return Err(None);
                }
                self.pacing.begin_asking(self.address, self.now);
                self.vip.asking.known = Address::Probing;
                self.command(Command::Probe { vip: self.address, manner });
                Err(None)
            }
        }
    }

    /// Judges the answer of a probe, if a node may have given it.
    fn peers_answer(&self) -> PeersAnswer {
        let is_former = |mac| self.vip.former == Some(mac);
        match self.vip.asking.known {
            // A node that hands the VIP over to this one answers with this one's MAC.
            Address::InUse(mac) | Address::AtPeer(_, mac) if self.is_own(mac) => PeersAnswer::GivesWay,
            Address::AtPeer(since, mac) => {
                let lives = self.nodes.living_peer(mac, self.now).is_some();
                let until = since + self.peers_patience(lives);
                if until > self.now {
                    PeersAnswer::MayBeRight { until }
                } else if !lives && is_former(mac) {
                    PeersAnswer::GivesWay
                } else {
                    PeersAnswer::IsAnothers
                }
            }
            // The Lease of the last holder is gone.
            Address::InUse(mac) if is_former(mac) => PeersAnswer::GivesWay,
            Address::InUse(_) | Address::Unknown | Address::Probing | Address::Unheard | Address::Free(_) => {
                PeersAnswer::IsAnothers
            }
        }
    }

    pub(super) fn is_own(&self, mac: MacAddr) -> bool {
        self.nodes.own.interfaces.iter().any(|interface| interface.mac == mac)
    }

    /// Returns the node that answers and neither holds the VIP nor gives way: another program of the
    /// node has the address.
    pub(super) fn is_at_peer(&self) -> Option<(MacAddr, &NodeName)> {
        let Address::AtPeer(_, mac) = self.vip.asking.known else { return None };
        (self.peers_answer() == PeersAnswer::IsAnothers).then_some((mac, self.nodes.peer(mac)?))
    }

    /// Returns the time for which a peer may rightly answer without a
    /// claim. Its agent may be about to start again.
    ///
    /// If the last holder answers for longer, it is in its grace period and gives way to an
    /// announcement. The announcement must come before the grace period ends.
    fn peers_patience(&self, lives: bool) -> Duration {
        // The claim states that no node holds the VIP. A living node may be about to correct it. A
        // dead node's program gives way.
        if self.vip.claim.epoch() > Some(Epoch(0)) {
            return if lives { self.nodes.rest() } else { Duration::ZERO };
        }
        let Settings { lease, restart_lease, margin, policy, hold_for, .. } = self.nodes.settings;
        let longest = lease.max(restart_lease);
        let longest = longest + longest / CLOCKS_DIFFER + margin;
        match policy {
            Policy::Hold if hold_for <= longest => self.nodes.rest(),
            Policy::Hold | Policy::Stop => longest,
        }
    }

    /// Gives a VIP back that this node holds, because a host answers that had its address before. It
    /// has not been held for longer than a late answer takes, so no one counts as its last holder.
    pub(super) fn give_back(&mut self, claim: &ClaimRecord, demand: &Demand) {
        self.set_foreign(MacAddr::ZERO);
        self.vip.let_go();
        self.vip.tenure.stop_handover();
        self.vip.occupancy = Occupancy::default();
        self.report_in_use(Some(claim), demand);
        self.vip.asking.late = None;
    }

    pub(crate) fn on_probed(&mut self, probed: Probed) {
        if let Probed::Late { mac, .. } = probed {
            (self.vip.asking.known, self.vip.asking.late) = (Address::InUse(mac), Some(mac));
            return self.evaluate_again();
        }
        if !self.vip.asking.known.is_being_probed() {
            return;
        }
        if probed == Probed::Free {
            self.vip.asking.late = None;
        } else {
            self.pacing.end_asking(self.address);
        }
        let known = &mut self.vip.asking.known;
        *known = match (probed, *known) {
            (Probed::Free, _) => Address::Free(self.now),
            (Probed::Unheard, _) => Address::Unheard,
            (Probed::InUse { mac, by_peer: true }, Address::AtPeer(since, _)) => Address::AtPeer(since, mac),
            (Probed::InUse { mac, by_peer: true }, _) => Address::AtPeer(self.now, mac),
            (Probed::InUse { mac, .. } | Probed::Late { mac, .. }, _) => Address::InUse(mac),
        };
        self.evaluate_again();
    }
}
