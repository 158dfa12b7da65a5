//! The smallest difference between what is observed in the kernel and what is desired, as actions in a safe order.
//!
//! The order is: what is needed first (links, peers), then releases, then takes, then binds; and a bound address is
//! taken away before its entry goes, or the kernel would answer for it. A VIP that was yielded stays so, on every
//! interface of this node, until it is reclaimed.

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
    /// What the program recorded, by slot: of every slot that an entry has or a new one could get.
    pub yields: BTreeMap<u32, Yield>,
    /// Our own MAC on each interface.
    pub links: BTreeMap<u32, MacAddr>,
    /// The peers.
    pub peers: BTreeSet<(u32, MacAddr)>,
    /// The addresses that carry our label.
    pub binds: BTreeSet<(String, Ipv4Addr)>,
    /// VIPs that were yielded earlier, and to whom: an entry and its record go with their interface, and the peer
    /// has the VIP all the same.
    pub remembered: BTreeMap<Ipv4Addr, MacAddr>,
    /// How many slots there are.
    pub max_slots: u32,
    /// The slots of entries that are not among `entries`, when those are not all.
    pub reserved: Slots,
}

/// A set of slots.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Slots(Vec<u64>);

impl FromIterator<u32> for Slots {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl Slots {
    const fn place(slot: u32) -> (usize, u64) {
        ((slot / u64::BITS) as usize, 1 << (slot % u64::BITS))
    }

    /// Adds one.
    pub fn insert(&mut self, slot: u32) {
        let (word, bit) = Self::place(slot);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= bit;
    }

    /// Takes one out.
    pub fn remove(&mut self, slot: u32) {
        let (word, bit) = Self::place(slot);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !bit;
        }
    }

    /// Whether it is one of them.
    pub fn contains(&self, slot: u32) -> bool {
        let (word, bit) = Self::place(slot);
        self.0.get(word).is_some_and(|word| word & bit != 0)
    }
}

impl Observed {
    /// To whom an entry, in its generation, was yielded.
    fn yielded_to(&self, entry: &VipEntry) -> Option<MacAddr> {
        self.yields.get(&entry.slot)?.yielded_to(entry.generation)
    }
}

/// The interface that each VIP is on: where it is held or guarded, or was when it was yielded.
pub fn placed(entries: &BTreeMap<VipKey, VipEntry>) -> BTreeMap<Ipv4Addr, u32> {
    let here = entries.iter().filter(|(_, entry)| match entry.role {
        Role::Held | Role::Handover => true,
        Role::Foreign => entry.mac != MacAddr::ZERO.0,
    });
    here.map(|(key, _)| (key.addr.into(), key.ifindex)).collect()
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
    /// Its slot does not exist, or is another entry's too.
    Repaired,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured",
            Self::NotConfigured => "not configured",
            Self::MacChanged => "MAC changed",
            Self::Yielded => "yielded to a peer",
            Self::Reclaimed => "taken back by the operator",
            Self::Repaired => "repaired",
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

/// The VIPs that are yielded, and to whom: those whose entries say so, and those that are remembered.
pub fn yielded(observed: &Observed) -> BTreeMap<Ipv4Addr, MacAddr> {
    let now = observed
        .entries
        .iter()
        .filter_map(|(key, entry)| Some((key.addr.into(), observed.yielded_to(entry)?)));
    observed.remembered.iter().map(|(vip, mac)| (*vip, *mac)).chain(now).collect()
}

/// The actions that turn `observed` into `desired`. `reclaim` takes back what was yielded.
pub fn plan(desired: &Desired, observed: &Observed, reclaim: bool) -> Vec<Action> {
    let planner = Planner::new(desired, observed, reclaim);
    let binds: BTreeSet<_> =
        desired.binds.iter().filter(|(_, vip)| !planner.gives_way(vip.octets())).cloned().collect();

    // A start with very many VIPs is where the agent needs most memory: nothing here grows by doubling.
    let mut actions = Vec::with_capacity(desired.entries.len() + desired.links.len() + desired.peers.len());
    actions.extend(changed_links(desired, observed));
    actions.extend(new_peers(desired, observed));
    let stale_binds = observed.binds.difference(&binds).cloned();
    actions.extend(stale_binds.map(|(interface, vip)| Action::RemoveBind { interface, vip }));
    actions.extend(stale_entries(desired, observed));
    planner.put_entries(&mut actions);
    let new_binds = binds.difference(&observed.binds).cloned();
    actions.extend(new_binds.map(|(interface, vip)| Action::AddBind { interface, vip }));
    actions.extend(stale_peers(desired, observed));
    actions.extend(stale_links(desired, observed));
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

fn stale_entries<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    observed
        .entries
        .keys()
        .filter(|key| !desired.entries.contains_key(key))
        .map(|key| Action::RemoveEntry { key: *key, cause: Cause::NotConfigured })
}

fn stale_peers<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    observed
        .peers
        .difference(&desired.peers)
        .map(|(ifindex, mac)| Action::RemovePeer { ifindex: *ifindex, mac: *mac })
}

fn stale_links<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    observed
        .links
        .keys()
        .filter(|ifindex| !desired.links.contains_key(ifindex))
        .map(|ifindex| Action::RemoveLink { ifindex: *ifindex })
}

/// What a VIP is to be on an interface, before it has a slot.
struct Target {
    role: Role,
    mac: MacAddr,
    until_ns: u64,
    /// Whether it needs a generation that no yield can be of.
    renewed: bool,
    cause: Cause,
}

impl Target {
    fn rank(&self) -> Rank {
        match self.role {
            Role::Held => Rank::Held,
            Role::Handover | Role::Foreign if self.mac.is_zero() => Rank::Shadow,
            Role::Handover | Role::Foreign => Rank::Elsewhere,
        }
    }
}

/// The low slots have counters: who gets them first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rank {
    /// Held here.
    Held,
    /// At a MAC that is known.
    Elsewhere,
    /// Not on this interface.
    Shadow,
}

struct Planner<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    reclaim: bool,
    /// Whose each slot is.
    owners: BTreeMap<u32, VipKey>,
    /// The VIPs that the program gave away on some interface: a peer has them, whichever interface they are seen through.
    yielded: BTreeSet<[u8; 4]>,
}

impl<'a> Planner<'a> {
    fn new(desired: &'a Desired, observed: &'a Observed, reclaim: bool) -> Self {
        let mut owners = BTreeMap::new();
        for (key, entry) in observed.entries.iter().filter(|(_, entry)| entry.slot < observed.max_slots) {
            owners.entry(entry.slot).or_insert(*key);
        }
        let yielded = observed
            .entries
            .iter()
            .filter(|(key, entry)| desired.entries.contains_key(key) && observed.yielded_to(entry).is_some())
            .map(|(key, _)| key.addr)
            .chain(observed.remembered.keys().map(Ipv4Addr::octets))
            .collect();
        Self { desired, observed, reclaim, owners, yielded }
    }

    /// Whether the VIP is left to the peer that the program gave it to.
    fn gives_way(&self, addr: [u8; 4]) -> bool {
        !self.reclaim && self.yielded.contains(&addr)
    }

    /// Writes what is not as it is to be: what is not held first, since a release comes before a take.
    fn put_entries(&self, actions: &mut Vec<Action>) {
        let needs_slot =
            |(key, target): &(VipKey, Target)| self.sound(key).is_none() && target.rank() == Rank::Held;
        let for_held = self.targets().filter(needs_slot).count();
        let mut free = self.free_slots().skip(for_held);
        self.put_ranked(Rank::Elsewhere, &mut free, actions);
        self.put_ranked(Rank::Shadow, &mut free, actions);
        self.put_ranked(Rank::Held, &mut self.free_slots().take(for_held), actions);
    }

    /// What there is no slot for is left out.
    fn put_ranked(&self, rank: Rank, free: &mut impl Iterator<Item = u32>, actions: &mut Vec<Action>) {
        for (key, target) in self.targets().filter(|(_, target)| target.rank() == rank) {
            let found = self.sound(&key);
            let Some(slot) = found.map(|entry| entry.slot).or_else(|| free.next()) else { continue };
            let generation = match found {
                Some(entry) if !target.renewed => entry.generation,
                Some(_) | None => self.next_generation(slot),
            };
            let Target { role, mac, until_ns, renewed: _, cause } = target;
            let entry = VipEntry { mac: mac.0, generation, role, slot, until_ns };
            if self.observed.entries.get(&key) != Some(&entry) {
                actions.push(Action::PutEntry { key, entry, reset_counters: found.is_none(), cause });
            }
        }
    }

    fn targets(&self) -> impl Iterator<Item = (VipKey, Target)> {
        self.desired.entries.iter().map(|(key, desired)| (*key, self.target(key, desired)))
    }

    /// The slots that are free once the removals are done, lowest first.
    fn free_slots(&self) -> impl Iterator<Item = u32> {
        let stays =
            |slot: &u32| self.owners.get(slot).is_some_and(|owner| self.desired.entries.contains_key(owner));
        let is_free = move |slot: &u32| !self.observed.reserved.contains(*slot) && !stays(slot);
        (0..self.observed.max_slots).filter(is_free)
    }

    /// The observed entry, when its slot is there and its own.
    fn sound(&self, key: &VipKey) -> Option<&'a VipEntry> {
        self.observed.entries.get(key).filter(|entry| self.owners.get(&entry.slot) == Some(key))
    }

    fn target(&self, key: &VipKey, desired: &DesiredEntry) -> Target {
        let DesiredEntry { role, mac, until_ns } = *desired;
        let found = self.sound(key);
        let yielded_to = found.and_then(|entry| self.observed.yielded_to(entry));
        match role {
            Role::Held if self.gives_way(key.addr) => {
                let remembered = self.observed.remembered.get(&Ipv4Addr::from(key.addr)).copied();
                let mac = yielded_to.or(remembered).unwrap_or(MacAddr::ZERO);
                Target { role: Role::Foreign, mac, until_ns: 0, renewed: false, cause: Cause::Yielded }
            }
            Role::Held | Role::Handover | Role::Foreign if yielded_to.is_some() && self.reclaim => {
                Target { role, mac, until_ns, renewed: true, cause: Cause::Reclaimed }
            }
            Role::Held | Role::Handover | Role::Foreign => {
                let was = found.map(|entry| entry.role);
                let cause = match was {
                    None if self.observed.entries.contains_key(key) => Cause::Repaired,
                    Some(was) if was == role => Cause::MacChanged,
                    Some(_) | None => Cause::Configured,
                };
                let renewed = match role {
                    Role::Held => was != Some(Role::Held),
                    Role::Handover => was.is_none_or(|was| was == Role::Foreign),
                    Role::Foreign => false,
                };
                Target { role, mac, until_ns, renewed, cause }
            }
        }
    }

    /// A generation that the slot has not had as far as is known, and that its record does not name.
    fn next_generation(&self, slot: u32) -> u16 {
        let recorded = self.observed.yields.get(&slot).map_or(0, |recorded| recorded.generation);
        let owner = self.owners.get(&slot).and_then(|owner| self.observed.entries.get(owner));
        let after = |generation: u16| generation.checked_add(1).unwrap_or(1);
        let next = after(owner.map_or(recorded, |entry| entry.generation));
        if next == recorded { after(next) } else { next }
    }
}
