//! Plan of the smallest change from the observed maps to the desired ones, in a safe order.
//!
//! New own MACs and peers come first, then releases, takes and new binds. Stale peers and own
//! MACs are removed last. A bound address is removed before its entry, or the kernel would answer
//! for it. A yielded VIP stays yielded on every interface of this node until this node reclaims it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use vipward_common::{MacAddr, Role, VipEntry, VipKey, Yield};

use super::placement::{Desired, DesiredEntry};

mod slots;
#[cfg(test)]
mod tests;

pub use self::slots::Slots;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observed {
    pub entries: BTreeMap<VipKey, VipEntry>,
    /// The program's records by slot: for every slot that an
    /// entry has, or that a new one could get.
    pub yields: BTreeMap<u32, Yield>,
    pub own_macs: BTreeMap<u32, MacAddr>,
    pub peers: BTreeSet<(u32, MacAddr)>,
    /// The bound addresses, which carry the agent's label.
    pub binds: BTreeSet<(String, IpAddr)>,
    /// Yielded VIPs that are probed. Their entries get no MAC, so that the program reports each
    /// host that answers.
    pub asked: BTreeSet<IpAddr>,
    pub taken_back: BTreeSet<IpAddr>,
    /// VIPs that were yielded earlier, each with its peer. An entry and its record vanish with
    /// their interface, but the peer still has the VIP.
    pub remembered: BTreeMap<IpAddr, MacAddr>,
    pub max_slots: u32,
    /// Slots of entries that are in the map and not in `entries`.
    pub reserved: Slots,
}

impl Observed {
    /// Returns the peer to which the program yielded an entry of this generation.
    fn yielded_to(&self, entry: &VipEntry) -> Option<MacAddr> {
        self.yields.get(&entry.slot)?.yielded_to(entry.generation)
    }
}

/// Returns the interface of each VIP: the one where this node holds
/// it or hands it over, or where another host's MAC is known for it.
pub fn placed(entries: &BTreeMap<VipKey, VipEntry>) -> BTreeMap<IpAddr, u32> {
    let here = entries.iter().filter(|(_, entry)| match entry.role {
        Role::Held | Role::Handover => true,
        Role::Foreign => entry.mac != MacAddr::ZERO.0,
    });
    here.map(|(key, _)| (key.addr, key.ifindex)).collect()
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Configured,
    /// The configuration no longer has it, or its interface is gone.
    NotConfigured,
    /// The entry's MAC changed: the interface's MAC, or another holder's.
    MacChanged,
    Yielded,
    /// This node took it back, by itself or for the operator.
    Reclaimed,
    /// The entry's slot did not exist, or another entry had it too.
    Repaired,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured",
            Self::NotConfigured => "not configured",
            Self::MacChanged => "MAC changed",
            Self::Yielded => "yielded to a peer",
            Self::Reclaimed => "taken back",
            Self::Repaired => "repaired",
        })
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    PutOwnMac {
        ifindex: u32,
        mac: MacAddr,
    },
    RemoveOwnMac {
        ifindex: u32,
    },
    PutPeer {
        ifindex: u32,
        mac: MacAddr,
    },
    RemovePeer {
        ifindex: u32,
        mac: MacAddr,
    },
    PutEntry {
        key: VipKey,
        entry: VipEntry,
        /// True if the slot is new to this VIP. Its counters then begin at zero.
        reset_counters: bool,
        cause: Cause,
    },
    RemoveEntry {
        key: VipKey,
        cause: Cause,
    },
    AddBind {
        interface: String,
        vip: IpAddr,
    },
    RemoveBind {
        interface: String,
        vip: IpAddr,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PutOwnMac { ifindex, mac } => write!(f, "put the own MAC {mac} of interface {ifindex}"),
            Self::RemoveOwnMac { ifindex } => write!(f, "remove the own MAC of interface {ifindex}"),
            Self::PutPeer { ifindex, mac } => write!(f, "put the peer {mac} on interface {ifindex}"),
            Self::RemovePeer { ifindex, mac } => write!(f, "remove the peer {mac} from interface {ifindex}"),
            Self::PutEntry { key: VipKey { addr, ifindex }, entry, .. } => {
                let (role, mac) = (entry.role.name(), MacAddr(entry.mac));
                write!(f, "make the entry of {addr} on interface {ifindex} {role}")?;
                if mac.is_zero() { Ok(()) } else { write!(f, " at {mac}") }
            }
            Self::RemoveEntry { key: VipKey { addr, ifindex }, .. } => {
                write!(f, "remove the entry of {addr} from interface {ifindex}")
            }
            Self::AddBind { interface, vip } => write!(f, "bind {vip} to {interface}"),
            Self::RemoveBind { interface, vip } => write!(f, "take {vip} away from {interface}"),
        }
    }
}

impl Action {
    pub fn key(&self) -> Option<VipKey> {
        match self {
            Self::PutEntry { key, .. } | Self::RemoveEntry { key, .. } => Some(*key),
            Self::PutOwnMac { .. }
            | Self::RemoveOwnMac { .. }
            | Self::PutPeer { .. }
            | Self::RemovePeer { .. }
            | Self::AddBind { .. }
            | Self::RemoveBind { .. } => None,
        }
    }
}

pub fn yielded_entries(observed: &Observed) -> impl Iterator<Item = (VipKey, MacAddr)> {
    observed.entries.iter().filter_map(|(key, entry)| Some((*key, observed.yielded_to(entry)?)))
}

/// Returns the yielded VIPs, each with its peer: from the entries, and from the remembered yields.
pub fn yielded(observed: &Observed) -> BTreeMap<IpAddr, MacAddr> {
    let now = yielded_entries(observed).map(|(key, mac)| (key.addr, mac));
    observed.remembered.iter().map(|(vip, mac)| (*vip, *mac)).chain(now).collect()
}

/// Changes `desired` so that the plan removes nothing. The pinned entries replace the desired ones.
/// Pinned own MACs, peers and bound addresses are added. A desired MAC takes precedence over a
/// pinned one.
///
/// This applies until the source knows the VIPs and peers: **nothing pinned is removed before
/// the wanted state is known.** An agent that starts without the API server goes on answering
/// for the entries that it found. Its program still yields to the peers that it found.
pub fn keep_what_is_pinned(desired: &mut Desired, observed: &Observed) {
    desired.entries = observed.entries.iter().map(|(key, entry)| (*key, as_found(entry))).collect();
    for (ifindex, mac) in &observed.own_macs {
        desired.own_macs.entry(*ifindex).or_insert(*mac);
    }
    desired.peers.extend(&observed.peers);
    desired.binds.extend(observed.binds.iter().cloned());
}

/// Changes the entries that [`keep_what_is_pinned`] keeps where the program yielded: a VIP that is
/// taken back is held, and a probed VIP has no MAC.
pub fn change_what_was_yielded(desired: &mut Desired, observed: &Observed) {
    for (key, _) in yielded_entries(observed) {
        let vip = key.addr;
        let own_mac = desired.own_macs.get(&key.ifindex).filter(|_| observed.taken_back.contains(&vip));
        let entry = match own_mac {
            Some(mac) => DesiredEntry::new(Role::Held, *mac),
            None if observed.asked.contains(&vip) => DesiredEntry::new(Role::Foreign, MacAddr::ZERO),
            None => continue,
        };
        desired.entries.insert(key, entry);
    }
}

/// Changes `desired` so that no entry begins to answer. A silent entry stays silent, and a new
/// entry that would answer is left out. Returns the VIPs of these entries, without the probed ones.
/// `reclaim` is as for [`plan`]: with it, a yielded VIP would begin to answer too.
///
/// This applies once the lease deadline has passed: another node may have taken any VIP, and its
/// announcement may have come already. It does not apply to VIPs that are taken back: this node
/// held them, and no peer answers for them.
pub fn begin_no_answer(desired: &mut Desired, observed: &Observed, reclaim: bool) -> BTreeSet<IpAddr> {
    let mut begins = BTreeSet::new();
    desired.entries.retain(|key, wanted| {
        if wanted.role == Role::Foreign || observed.taken_back.contains(&key.addr) {
            return true;
        }
        let silent = match observed.entries.get(key) {
            None => None,
            Some(found) if found.role == Role::Foreign => {
                // During a probe, the program must report each answer.
                let is_asked = observed.asked.contains(&key.addr);
                let peer = if is_asked { Some(MacAddr::ZERO) } else { observed.yielded_to(found) };
                Some(peer.map_or_else(|| as_found(found), |mac| DesiredEntry::new(Role::Foreign, mac)))
            }
            Some(found) => match observed.yielded_to(found).filter(|_| reclaim) {
                Some(mac) => Some(DesiredEntry::new(Role::Foreign, mac)),
                None => return true,
            },
        };
        // The answer to a question decides about its VIP.
        if !observed.asked.contains(&key.addr) {
            begins.insert(key.addr);
        }
        silent.inspect(|silent| *wanted = *silent).is_some()
    });
    begins
}

fn as_found(entry: &VipEntry) -> DesiredEntry {
    DesiredEntry { role: entry.role, mac: MacAddr(entry.mac), until_ns: entry.until_ns }
}

/// Returns the actions that turn `observed` into `desired`,
/// in their order. `reclaim` takes yielded VIPs back.
pub fn plan(desired: &Desired, observed: &Observed, reclaim: bool) -> Vec<Action> {
    let planner = Planner::new(desired, observed, reclaim);
    let binds: BTreeSet<_> =
        desired.binds.iter().filter(|(_, vip)| !planner.gives_way(*vip)).cloned().collect();

    // The agent needs most memory when it starts with very
    // many VIPs, so this list must not grow by doubling.
    let mut actions =
        Vec::with_capacity(desired.entries.len() + desired.own_macs.len() + desired.peers.len());
    actions.extend(changed_own_macs(desired, observed));
    actions.extend(new_peers(desired, observed));
    let stale_binds = observed.binds.difference(&binds).cloned();
    actions.extend(stale_binds.map(|(interface, vip)| Action::RemoveBind { interface, vip }));
    actions.extend(stale_entries(desired, observed));
    planner.put_entries(&mut actions);
    let new_binds = binds.difference(&observed.binds).cloned();
    actions.extend(new_binds.map(|(interface, vip)| Action::AddBind { interface, vip }));
    actions.extend(stale_peers(desired, observed));
    actions.extend(stale_own_macs(desired, observed));
    actions
}

fn changed_own_macs<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    desired
        .own_macs
        .iter()
        .filter(|(ifindex, mac)| observed.own_macs.get(ifindex) != Some(mac))
        .map(|(ifindex, mac)| Action::PutOwnMac { ifindex: *ifindex, mac: *mac })
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

fn stale_own_macs<'a>(desired: &'a Desired, observed: &'a Observed) -> impl Iterator<Item = Action> + 'a {
    observed
        .own_macs
        .keys()
        .filter(|ifindex| !desired.own_macs.contains_key(ifindex))
        .map(|ifindex| Action::RemoveOwnMac { ifindex: *ifindex })
}

/// An entry to be written, before it has a slot.
struct Target {
    entry: DesiredEntry,
    /// True if it needs a new generation, for which no yield counts.
    renewed: bool,
    cause: Cause,
}

impl Target {
    fn rank(&self) -> Rank {
        match self.entry.role {
            Role::Held => Rank::Held,
            Role::Handover | Role::Foreign if self.entry.mac.is_zero() => Rank::Shadow,
            Role::Handover | Role::Foreign => Rank::Elsewhere,
        }
    }
}

/// Order in which entries get slots. Only the low slots have counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rank {
    Held,
    /// The VIP is at another MAC, which is known.
    Elsewhere,
    /// The VIP is on another interface, or its MAC is unknown.
    Shadow,
}

struct Planner<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    reclaim: bool,
    owners: BTreeMap<u32, VipKey>,
    /// Yielded VIPs. The peer has them on all interfaces, although the program yielded them on one.
    yielded: BTreeSet<IpAddr>,
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
            .chain(observed.remembered.keys().copied())
            .collect();
        Self { desired, observed, reclaim, owners, yielded }
    }

    /// Returns true if the VIP is left to the peer to which the program yielded it.
    fn gives_way(&self, addr: IpAddr) -> bool {
        !self.reclaims(addr) && self.yielded.contains(&addr)
    }

    fn reclaims(&self, addr: IpAddr) -> bool {
        self.reclaim || self.observed.taken_back.contains(&addr)
    }

    /// Adds an action for each entry that differs. Held entries come last, so
    /// that releases come before takes, but they get the lowest free slots.
    fn put_entries(&self, actions: &mut Vec<Action>) {
        let needs_slot =
            |(key, target): &(VipKey, Target)| self.sound(*key).is_none() && target.rank() == Rank::Held;
        let for_held = self.targets().filter(needs_slot).count();
        let mut free = self.free_slots().skip(for_held);
        self.put_ranked(Rank::Elsewhere, &mut free, actions);
        self.put_ranked(Rank::Shadow, &mut free, actions);
        self.put_ranked(Rank::Held, &mut self.free_slots().take(for_held), actions);
    }

    /// Adds the actions for one rank. Leaves out entries that find no slot.
    fn put_ranked(&self, rank: Rank, free: &mut impl Iterator<Item = u32>, actions: &mut Vec<Action>) {
        for (key, target) in self.targets().filter(|(_, target)| target.rank() == rank) {
            let found = self.sound(key);
            let Some(slot) = found.map(|entry| entry.slot).or_else(|| free.next()) else { continue };
            let generation = match found {
                Some(entry) if !target.renewed => entry.generation,
                Some(_) | None => self.next_generation(slot),
            };
            let Target { entry: DesiredEntry { role, mac, until_ns }, renewed: _, cause } = target;
            let entry = VipEntry { mac: mac.0, generation, role, slot, until_ns };
            // A finding about the VIP is not this plan's to change.
            let fault = found.filter(|it| it.generation == generation).and_then(VipEntry::fault);
            let entry = entry.with_fault(fault);
            if self.observed.entries.get(&key) != Some(&entry) {
                actions.push(Action::PutEntry { key, entry, reset_counters: found.is_none(), cause });
            }
        }
    }

    fn targets(&self) -> impl Iterator<Item = (VipKey, Target)> {
        self.desired.entries.iter().map(|(key, desired)| (*key, self.target(*key, desired)))
    }

    fn free_slots(&self) -> impl Iterator<Item = u32> {
        let stays =
            |slot: &u32| self.owners.get(slot).is_some_and(|owner| self.desired.entries.contains_key(owner));
        let is_free = move |slot: &u32| !self.observed.reserved.contains(*slot) && !stays(slot);
        (0..self.observed.max_slots).filter(is_free)
    }

    /// Returns the observed entry, if its slot exists and belongs to it alone.
    fn sound(&self, key: VipKey) -> Option<&'a VipEntry> {
        self.observed.entries.get(&key).filter(|entry| self.owners.get(&entry.slot) == Some(&key))
    }

    fn target(&self, key: VipKey, desired: &DesiredEntry) -> Target {
        let entry = *desired;
        let found = self.sound(key);
        let yielded_to = found.and_then(|entry| self.observed.yielded_to(entry));
        match entry.role {
            // A settled yield is no longer read: an entry that answers must not be left as it is.
            Role::Held | Role::Handover if self.gives_way(key.addr) => {
                let vip = key.addr;
                let is_asked = self.observed.asked.contains(&vip);
                let remembered = || self.observed.remembered.get(&vip).copied();
                let to = if is_asked { None } else { yielded_to.or_else(remembered) };
                let mac = to.unwrap_or(MacAddr::ZERO);
                let entry = DesiredEntry::new(Role::Foreign, mac);
                Target { entry, renewed: false, cause: Cause::Yielded }
            }
            Role::Held | Role::Handover | Role::Foreign
                if yielded_to.is_some() && self.reclaims(key.addr) =>
            {
                Target { entry, renewed: true, cause: Cause::Reclaimed }
            }
            role @ (Role::Held | Role::Handover | Role::Foreign) => {
                let was = found.map(|entry| entry.role);
                let cause = match was {
                    None if self.observed.entries.contains_key(&key) => Cause::Repaired,
                    Some(was) if was == role => Cause::MacChanged,
                    Some(_) | None => Cause::Configured,
                };
                let renewed = match role {
                    Role::Held => was != Some(Role::Held),
                    Role::Handover => was.is_none_or(|was| was == Role::Foreign),
                    Role::Foreign => false,
                };
                Target { entry, renewed, cause }
            }
        }
    }

    /// Returns a generation that differs from the slot's last known one and from its record's.
    fn next_generation(&self, slot: u32) -> u16 {
        let recorded = self.observed.yields.get(&slot).map_or(0, |recorded| recorded.generation);
        let owner = self.owners.get(&slot).and_then(|owner| self.observed.entries.get(owner));
        let after = |generation: u16| generation.checked_add(1).unwrap_or(1);
        let next = after(owner.map_or(recorded, |entry| entry.generation));
        if next == recorded { after(next) } else { next }
    }
}
