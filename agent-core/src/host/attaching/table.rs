//! The table of attachments: the programs on interfaces, and the frames that they see for others.

use std::collections::{BTreeMap, BTreeSet};

use vipward_common::{VlanKey, VlanTags};

use super::{Attach, Mode, Step};
use crate::host::{
    net::{Interface, NetView},
    stack::Point,
};

#[cfg(test)]
mod tests;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnProgram {
    pub mode: Mode,
    pub id: u32,
    /// True if it is the program for the ports of a bond.
    pub on_ports: bool,
}

/// The attachments of the agent, by ifindex. Whether the kernel runs the programs is in a [`NetView`].
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Attachments {
    /// The programs, by the interfaces that they are attached to.
    own: BTreeMap<u32, OwnProgram>,
    /// The keys in `vlans` of interfaces whose frames a program sees on others: VLAN devices, and bonds
    /// whose ports run it. No set is empty.
    through: BTreeMap<u32, BTreeSet<VlanKey>>,
    /// Interfaces on which the kernel has refused a better mode than the one that runs.
    refused: BTreeSet<u32>,
    /// Interfaces that should have the program and could not be attached, with the reason.
    unattached: BTreeMap<u32, String>,
}

impl Attachments {
    /// Returns the interfaces that have a program of their own, with its mode.
    pub fn points(&self) -> impl Iterator<Item = (u32, Mode)> {
        self.own.iter().map(|(ifindex, own)| (*ifindex, own.mode))
    }

    /// Returns the interfaces whose frames a program sees, with its mode: those with one of their own,
    /// and then VLAN devices above them.
    pub fn attached(&self) -> impl Iterator<Item = (u32, Mode)> {
        let segments = self.own.keys().chain(self.through.keys().filter(|it| !self.own.contains_key(it)));
        segments.filter_map(|ifindex| Some((*ifindex, self.own(self.point_of(*ifindex)?)?.mode)))
    }

    pub fn own(&self, ifindex: u32) -> Option<OwnProgram> {
        self.own.get(&ifindex).copied()
    }

    /// Returns the interface whose own program sees an interface's frames.
    pub fn point_of(&self, ifindex: u32) -> Option<u32> {
        let has_own = |ifindex: &u32| self.own.contains_key(ifindex);
        let bond_of = |port: u32| {
            let key = VlanKey::new(port, VlanTags::NONE);
            self.through.iter().find(|(_, keys)| keys.contains(&key)).map(|(bond, _)| *bond)
        };
        let below = || {
            let port = self.through.get(&ifindex)?.first()?.ifindex;
            Some(port).filter(has_own).or_else(|| bond_of(port).filter(has_own))
        };
        Some(ifindex).filter(has_own).or_else(below)
    }

    pub fn keys_of(&self, ifindex: u32) -> BTreeSet<VlanKey> {
        self.through.get(&ifindex).cloned().unwrap_or_default()
    }

    /// Returns the interfaces that have keys, and whose frames no program sees.
    pub fn unseen(&self) -> Vec<u32> {
        self.through.keys().copied().filter(|ifindex| self.point_of(*ifindex).is_none()).collect()
    }

    pub fn was_refused(&self, ifindex: u32) -> bool {
        self.refused.contains(&ifindex)
    }

    pub fn unattached(&self) -> &BTreeMap<u32, String> {
        &self.unattached
    }

    /// Returns true if the kernel runs a program of the agent's that sees an interface's frames.
    pub fn runs_on(&self, view: &NetView, ifindex: u32) -> bool {
        let runs = || {
            let point = self.point_of(ifindex)?;
            let (own, interface) = (self.own(point)?, view.interfaces.get(&point)?);
            let fits = own.on_ports == own.mode.runs_on_ports(interface);
            Some(fits && own.mode.runs(interface, own.id))
        };
        view.interfaces.contains_key(&ifindex) && runs().unwrap_or(false)
    }

    /// Returns the attached interfaces on which the kernel ran the program before, and no longer does:
    /// another program has removed it.
    pub fn lost<'a>(
        &'a self,
        before: &'a NetView,
        now: &'a NetView,
    ) -> impl Iterator<Item = (&'a Interface, OwnProgram)> {
        let runs = |view: &'a NetView, ifindex: u32, own: OwnProgram| {
            view.interfaces.get(&ifindex).map(|interface| (interface, own.mode.runs(interface, own.id)))
        };
        self.own.iter().filter_map(move |(ifindex, own)| {
            let (_, ran) = runs(before, *ifindex, *own)?;
            let (interface, runs) = runs(now, *ifindex, *own)?;
            (ran && !runs).then_some((interface, *own))
        })
    }

    /// Returns true if every attached interface is attached as the present network needs. `wanted`
    /// are the interfaces that should have the program.
    pub fn is_well_attached(&self, view: &NetView, attach: Attach, wanted: &[u32]) -> bool {
        self.attached().all(|(ifindex, _)| {
            let Some(interface) = view.interfaces.get(&ifindex) else { return false };
            let (keys, is_right) = match self.point_below(view, interface, wanted) {
                Some(point) => (view.keys_of(&point), self.runs_on(view, ifindex)),
                None => {
                    (self.own_keys(view, interface), self.step(view, attach, interface) == Some(Step::Keep))
                }
            };
            is_right && self.keys_of(ifindex) == keys
        })
    }

    /// Returns the wanted interface whose own program sees a VLAN device's frames, if there is one.
    pub fn point_below(&self, view: &NetView, device: &Interface, wanted: &[u32]) -> Option<Point> {
        view.point_of(device, |ifindex| {
            let is_wanted = wanted.contains(&ifindex) && self.runs_on(view, ifindex);
            self.own(ifindex).filter(|_| is_wanted).map(|own| own.mode)
        })
    }

    /// Returns the keys of the frames that an interface's own program sees elsewhere: a bond's
    /// frames, on its ports.
    pub fn own_keys(&self, view: &NetView, interface: &Interface) -> BTreeSet<VlanKey> {
        let (ifindex, tags) = (interface.index, VlanTags::NONE);
        let on_ports = self.own(ifindex).filter(|own| own.mode.runs_on_ports(interface));
        on_ports.map_or_else(BTreeSet::new, |own| view.keys_of(&Point { ifindex, mode: own.mode, tags }))
    }

    pub fn step(&self, view: &NetView, attach: Attach, interface: &Interface) -> Option<Step<'static>> {
        let own = self.own(interface.index)?;
        let runs = self.runs_on(view, interface.index);
        let modes = attach.modes(interface, view);
        Some(Step::of(modes, own.mode, runs, self.was_refused(interface.index)))
    }

    /// Returns the interface whose native program sees a segment's frames. Returns `None` for a bond,
    /// which has the program on its ports.
    pub fn native_point<'a>(&self, view: &'a NetView, segment: u32) -> Option<&'a Interface> {
        let point = self.point_of(segment)?;
        let interface = self.own(point).filter(|own| own.mode == Mode::Native);
        interface.and_then(|_| view.interfaces.get(&point)).filter(|interface| !interface.has_ports())
    }

    pub fn insert(&mut self, ifindex: u32, own: OwnProgram) {
        self.own.insert(ifindex, own);
    }

    pub fn remove(&mut self, ifindex: u32) {
        self.own.remove(&ifindex);
    }

    pub fn insert_key(&mut self, ifindex: u32, key: VlanKey) {
        self.through.entry(ifindex).or_default().insert(key);
    }

    /// Records that the frames with these keys are an interface's frames, and no others. Returns
    /// its former keys that no interface has: `vlans` must lose them.
    pub fn lead(&mut self, ifindex: u32, keys: BTreeSet<VlanKey>) -> Vec<VlanKey> {
        let former = self.keys_of(ifindex);
        self.through.insert(ifindex, keys);
        self.through.retain(|_, keys| !keys.is_empty());
        // A new device may have the tags of one that is gone.
        let is_used = |key: &VlanKey| self.through.values().any(|keys| keys.contains(key));
        former.into_iter().filter(|key| !is_used(key)).collect()
    }

    pub fn refuse(&mut self, ifindex: u32) {
        self.refused.insert(ifindex);
    }

    /// Forgets what the kernel has refused on interfaces that are gone.
    pub fn forget_gone(&mut self, view: &NetView) {
        self.refused.retain(|ifindex| view.interfaces.contains_key(ifindex));
    }

    pub fn set_unattached(&mut self, unattached: BTreeMap<u32, String>) {
        self.unattached = unattached;
    }
}
