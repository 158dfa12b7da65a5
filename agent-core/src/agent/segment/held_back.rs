//! VIPs that wait, silent, until their addresses are known to be free.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use vipward_common::{MacAddr, Role, VipKey};

use super::{
    Segment,
    types::{Context, Effect},
};
use crate::{
    host::{
        net::{Interface, NetView},
        placement::{Desired, DesiredEntry, Obstacle},
        plan::{self, Observed},
    },
    segment::probing::{self, Manner},
};

impl Segment {
    /// Holds back each VIP that would be held for the first time, until its address is known to be
    /// free: its desired entry is made silent.
    pub fn hold_back(
        &mut self,
        desired: &mut Desired,
        observed: &Observed,
        context: &Context<'_>,
    ) -> Vec<Effect> {
        // A yielded VIP has been held here before, so it is taken back without a probe.
        let yielded = plan::yielded(observed);
        let was_held = |key: &VipKey| {
            observed.entries.get(key).is_some_and(|entry| entry.role != Role::Foreign)
                || yielded.contains_key(&key.addr)
        };
        let must_be_asked = |(key, entry): &(&VipKey, &DesiredEntry)| {
            let is_new = entry.role == Role::Held && (!was_held(key) || self.prober.is_in_use(key));
            self.asks && is_new && context.authority.must_be_free(key.addr)
        };
        let held_back = desired.entries.iter().filter(must_be_asked).map(|(key, _)| *key).collect();
        let before = std::mem::replace(&mut self.held_back, held_back);
        self.silence(desired, context.view);
        for key in before.difference(&self.held_back).copied().collect::<Vec<_>>() {
            self.stop_probing(key, context);
        }
        std::mem::take(&mut self.effects)
    }

    /// Makes the entries of held-back VIPs foreign to all MACs, and binds none of their addresses.
    /// Removes an entry where the kernel answers for another program.
    pub fn silence(&self, desired: &mut Desired, view: &NetView) {
        if self.held_back.is_empty() {
            return;
        }
        let own = OwnAddresses::of(view);
        for key in &self.held_back {
            let with_address: Vec<_> = own.on_segment_of(key).map(|(interface, _)| interface.index).collect();
            if !with_address.is_empty() {
                desired.entries.remove(key);
                for ifindex in with_address {
                    desired.entries.remove(&VipKey::new(ifindex, key.addr));
                }
            } else if let Some(entry) = desired.entries.get_mut(key) {
                *entry = DesiredEntry::new(Role::Foreign, MacAddr::ZERO);
            }
        }
        let silent: BTreeSet<IpAddr> = self.held_back().collect();
        desired.binds.retain(|(_, vip)| !silent.contains(vip));
    }

    /// Starts to probe the held-back addresses, and stops where another program has put the address on
    /// this host.
    pub(super) fn probe_held_back(&mut self, context: &Context<'_>) {
        if self.held_back.is_empty() {
            return;
        }
        let own = OwnAddresses::of(context.view);
        for key in self.held_back.clone() {
            let is_own = own.on_segment_of(&key).next().is_some();
            let interface = context.view.interfaces.get(&key.ifindex);
            // Without a carrier a probe reaches no host.
            let reaches_hosts = interface.is_some_and(|interface| interface.up && interface.carrier);
            match self.prober.asks_about(&key) {
                true if is_own => self.stop_probing(key, context),
                false if !is_own && reaches_hosts => {
                    self.probe(probing::Event::Wanted { key, manner: Manner::OFTEN }, context);
                }
                true | false => {}
            }
        }
    }

    /// Returns an obstacle for each held-back address that another program has put on an interface of the
    /// VIP's segment. This host's kernel answers for it, so probes would find nothing.
    pub fn own_addresses(&self, view: &NetView) -> Vec<Obstacle> {
        if self.held_back.is_empty() {
            return Vec::new();
        }
        let own = OwnAddresses::of(view);
        let obstacle = |key: &VipKey| {
            let (interface, net) = own.on_segment_of(key).next()?;
            let owner = view.owner_of(interface.index, &net);
            Some(Obstacle::OwnAddress { vip: key.addr, net, interface: interface.name.clone(), owner })
        };
        self.held_back.iter().filter_map(obstacle).collect()
    }

    pub fn held_back(&self) -> impl Iterator<Item = IpAddr> {
        self.held_back.iter().map(|key| key.addr)
    }

    pub(crate) fn held_back_keys(&self) -> impl Iterator<Item = &VipKey> {
        self.held_back.iter()
    }

    /// Returns the MAC that was found to use an address.
    pub(crate) fn user_of(&self, key: &VipKey) -> Option<MacAddr> {
        self.prober.user_of(key)
    }

    /// Returns the held-back VIPs whose addresses were found in use.
    pub fn in_use(&self) -> impl Iterator<Item = IpAddr> {
        self.held_back.iter().filter(|key| self.prober.is_in_use(key)).map(|key| key.addr)
    }

    /// Returns the addresses that are being probed, rest or are queued.
    pub fn asked(&self) -> impl Iterator<Item = IpAddr> {
        self.asked_keys().map(|key| key.addr)
    }

    pub(crate) fn asked_keys(&self) -> impl Iterator<Item = VipKey> {
        self.prober.all_asked()
    }

    /// Returns the number of probed addresses without any result yet.
    pub fn undecided(&self) -> usize {
        self.prober.undecided()
    }

    /// Returns true if an address is probed here, or waits for that.
    pub fn is_probed(&self, key: &VipKey) -> bool {
        self.held_back.contains(key) || self.prober.asks_about(key)
    }

    /// Returns the addresses that are probed here, or wait for that.
    pub fn probed(&self) -> BTreeSet<VipKey> {
        self.held_back.iter().copied().chain(self.prober.all_asked()).collect()
    }
}

/// The addresses of this host that the agent has not bound.
struct OwnAddresses<'a> {
    view: &'a NetView,
    by_address: BTreeMap<IpAddr, Vec<(&'a Interface, IpNet)>>,
}

impl<'a> OwnAddresses<'a> {
    fn of(view: &'a NetView) -> Self {
        let mut by_address: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for interface in view.interfaces.values() {
            for net in interface.foreign_addresses() {
                by_address.entry(net.addr()).or_default().push((interface, net));
            }
        }
        Self { view, by_address }
    }

    /// Returns the interfaces of the VIP's segment that have its address.
    fn on_segment_of(&self, key: &VipKey) -> impl Iterator<Item = (&'a Interface, IpNet)> {
        let with_address = self.by_address.get(&key.addr).into_iter().flatten().copied();
        let ifindex = key.ifindex;
        let is_here = move |(interface, _): &(&Interface, IpNet)| {
            self.view.segment_of(interface.index) == self.view.segment_of(ifindex)
        };
        with_address.filter(is_here)
    }
}
