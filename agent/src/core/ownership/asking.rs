//! Whether the address of a VIP that nobody has had yet is free: the segment is asked before it is taken (RFC 5227, 2.1).
//!
//! Only what is new is asked about. What has had a holder is known to be ours, and taking it over must not wait.

use std::{net::Ipv4Addr, time::Duration};

use vipward_common::{MacAddr, Policy};

use super::{CLOCKS_DIFFER, Command, Demand, Engine, Probed, Settings, nobody::is_told, vip::Again};
use crate::core::{
    cluster::{ClaimRecord, Epoch},
    time::Monotonic,
    vendor,
};

/// How long an address that was found free counts as free.
const STAYS_FREE: Duration = Duration::from_secs(10);

/// What is known of the address of a VIP that nobody has had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Address {
    /// Nothing.
    #[default]
    Unknown,
    /// The segment is being asked.
    Asked,
    /// It was free then.
    Free(Monotonic),
    /// A stranger uses it.
    InUse(MacAddr),
    /// A peer answers for it, since then: its claim may have been lost, and it has the time to put that right.
    AtPeer(Monotonic),
}

/// The same, and whether it matters to what is done about the VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Asking {
    pub(super) known: Address,
    pub(super) matters: bool,
    /// Whether this node is the first that would take it, and the one that tells people.
    pub(super) first: bool,
}

impl Address {
    fn is_being_asked(self) -> bool {
        match self {
            Self::Unknown | Self::Free(_) => false,
            Self::Asked | Self::InUse(_) | Self::AtPeer(_) => true,
        }
    }
}

impl Engine {
    /// Whether a VIP must be asked about before this node takes it.
    pub(super) fn must_be_asked(&self, epoch: Epoch, demand: &Demand) -> bool {
        self.settings.probing.is_some() && epoch == Epoch(0) && !demand.force
    }

    /// Whether the address is known to be free; has it found out otherwise.
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

    /// How long a peer that answers may do so rightly without renewing: its agent may be about to start again. Whoever answers
    /// for longer gives way to an announcement, since its fence has lapsed. That must come before it is silent by itself.
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

    /// Whether this node is the first of those that would take a VIP, and asks about its address.
    pub fn asks_first(&self, vip: Ipv4Addr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.asking.first && vip.asking.known.is_being_asked())
    }

    /// Whether this node is the one that tells people about a VIP that nobody can hold.
    pub fn reports_on(&self, vip: Ipv4Addr, now: Monotonic) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.nobody.is_some()) && self.is_reporter(vip, now)
    }

    /// This node does not want the VIP any more, or has it.
    pub(super) fn stop_asking(&mut self, address: Ipv4Addr) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if std::mem::take(&mut vip.asking.known).is_being_asked() {
            self.command(Command::StopProbing { vip: address });
        }
    }

    /// Says who uses the address, when this node is the one that would take it.
    pub(super) fn tell_in_use(&mut self, address: Ipv4Addr, claim: Option<&ClaimRecord>, demand: &Demand) {
        let Address::InUse(mac) = self.vips[&address].asking.known else { return };
        let why = format!("{address} is in use by {mac}, {}; it is taken when it is free", vendor::of(mac));
        if !is_told(claim, demand, &why) {
            self.tell_trouble(address, claim, demand, "its address is in use", why);
        }
    }
}
