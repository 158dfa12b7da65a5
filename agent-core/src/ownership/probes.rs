//! Probes of a new VIP's address before this node takes it (RFC 5227, 2.1).
//!
//! A VIP that has had a holder is not probed: its address belongs to
//! the cluster, and a failover must not wait.

use std::{sync::Arc, time::Duration};

use vipward_common::{MacAddr, Policy};

use super::{
    CLOCKS_DIFFER, Command, Demand, Probed, Settings,
    address::Address,
    subject::{Again, Subject},
};
use crate::cluster::{Epoch, NodeName};

/// Time for which the result of a probe is good.
pub(super) const STAYS_FREE: Duration = Duration::from_secs(10);
/// Number of candidates that often probe an address in use: the best, and one
/// that goes on at once when the best is gone. The others probe rarely.
const OFTEN_ASKING: usize = 2;

impl Subject<'_> {
    /// Returns true if a VIP must be probed before this node takes it.
    pub(super) fn must_be_probed(&self, epoch: Epoch, demand: &Demand) -> bool {
        self.nodes.settings.probing.is_some() && epoch == Epoch(0) && !demand.force
    }

    /// Succeeds if the address is known to be free. If nothing is known, starts probing, or waits
    /// until there is room. `rank` is the number of better candidates.
    pub(super) fn is_free(&mut self, rank: usize, namespace: Option<&Arc<str>>) -> Result<(), Again> {
        let patience = self.peers_patience();
        let is_foreign = self.is_at_living_peer(patience).is_some();
        let asking = &mut self.vip.asking;
        asking.matters = true;
        asking.first = rank == 0;
        let often = rank < OFTEN_ASKING;
        let is_news = std::mem::replace(&mut asking.often, often) != often;
        let known = asking.known;
        if is_news && known.is_being_asked() {
            self.command(Command::Probe { vip: self.address, often });
        }
        match known {
            Address::Free(since) if self.now < since + STAYS_FREE => Ok(()),
            Address::AtPeer(since, _) if since + patience > self.now => Err(Some(since + patience)),
            Address::AtPeer(..) if is_foreign => Err(None),
            Address::AtPeer(..) => Ok(()),
            Address::Asked | Address::InUse(_) => Err(None),
            Address::Unknown | Address::Free(_) => {
                if !namespace.is_none_or(|namespace| self.pacing.may_ask(self.address, namespace)) {
                    return Err(None);
                }
                self.pacing.begin_asking(self.address, self.now);
                self.vip.asking.known = Address::Asked;
                self.command(Command::Probe { vip: self.address, often });
                Err(None)
            }
        }
    }

    /// Returns the living node that has answered for longer than a node without a claim does. Its
    /// agent would have written the claim, so another program of the node has the address.
    pub(super) fn is_at_living_peer(&self, patience: Duration) -> Option<(MacAddr, &NodeName)> {
        let Address::AtPeer(since, mac) = self.vip.asking.known else { return None };
        let peer = self.nodes.living_peer(mac, self.now)?;
        (since + patience <= self.now).then_some((mac, peer))
    }

    /// Returns the time for which a peer may rightly answer without a
    /// claim. Its agent may be about to start again.
    ///
    /// If a peer answers for longer, its fence has lapsed, and it gives way to an announcement. The
    /// announcement must come before the peer falls silent by itself.
    pub(super) fn peers_patience(&self) -> Duration {
        let Settings { lease, restart_lease, margin, policy, hold_for, .. } = self.nodes.settings;
        let longest = lease.max(restart_lease);
        let longest = longest + longest / CLOCKS_DIFFER + margin;
        match policy {
            Policy::Hold if hold_for <= longest => self.nodes.rest(),
            Policy::Hold | Policy::Stop => longest,
        }
    }

    /// Takes in the result of a probe.
    pub(super) fn on_probed(&mut self, probed: Probed) {
        let known = &mut self.vip.asking.known;
        if !known.is_being_asked() {
            return;
        }
        if probed != Probed::Free {
            self.pacing.end_asking(self.address);
        }
        *known = match (probed, *known) {
            (Probed::Free, _) => Address::Free(self.now),
            (Probed::InUse { mac, by_peer: true }, Address::AtPeer(since, _)) => Address::AtPeer(since, mac),
            (Probed::InUse { mac, by_peer: true }, _) => Address::AtPeer(self.now, mac),
            (Probed::InUse { mac, by_peer: false }, _) => Address::InUse(mac),
        };
        self.evaluate_again();
    }
}
