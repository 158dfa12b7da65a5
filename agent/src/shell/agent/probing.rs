//! Probing: sends the prober's probes, and holds VIPs back, foreign and silent, until their
//! addresses are known to be free.

use std::{collections::BTreeSet, net::IpAddr};

use tracing::{debug, warn};
use vipward_common::{MacAddr, Role, VipKey};
use vipward_core::{
    base::time::Monotonic,
    host::{
        net::NetView,
        placement::{Desired, DesiredEntry, Obstacle},
        plan::{self, Observed},
    },
    segment::{
        conflict::{self, What},
        probing::{self, Probed},
        yields,
    },
};

use super::{
    error::RunError,
    event_loop::EventLoop,
    source::Source,
    timing::{millis, now},
};
use crate::shell::logging::causes::chain;

impl<S: Source> EventLoop<S> {
    /// Passes an event to the prober, and carries out the commands.
    pub(super) fn tell_prober(&mut self, event: probing::Event) -> Result<(), RunError> {
        let commands = self.prober.on_event(event, now()?);
        self.carry_out_probing(commands)
    }

    pub(super) fn carry_out_probing(&mut self, commands: Vec<probing::Command>) -> Result<(), RunError> {
        for command in commands {
            match command {
                probing::Command::Send(key) => {
                    if !self.ask(key, None) {
                        self.prober.on_event(probing::Event::NotSent(key), now()?);
                    }
                }
                // The program reports no answer about a VIP whose entry is missing.
                probing::Command::Free(key) if self.stale.left(key.addr).is_some() => {
                    self.prober.on_event(probing::Event::Wanted { key, often: true }, now()?);
                }
                probing::Command::Free(key) => {
                    self.tell_conflicts(conflict::Event::Free(key))?;
                    self.note_probed(key, Probed::Free)?;
                }
                probing::Command::InUse { key, mac, by_peer, conflicts, again } => {
                    let (vip, now) = (key.addr, now()?);
                    let again_ms = millis(again.saturating_since(now));
                    debug!(%vip, %mac, conflicts, again_ms, "the address is in use");
                    self.note_probed(key, Probed::InUse { mac, by_peer })?;
                }
            }
        }
        Ok(())
    }

    /// Passes the result of a probe to the part that asked for it.
    fn note_probed(&mut self, key: VipKey, probed: Probed) -> Result<(), RunError> {
        if self.yields.asks_about(&key) {
            return self.tell_yields(yields::Event::Probed { key, probed });
        }
        self.source.note_probed(key.addr, probed, now()?);
        Ok(())
    }

    /// Sends the probes that are due: for held-back addresses, and for held VIPs.
    pub(super) fn tick_probing(&mut self, now: Monotonic) -> Result<(), RunError> {
        self.tell_prober(probing::Event::Tick)?;
        if self.started {
            let announcer = &self.announcer;
            let after = |key| announcer.after(key).map(|(key, _)| key);
            let held = self.prober.next_of_held(announcer.count(), after, now);
            if held.is_empty() {
                return Ok(());
            }
            let standing = self.standing()?;
            for key in held {
                // A node that has lost a VIP does not probe in its name.
                if self.may_announce(key, &standing) {
                    self.ask(key, self.source_for(key));
                }
            }
        }
        Ok(())
    }

    /// Returns the next deadline of [`EventLoop::tick_probing`].
    pub(super) fn probing_deadline(&self) -> Option<Monotonic> {
        let round = self.prober.next_round().filter(|_| self.started);
        self.prober.next_deadline().into_iter().chain(round).min()
    }

    /// Returns the address from which a held VIP is asked for. A rival's answer to a probe for an IPv6
    /// address would go to all hosts, and they would believe it.
    fn source_for(&self, key: VipKey) -> Option<IpAddr> {
        let interface = self.view.interfaces.get(&key.ifindex).filter(|_| key.addr.is_ipv6())?;
        let entry = |vip| self.plane.maps().entry(&VipKey::new(key.ifindex, vip));
        interface.source_for(key.addr, |vip| !matches!(entry(vip), Ok(None)))
    }

    /// Asks for an address: by a probe, or from `source`. Returns true if the question was sent.
    pub(super) fn ask(&self, key: VipKey, source: Option<IpAddr>) -> bool {
        let Some(interface) = self.view.interfaces.get(&key.ifindex) else { return false };
        let vip = key.addr;
        match self.packets.ask(key.ifindex, interface.mac, vip, source) {
            Ok(()) => {
                debug!(%vip, interface = %interface.name, "probed");
                true
            }
            Err(error) => {
                warn!(%vip, interface = %interface.name, error = chain(&error), "not probed");
                false
            }
        }
    }

    /// Holds back each VIP that would be held for the first time, until its address is known to be
    /// free.
    pub(super) fn hold_back_unprobed(
        &mut self,
        desired: &mut Desired,
        observed: &Observed,
    ) -> Result<(), RunError> {
        // A yielded VIP has been held here before, so it is taken back without a probe.
        let yielded = plan::yielded(observed);
        let was_held = |key: &VipKey| {
            observed.entries.get(key).is_some_and(|entry| entry.role != Role::Foreign)
                || yielded.contains_key(&key.addr)
        };
        let asks = self.config.probe.count > 0;
        let must_be_asked = |(key, entry): &(&VipKey, &DesiredEntry)| {
            asks && entry.role == Role::Held && !was_held(key) && self.source.must_be_free(key.addr)
        };
        let held_back: BTreeSet<VipKey> =
            desired.entries.iter().filter(must_be_asked).map(|(key, _)| *key).collect();
        silence(desired, &held_back, &self.view);
        let before = std::mem::replace(&mut self.held_back, held_back);
        for key in before.difference(&self.held_back).copied().collect::<Vec<_>>() {
            self.stop_asking(key)?;
        }
        Ok(())
    }

    /// Returns an obstacle for each held-back address that another program has put on the VIP's
    /// interface. This host's kernel answers for it, so probes would find nothing.
    pub(super) fn own_addresses(&self) -> impl Iterator<Item = Obstacle> {
        self.held_back.iter().filter_map(|key| {
            let (vip, interface) = (key.addr, self.view.interfaces.get(&key.ifindex)?);
            let net = interface.foreign_address(vip)?;
            Some(Obstacle::OwnAddress { vip, net, interface: interface.name.clone() })
        })
    }

    /// Starts probing the held-back addresses. Their entries are
    /// written, so the program reports the answers.
    pub(super) fn probe_held_back(&mut self) -> Result<(), RunError> {
        let own = |key: &VipKey| is_own_address(&self.view, *key);
        let stopped = self.held_back.iter().filter(|key| self.prober.asks_about(key) && own(key));
        for key in stopped.copied().collect::<Vec<_>>() {
            self.stop_asking(key)?;
        }
        let own = |key: &VipKey| is_own_address(&self.view, *key);
        let new = self.held_back.iter().filter(|key| !self.prober.asks_about(key) && !own(key)).copied();
        for key in new.collect::<Vec<_>>() {
            let interface = self.view.interfaces.get(&key.ifindex);
            // Without a carrier a probe reaches no host.
            if interface.is_some_and(|interface| interface.up && interface.carrier) {
                self.tell_prober(probing::Event::Wanted { key, often: true })?;
            }
        }
        Ok(())
    }

    /// Returns true if an address is probed here, or waits for that.
    pub(super) fn is_probed(&self, key: &VipKey) -> bool {
        self.held_back.contains(key) || self.prober.asks_about(key)
    }

    /// Returns the addresses that are probed here, or wait for that.
    pub(super) fn probed(&self) -> BTreeSet<VipKey> {
        self.held_back.iter().copied().chain(self.prober.all_asked()).collect()
    }

    /// Stops probing an address. A conflict with its user no longer concerns this node.
    pub(super) fn stop_asking(&mut self, key: VipKey) -> Result<(), RunError> {
        self.tell_prober(probing::Event::Forget(key))?;
        self.hear_questions(key)?;
        if self.conflicts.about(&key).is_some_and(|conflict| conflict.what == What::InUse) {
            self.tell_conflicts(conflict::Event::Forgotten(key))?;
        }
        Ok(())
    }

    /// Takes the VIPs whose addresses were found free. Examines no
    /// others, since tens of thousands may wait.
    pub(super) async fn take_free(&mut self, vips: &BTreeSet<IpAddr>) {
        self.held_back.retain(|key| !vips.contains(&key.addr));
        // Only a full reconciliation binds addresses.
        if self.source.wanted_of(&self.config, vips).iter().any(|vip| vip.bind.is_some()) {
            self.reconcile(false).await;
        } else {
            self.reconcile_some(vips).await;
        }
    }
}

/// Returns true if another program has put the VIP's address on this interface.
fn is_own_address(view: &NetView, key: VipKey) -> bool {
    let interface = view.interfaces.get(&key.ifindex);
    interface.is_some_and(|interface| interface.foreign_address(key.addr).is_some())
}

/// Makes entries foreign to all MACs, and binds none of their addresses. Removes an entry where the
/// kernel answers for another program.
pub(super) fn silence(desired: &mut Desired, held_back: &BTreeSet<VipKey>, view: &NetView) {
    if held_back.is_empty() {
        return;
    }
    for key in held_back {
        if is_own_address(view, *key) {
            desired.entries.remove(key);
        } else if let Some(entry) = desired.entries.get_mut(key) {
            *entry = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
        }
    }
    let silent: BTreeSet<IpAddr> = held_back.iter().map(|key| key.addr).collect();
    desired.binds.retain(|(_, vip)| !silent.contains(vip));
}
