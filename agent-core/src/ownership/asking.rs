//! Probes of a new VIP's address before this node takes it (RFC 5227, 2.1).
//!
//! A VIP that has had a holder is not probed: its address belongs to
//! the cluster, and a failover must not wait.

use std::{net::Ipv4Addr, time::Duration};

use vipward_common::Policy;

use super::{CLOCKS_DIFFER, Command, Demand, Engine, Probed, Settings, address::Address, vip::Again};
use crate::{cluster::Epoch, time::Monotonic};

/// Time for which the result of a probe is good.
const STAYS_FREE: Duration = Duration::from_secs(10);

impl Engine {
    /// Returns true if a VIP must be probed before this node takes it.
    pub(super) fn must_be_asked(&self, epoch: Epoch, demand: &Demand) -> bool {
        self.settings.probing.is_some() && epoch == Epoch(0) && !demand.force
    }

    /// Succeeds if the address is known to be free. Starts probing if nothing is known.
    pub(super) fn is_free(&mut self, address: Ipv4Addr, now: Monotonic) -> Result<(), Again> {
        let patience = self.peers_patience();
        let vip = self.vip(address);
        vip.asking.matters = true;
        match vip.asking.known {
            Address::Free(since) if now < since + STAYS_FREE => Ok(()),
            Address::AtPeer(since) if since + patience <= now => Ok(()),
            Address::AtPeer(since) => Err(Some(since + patience)),
            Address::Asked | Address::InUse(_) => Err(None),
            Address::Unknown | Address::Free(_) => {
                vip.asking.known = Address::Asked;
                self.command(Command::Probe { vip: address });
                Err(None)
            }
        }
    }

    /// Returns the time for which a peer may rightly answer without a
    /// claim. Its agent may be about to start again.
    ///
    /// If a peer answers for longer, its fence has lapsed, and it gives way to an announcement. The
    /// announcement must come before the peer falls silent by itself.
    fn peers_patience(&self) -> Duration {
        let Settings { lease, restart_lease, margin, policy, hold_for, .. } = self.settings;
        let longest = lease.max(restart_lease);
        let longest = longest + longest / CLOCKS_DIFFER + margin;
        match policy {
            Policy::Hold if hold_for <= longest => self.rest(),
            Policy::Hold | Policy::Stop => longest,
        }
    }

    pub(super) fn on_probed(&mut self, address: Ipv4Addr, probed: Probed, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        let known = &mut vip.asking.known;
        if !known.is_being_asked() {
            return;
        }
        *known = match (probed, *known) {
            (Probed::Free, _) => Address::Free(now),
            (Probed::InUse { mac: _, by_peer: true }, at_peer @ Address::AtPeer(_)) => at_peer,
            (Probed::InUse { mac: _, by_peer: true }, _) => Address::AtPeer(now),
            (Probed::InUse { mac, by_peer: false }, _) => Address::InUse(mac),
        };
        self.dirty.insert(address);
    }

    /// Returns true if this node is the first to take a VIP, and probes its address.
    pub fn asks_first(&self, vip: Ipv4Addr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.asking.first && vip.asking.known.is_being_asked())
    }

    /// Returns true if this node reports a VIP that no node can hold.
    pub fn reports_on(&self, vip: Ipv4Addr, now: Monotonic) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.nobody.is_some()) && self.is_reporter(vip, now)
    }

    /// Stops probing, because this node has the VIP or no longer wants it.
    pub(super) fn stop_asking(&mut self, address: Ipv4Addr) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if std::mem::take(&mut vip.asking.known).is_being_asked() {
            self.command(Command::StopProbing { vip: address });
        }
    }
}
