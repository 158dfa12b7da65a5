//! VIPs that are not held yet: those whose addresses nobody has asked about are held back, foreign and silent, until they are
//! known to be free.

use std::{collections::BTreeSet, net::Ipv4Addr};

use vipward_common::{MacAddr, Role, VipKey};

use super::{Driver, RunError, source::Source};
use crate::core::{
    placement::{Desired, DesiredEntry},
    plan::{self, Observed},
    probing,
};

impl<S: Source> Driver<S> {
    /// Holds back what would be held for the first time until its address is known to be free.
    pub(super) fn hold_back_unprobed(
        &mut self,
        desired: &mut Desired,
        observed: &Observed,
    ) -> Result<(), RunError> {
        // What was yielded is a peer's, and has been ours: whoever takes it back does not ask.
        let yielded = plan::yielded(observed);
        let is_ours = |key: &VipKey| {
            observed.entries.get(key).is_some_and(|entry| entry.role != Role::Foreign)
                || yielded.contains_key(&Ipv4Addr::from(key.addr))
        };
        let asks = self.config.probe.count > 0;
        let must_be_asked = |(key, entry): &(&VipKey, &DesiredEntry)| {
            asks && entry.role == Role::Held && !is_ours(key) && self.source.must_be_free(key.addr.into())
        };
        let held_back: BTreeSet<VipKey> =
            desired.entries.iter().filter(must_be_asked).map(|(key, _)| *key).collect();
        silence(desired, &held_back);
        let before = std::mem::replace(&mut self.held_back, held_back);
        for key in before.difference(&self.held_back).copied().collect::<Vec<_>>() {
            self.ask_no_more(key)?;
        }
        Ok(())
    }

    /// Has it found out whether the addresses are free of what is held back. By now the program tells what it hears of them.
    pub(super) fn ask_about_held_back(&mut self) -> Result<(), RunError> {
        let new = self.held_back.iter().filter(|key| !self.prober.asks_about(key)).copied();
        for key in new.collect::<Vec<_>>() {
            let interface = self.view.interfaces.get(&key.ifindex);
            // What is asked without carrier reaches nobody.
            if interface.is_some_and(|interface| interface.up && interface.carrier) {
                self.tell_prober(probing::Event::Wanted(key))?;
            }
        }
        Ok(())
    }

    /// Takes VIPs whose addresses have been found free, and looks at no others: there may be tens of thousands that wait.
    pub(super) async fn take_free(&mut self, vips: &BTreeSet<Ipv4Addr>) {
        self.held_back.retain(|key| !vips.contains(&key.addr.into()));
        // Only when all is looked at are addresses bound.
        if self.source.wanted_of(&self.config, vips).iter().any(|vip| vip.bind.is_some()) {
            self.reconcile(false).await;
        } else {
            self.reconcile_some(vips).await;
        }
    }
}

/// Makes entries foreign, whoever may have them, and binds none of their addresses.
pub(super) fn silence(desired: &mut Desired, held_back: &BTreeSet<VipKey>) {
    if held_back.is_empty() {
        return;
    }
    for key in held_back {
        if let Some(entry) = desired.entries.get_mut(key) {
            *entry = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
        }
    }
    let silent: BTreeSet<Ipv4Addr> = held_back.iter().map(|key| key.addr.into()).collect();
    desired.binds.retain(|(_, vip)| !silent.contains(vip));
}
