//! The smallest difference between what is observed in the kernel and what is desired, as actions in a safe order.
//!
//! The order is: what is needed first (links, peers), then releases, then takes, then binds; and a bound address is
//! taken away before its entry goes, or the kernel would answer for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
};

use vipward_common::{MacAddr, Role, VipEntry, VipKey, Yield};

use super::placement::{Desired, DesiredEntry};

#[cfg(test)]
mod tests;

/// What the kernel has, as it was just read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    /// The entries of `vips_v4`.
    pub entries: BTreeMap<VipKey, VipEntry>,
    /// What the program recorded, by slot.
    pub yields: BTreeMap<u32, Yield>,
    /// Our own MAC on each interface.
    pub links: BTreeMap<u32, MacAddr>,
    /// The peers.
    pub peers: BTreeSet<(u32, MacAddr)>,
    /// The addresses that carry our label.
    pub binds: BTreeSet<(String, Ipv4Addr)>,
    /// How many slots there are.
    pub max_slots: u32,
}

/// Why an entry changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The configuration has it.
    Configured,
    /// The configuration has it no more, or its interface is gone.
    NotConfigured,
    /// The interface's MAC, or the guarded one, is another.
    MacChanged,
    /// The program gave way to a peer.
    Yielded,
    /// The operator took it back from the peer that it was yielded to.
    Reclaimed,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured",
            Self::NotConfigured => "not configured",
            Self::MacChanged => "MAC changed",
            Self::Yielded => "yielded to a peer",
            Self::Reclaimed => "taken back by the operator",
        })
    }
}

/// One change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write our own MAC on an interface.
    PutLink {
        /// The interface.
        ifindex: u32,
        /// Its MAC.
        mac: MacAddr,
    },
    /// Forget an interface.
    RemoveLink {
        /// The interface.
        ifindex: u32,
    },
    /// Make a peer known.
    PutPeer {
        /// The interface.
        ifindex: u32,
        /// Its MAC.
        mac: MacAddr,
    },
    /// Forget a peer.
    RemovePeer {
        /// The interface.
        ifindex: u32,
        /// Its MAC.
        mac: MacAddr,
    },
    /// Write an entry.
    PutEntry {
        /// Which.
        key: VipKey,
        /// What it says.
        entry: VipEntry,
        /// Whether the slot is new to this VIP, so that its counts must begin at zero.
        reset_counters: bool,
        /// Why.
        cause: Cause,
    },
    /// Remove an entry.
    RemoveEntry {
        /// Which.
        key: VipKey,
        /// Why.
        cause: Cause,
    },
    /// Put a VIP on an interface.
    AddBind {
        /// The interface.
        interface: String,
        /// The VIP.
        vip: Ipv4Addr,
    },
    /// Take a VIP from an interface.
    RemoveBind {
        /// The interface.
        interface: String,
        /// The VIP.
        vip: Ipv4Addr,
    },
}

/// The actions that turn `observed` into `desired`. `reclaim` takes back what was yielded.
pub fn plan(desired: &Desired, observed: &Observed, reclaim: bool) -> Vec<Action> {
    let mut planner = Planner::new(desired, observed, reclaim);
    let (takes, others): (Vec<_>, Vec<_>) = desired.entries.iter().partition(|(key, entry)| {
        entry.role == Role::Held
            && observed.entries.get(key).is_none_or(|observed| observed.role != Role::Held)
    });

    // A start with very many VIPs is where the agent needs most memory: nothing here grows by doubling.
    let mut actions = Vec::with_capacity(desired.entries.len() + desired.links.len() + desired.peers.len());
    actions.extend(changed_links(desired, observed));
    actions.extend(new_peers(desired, observed));
    actions.extend(stale_binds(desired, observed));
    actions.extend(
        observed
            .entries
            .keys()
            .filter(|key| !desired.entries.contains_key(key))
            .map(|key| Action::RemoveEntry { key: *key, cause: Cause::NotConfigured }),
    );
    // Slots are given to takes first: the low ones have counters. Written last: a release comes before a take.
    let takes: Vec<_> = takes.into_iter().filter_map(|(key, entry)| planner.entry(key, entry)).collect();
    actions.extend(others.into_iter().filter_map(|(key, entry)| planner.entry(key, entry)));
    actions.extend(takes);
    actions.extend(
        desired
            .binds
            .difference(&observed.binds)
            .map(|(interface, vip)| Action::AddBind { interface: interface.clone(), vip: *vip }),
    );
    actions.extend(
        observed
            .peers
            .difference(&desired.peers)
            .map(|(ifindex, mac)| Action::RemovePeer { ifindex: *ifindex, mac: *mac }),
    );
    actions.extend(
        observed
            .links
            .keys()
            .filter(|ifindex| !desired.links.contains_key(ifindex))
            .map(|ifindex| Action::RemoveLink { ifindex: *ifindex }),
    );
    actions
}

fn changed_links<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    desired
        .links
        .iter()
        .filter(|(ifindex, mac)| observed.links.get(ifindex) != Some(mac))
        .map(|(ifindex, mac)| Action::PutLink { ifindex: *ifindex, mac: *mac })
}

fn new_peers<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    desired
        .peers
        .difference(&observed.peers)
        .map(|(ifindex, mac)| Action::PutPeer { ifindex: *ifindex, mac: *mac })
}

fn stale_binds<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    observed
        .binds
        .difference(&desired.binds)
        .map(|(interface, vip)| Action::RemoveBind { interface: interface.clone(), vip: *vip })
}

struct Planner<'a> {
    observed: &'a Observed,
    reclaim: bool,
    /// Free slots, lowest first.
    free: std::vec::IntoIter<u32>,
}

impl<'a> Planner<'a> {
    fn new(desired: &Desired, observed: &'a Observed, reclaim: bool) -> Self {
        let kept: BTreeSet<u32> = observed
            .entries
            .iter()
            .filter(|(key, _)| desired.entries.contains_key(key))
            .map(|(_, entry)| entry.slot)
            .collect();
        let new = desired.entries.keys().filter(|key| !observed.entries.contains_key(key)).count();
        let free: Vec<u32> = (0..observed.max_slots).filter(|slot| !kept.contains(slot)).take(new).collect();
        Self { observed, reclaim, free: free.into_iter() }
    }

    /// What an entry needs; `None` when it is right, or when there is no slot for it.
    fn entry(&mut self, key: &VipKey, desired: &DesiredEntry) -> Option<Action> {
        match self.observed.entries.get(key) {
            None => self.new_entry(key, desired),
            Some(observed) => self.change(key, *observed, desired),
        }
    }

    fn new_entry(&mut self, key: &VipKey, desired: &DesiredEntry) -> Option<Action> {
        let slot = self.free.next()?;
        let entry = VipEntry {
            mac: desired.mac.0,
            generation: self.next_generation(slot, 0),
            role: desired.role,
            slot,
            until_ns: 0,
        };
        Some(Action::PutEntry { key: *key, entry, reset_counters: true, cause: Cause::Configured })
    }

    fn change(&self, key: &VipKey, observed: VipEntry, desired: &DesiredEntry) -> Option<Action> {
        let mut entry = VipEntry { mac: desired.mac.0, role: desired.role, until_ns: 0, ..observed };
        let mut cause = if observed.role == desired.role { Cause::MacChanged } else { Cause::Configured };
        let yielded = self.yielded(&observed);
        match (desired.role, yielded) {
            (Role::Held, Some(_)) if self.reclaim => {
                entry.generation = self.next_generation(observed.slot, observed.generation);
                cause = Cause::Reclaimed;
            }
            (Role::Held, Some(to)) => {
                entry.role = Role::Foreign;
                entry.mac = to.0;
                cause = Cause::Yielded;
            }
            (Role::Held, None) if observed.role != Role::Held => {
                entry.generation = self.next_generation(observed.slot, observed.generation);
            }
            (Role::Held | Role::Handover | Role::Foreign, _) => {}
        }
        (entry != observed).then_some(Action::PutEntry { key: *key, entry, reset_counters: false, cause })
    }

    /// To whom the entry, in its generation, was yielded.
    fn yielded(&self, entry: &VipEntry) -> Option<MacAddr> {
        let recorded = self.observed.yields.get(&entry.slot)?;
        (recorded.generation != 0 && recorded.generation == entry.generation).then_some(MacAddr(recorded.mac))
    }

    /// A generation that neither the entry has had nor the slot's record names.
    fn next_generation(&self, slot: u32, before: u16) -> u16 {
        let recorded = self.observed.yields.get(&slot).map_or(0, |recorded| recorded.generation);
        let after = |generation: u16| generation.checked_add(1).unwrap_or(1);
        let next = after(before.max(1));
        if next == recorded { after(next) } else { next }
    }
}
