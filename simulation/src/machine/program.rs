//! The program in the kernel and its maps: a second implementation of the tables of
//! docs/DATAPLANE.md, written from the page and not from the program.

use std::collections::BTreeSet;

use vipward_common::MacAddr;
use vipward_core::{
    base::time::Monotonic,
    ownership::{Entry, Fenced, Found, FoundEntry, Wire},
    records::Session,
};

use super::wired::Wired;
use crate::schedule::{Sabotage, names};

#[cfg(test)]
mod tests;

/// The role of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Held,
    Foreign { mac: MacAddr },
    Handover { mac: MacAddr, until: Monotonic },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) role: Role,
    /// The MAC to which the program yielded. The entry is foreign since, whatever its role.
    pub(crate) yielded: Option<MacAddr>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FenceState {
    Valid,
    HeldOver,
    Over,
}

/// The pinned state, which lives as long as the kernel does.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) session: Option<Session>,
    pub(crate) deadline: Monotonic,
    pub(crate) hold_until: Monotonic,
    pub(crate) peers: BTreeSet<MacAddr>,
    pub(crate) wired: Wired,
    slots: Vec<Option<Slot>>,
    hold: bool,
    sabotage: Option<Sabotage>,
}

impl Program {
    pub(crate) fn new(vips: usize, hold: bool, sabotage: Option<Sabotage>) -> Self {
        Self {
            session: None,
            deadline: Monotonic::default(),
            hold_until: Monotonic::default(),
            peers: BTreeSet::new(),
            wired: Wired::new(sabotage),
            slots: vec![None; vips],
            hold,
            sabotage,
        }
    }

    pub(crate) fn slot(&self, vip: usize) -> Option<Slot> {
        self.slots[vip]
    }

    pub(crate) fn move_fence(&mut self, fence: Fenced) {
        self.session = fence.session;
        self.deadline = fence.deadline;
        self.hold_until = fence.hold_until;
        self.wired.words_settled = fence.words_settled;
    }

    /// Writes an entry, which takes back a yielded VIP.
    pub(crate) fn set(&mut self, vip: usize, entry: Option<Entry>, has_home: bool) {
        self.slots[vip] = self.wanted(entry, has_home);
    }

    /// Returns whether an entry is as wanted without a write.
    pub(crate) fn is_set(&self, vip: usize, entry: Option<Entry>, has_home: bool) -> bool {
        self.slots[vip] == self.wanted(entry, has_home)
    }

    fn wanted(&self, entry: Option<Entry>, has_home: bool) -> Option<Slot> {
        let role = entry.map(|entry| match entry {
            Entry::Held if has_home => Role::Held,
            Entry::Held => Role::Foreign { mac: MacAddr::ZERO },
            Entry::Foreign { mac } => Role::Foreign { mac },
            Entry::Handover { mac, .. } if self.sabotage == Some(Sabotage::BreakBeforeMake) => {
                Role::Foreign { mac }
            }
            Entry::Handover { mac, until } => Role::Handover { mac, until },
        });
        role.map(|role| Slot { role, yielded: None })
    }

    pub(crate) fn fence(&self, now: Monotonic) -> FenceState {
        if now < self.deadline && !self.has_ended() {
            FenceState::Valid
        } else if self.hold && now < self.hold_until {
            FenceState::HeldOver
        } else if self.sabotage == Some(Sabotage::NoFence) {
            FenceState::Valid
        } else {
            FenceState::Over
        }
    }

    /// Returns whether the program has heard that its session has ended, and the agent has not settled
    /// that.
    pub(crate) fn has_ended(&self) -> bool {
        self.wired.has_ended(self.session) && self.sabotage != Some(Sabotage::NoEnd)
    }

    /// Returns the role that counts now, after a yield or the end of a handover.
    fn role(&self, vip: usize, now: Monotonic) -> Option<Role> {
        let slot = self.slots[vip]?;
        let ended = match slot.role {
            Role::Handover { mac, until } if until <= now => Some(mac),
            Role::Handover { .. } | Role::Held | Role::Foreign { .. } => None,
        };
        Some(slot.yielded.or(ended).map_or(slot.role, |mac| Role::Foreign { mac }))
    }

    /// Returns the MAC with which a request is answered, if it is.
    pub(crate) fn answer(&self, vip: usize, own: MacAddr, now: Monotonic) -> Option<MacAddr> {
        let mac = match self.role(vip, now)? {
            Role::Held => own,
            Role::Handover { mac, .. } => mac,
            Role::Foreign { .. } => return None,
        };
        match self.fence(now) {
            FenceState::Valid | FenceState::HeldOver => Some(mac),
            FenceState::Over => None,
        }
    }

    /// Returns whether an announcement may leave. That of a VIP that was taken back may leave while
    /// the fence is held over.
    pub(crate) fn may_announce(&self, vip: usize, is_taken_back: bool, now: Monotonic) -> bool {
        let may = match self.fence(now) {
            FenceState::Valid => true,
            FenceState::HeldOver => is_taken_back,
            FenceState::Over => false,
        };
        may && self.role(vip, now) == Some(Role::Held)
    }

    /// Handles a gratuitous frame of `sha`. Returns the event for the agent.
    pub(crate) fn hear(&mut self, vip: usize, sha: MacAddr, own: MacAddr, now: Monotonic) -> Option<Wire> {
        let is_peer = self.peers.contains(&sha);
        let is_valid = self.fence(now) == FenceState::Valid;
        let role = self.role(vip, now)?;
        match role {
            Role::Foreign { mac } => (is_peer && sha != mac).then_some(Wire::Moved { mac: sha }),
            Role::Handover { mac, .. } if sha == mac => {
                (is_valid || self.give_way(vip, sha)).then_some(Wire::Moved { mac: sha })
            }
            // A stranger's ARP claim is dropped, and so is this node's own that came back.
            Role::Held | Role::Handover { .. } if !is_peer || role == Role::Held && sha == own => None,
            Role::Held | Role::Handover { .. } if is_valid => Some(Wire::Contested { mac: sha }),
            Role::Held | Role::Handover { .. } => {
                self.give_way(vip, sha).then_some(Wire::Yielded { mac: sha })
            }
        }
    }

    fn give_way(&mut self, vip: usize, to: MacAddr) -> bool {
        if self.sabotage == Some(Sabotage::NoYield) {
            return false;
        }
        if let Some(slot) = &mut self.slots[vip] {
            slot.yielded = Some(to);
        }
        true
    }

    /// Returns the VIPs that were yielded, each with the MAC.
    pub(crate) fn yielded(&self) -> impl Iterator<Item = (usize, MacAddr)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(vip, slot)| Some((vip, slot.filter(|slot| slot.role == Role::Held)?.yielded?)))
    }

    /// Returns what a new agent finds.
    pub(crate) fn found(&self, now: Monotonic) -> Found {
        let entries = (0..self.slots.len()).filter_map(|vip| {
            let entry = match self.role(vip, now)? {
                Role::Held => FoundEntry::Held,
                Role::Handover { mac, until } => FoundEntry::Handover { mac, until },
                Role::Foreign { .. } => return None,
            };
            Some((names::vip(vip), entry))
        });
        let mut found = Found { session: self.session, deadline: self.deadline, ..Found::default() };
        found.answers_until = if self.hold { self.hold_until.max(self.deadline) } else { self.deadline };
        found.entries = entries.collect();
        found.words_settled = self.wired.words_settled;
        let foreign = (0..self.slots.len()).filter_map(|vip| match self.role(vip, now)? {
            Role::Foreign { mac } => (!mac.is_zero()).then(|| (names::vip(vip), mac)),
            Role::Held | Role::Handover { .. } => None,
        });
        found.foreign = foreign.collect();
        found.yielded = self.yielded().map(|(vip, _)| names::vip(vip)).collect();
        found
    }
}
