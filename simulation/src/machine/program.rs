//! The program in the kernel and its maps: a second implementation of the tables of
//! docs/internals/dataplane.md, written from the page and not from the program.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use vipward_common::{
    DeadlineState, Defence, DefenceWindow, LeaseDeadline, MacAddr, Offender, OffenderKey, Policy, Role,
    VipEntry, VipFault, VipKey, VipState, Yield,
};
use vipward_core::{base::time::Monotonic, host::plan::Action, ownership::Found, records::Session};

use super::wired::Wired;
use crate::schedule::Sabotage;

mod defending;
pub(crate) mod receiving;
#[cfg(test)]
mod tests;

/// The changes of entries that the kernel refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Refuses {
    /// All of them.
    pub(crate) changes: bool,
    /// New ones: the map has no room.
    pub(crate) room: bool,
}

/// A change of an entry that the kernel refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refused(VipKey);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to change the entry of {} on interface {}", self.0.addr, self.0.ifindex)
    }
}

/// The role and MAC with which an entry counts at one moment, after a yield or the end of a handover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counted {
    pub(crate) role: Role,
    /// Zero if unknown.
    pub(crate) mac: MacAddr,
}

/// The pinned state, which lives as long as the kernel does.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) wired: Wired,
    pub(crate) peers: BTreeSet<(u32, MacAddr)>,
    /// The interfaces that it is attached to.
    pub(crate) attached: BTreeSet<u32>,
    entries: BTreeMap<VipKey, VipEntry>,
    own_macs: BTreeMap<u32, MacAddr>,
    binds: BTreeSet<(String, IpAddr)>,
    lease_deadline: LeaseDeadline,
    /// By slot: the yields, and the limits of events and defences.
    states: BTreeMap<u32, VipState>,
    yields_total: u64,
    defences: DefenceWindow,
    offenders: BTreeMap<OffenderKey, Offender>,
    sabotage: Option<Sabotage>,
}

impl Program {
    pub(crate) fn new(sabotage: Option<Sabotage>) -> Self {
        Self {
            wired: Wired::new(sabotage),
            peers: BTreeSet::new(),
            attached: BTreeSet::new(),
            entries: BTreeMap::new(),
            own_macs: BTreeMap::new(),
            binds: BTreeSet::new(),
            lease_deadline: LeaseDeadline {
                deadline_ns: 0,
                grace_until_ns: 0,
                yields_settled: 0,
                session: 0,
                notices_settled: 0,
                policy: Policy::Stop,
                defence: Defence::Off,
            },
            states: BTreeMap::new(),
            yields_total: 0,
            defences: DefenceWindow::default(),
            offenders: BTreeMap::new(),
            sabotage,
        }
    }

    /// Carries out a change, unless the kernel refuses it.
    pub(crate) fn apply(&mut self, action: &Action, refuses: Refuses) -> Result<(), Refused> {
        match action {
            Action::PutOwnMac { ifindex, mac } => _ = self.own_macs.insert(*ifindex, *mac),
            Action::RemoveOwnMac { ifindex } => _ = self.own_macs.remove(ifindex),
            Action::PutPeer { ifindex, mac } => _ = self.peers.insert((*ifindex, *mac)),
            Action::RemovePeer { ifindex, mac } => _ = self.peers.remove(&(*ifindex, *mac)),
            Action::PutEntry { key, entry, reset_counters: _, cause: _ } => {
                if refuses.changes || refuses.room && !self.entries.contains_key(key) {
                    return Err(Refused(*key));
                }
                self.entries.insert(*key, self.sabotaged(*entry));
            }
            Action::RemoveEntry { key, cause: _ } => {
                if refuses.changes {
                    return Err(Refused(*key));
                }
                self.entries.remove(key);
            }
            Action::AddBind { interface, vip } => _ = self.binds.insert((interface.clone(), *vip)),
            Action::RemoveBind { interface, vip } => _ = self.binds.remove(&(interface.clone(), *vip)),
        }
        Ok(())
    }

    fn sabotaged(&self, entry: VipEntry) -> VipEntry {
        match entry.role {
            Role::Handover if self.sabotage == Some(Sabotage::BreakBeforeMake) => {
                VipEntry { role: Role::Foreign, until_ns: 0, ..entry }
            }
            Role::Held | Role::Foreign | Role::Handover => entry,
        }
    }

    pub(crate) fn set_deadline(&mut self, lease_deadline: LeaseDeadline) {
        self.wired.notices_settled = lease_deadline.notices_settled;
        self.lease_deadline = lease_deadline;
    }

    pub(crate) fn lease_deadline(&self) -> &LeaseDeadline {
        &self.lease_deadline
    }

    pub(crate) fn session(&self) -> Option<Session> {
        Session::from_number(self.lease_deadline.session)
    }

    pub(crate) fn deadline(&self) -> Monotonic {
        Monotonic::from_nanos(self.lease_deadline.deadline_ns)
    }

    pub(crate) fn grace_until(&self) -> Monotonic {
        Monotonic::from_nanos(self.lease_deadline.grace_until_ns)
    }

    pub(crate) fn lease_deadline_state(&self, now: Monotonic) -> DeadlineState {
        let holds = match self.lease_deadline.policy {
            Policy::Hold => now < self.grace_until(),
            Policy::Stop => false,
        };
        if now < self.deadline() && !self.has_ended() {
            DeadlineState::Valid
        } else if holds {
            DeadlineState::Grace
        } else if self.sabotage == Some(Sabotage::NoDeadline) {
            DeadlineState::Valid
        } else {
            DeadlineState::Over
        }
    }

    /// Returns whether the program has received the expiry notice of its session, and the agent has not
    /// settled it.
    pub(crate) fn has_ended(&self) -> bool {
        self.wired.has_ended(self.session()) && self.sabotage != Some(Sabotage::NoEnd)
    }

    pub(crate) fn entries(&self) -> &BTreeMap<VipKey, VipEntry> {
        &self.entries
    }

    pub(crate) fn entry(&self, key: VipKey) -> Option<&VipEntry> {
        self.entries.get(&key)
    }

    pub(crate) fn own_macs(&self) -> &BTreeMap<u32, MacAddr> {
        &self.own_macs
    }

    pub(crate) fn binds(&self) -> &BTreeSet<(String, IpAddr)> {
        &self.binds
    }

    pub(crate) fn offenders(&self) -> &BTreeMap<OffenderKey, Offender> {
        &self.offenders
    }

    /// Returns the record of the last yield at a slot.
    pub(crate) fn record(&self, slot: u32) -> Yield {
        self.states.get(&slot).map_or_else(Yield::default, |state| state.yielded)
    }

    /// Returns the records of the last yields at these slots.
    pub(crate) fn records(&self, slots: &BTreeSet<u32>) -> BTreeMap<u32, Yield> {
        slots.iter().map(|slot| (*slot, self.record(*slot))).collect()
    }

    pub(crate) fn put_fault(&mut self, key: VipKey, fault: Option<VipFault>) {
        if let Some(entry) = self.entries.get_mut(&key) {
            *entry = entry.with_fault(fault);
        }
    }

    /// Returns the held entries.
    pub(crate) fn held(&self) -> impl Iterator<Item = (VipKey, VipEntry)> {
        let held = self.entries.iter().filter(|(_, entry)| entry.role == Role::Held);
        held.map(|(key, entry)| (*key, *entry))
    }

    pub(crate) fn yields_total(&self) -> u64 {
        self.yields_total
    }

    /// Returns the peer to which the program has yielded this generation of an entry, whether the agent
    /// has settled that or not.
    pub(crate) fn recorded(&self, entry: &VipEntry) -> Option<MacAddr> {
        let Yield { mac, generation } = self.record(entry.slot);
        (generation != 0 && generation == entry.generation).then_some(MacAddr(mac))
    }

    /// Returns the entry as it counts now. Its record is not read while the agent has settled all
    /// yields, nor once the agent has rewritten the entry as foreign.
    pub(crate) fn counted(&self, key: VipKey, now: Monotonic) -> Option<Counted> {
        let entry = self.entries.get(&key)?;
        let is_settled = self.yields_total == self.lease_deadline.yields_settled;
        let is_read = !is_settled && entry.role != Role::Foreign;
        let yielded_to = self.recorded(entry).filter(|_| is_read);
        let has_ended = match entry.role {
            Role::Handover => now.as_nanos() >= entry.until_ns,
            Role::Held | Role::Foreign => false,
        };
        let is_foreign = yielded_to.is_some() || has_ended;
        Some(Counted {
            role: if is_foreign { Role::Foreign } else { entry.role },
            mac: yielded_to.unwrap_or(MacAddr(entry.mac)),
        })
    }

    /// Returns the MAC with which a broadcast question of another host is answered, if it is.
    pub(crate) fn answer(&self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
        let Counted { role, mac } = self.counted(key, now)?;
        let has_link = match role {
            Role::Held => true,
            Role::Handover => self.own_macs.contains_key(&key.ifindex),
            Role::Foreign => return None,
        };
        match self.lease_deadline_state(now) {
            DeadlineState::Valid | DeadlineState::Grace => has_link.then_some(mac),
            DeadlineState::Over => None,
        }
    }

    /// Returns whether an announcement may leave. In the grace period only a VIP that was taken back is
    /// announced.
    pub(crate) fn may_announce(&self, key: VipKey, is_taken_back: bool, now: Monotonic) -> bool {
        let may = match self.lease_deadline_state(now) {
            DeadlineState::Valid => true,
            DeadlineState::Grace => is_taken_back,
            DeadlineState::Over => false,
        };
        may && self.counted(key, now).is_some_and(|counted| counted.role == Role::Held)
    }

    /// Returns what a new agent finds. A handover whose time is over is included: the engine judges its
    /// time.
    pub(crate) fn found(&self) -> Found {
        let is_yielded = |entry: &VipEntry| self.recorded(entry).is_some();
        Found::of(
            &self.lease_deadline,
            self.entries.iter().map(|(key, entry)| (*key, *entry, is_yielded(entry))),
        )
    }
}
