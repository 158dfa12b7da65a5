//! Stacks of links: the interfaces below a segment's, and those whose program sees its frames.

use std::collections::BTreeSet;

use vipward_common::{VlanKey, VlanTag, VlanTags};

use super::{
    attaching::Mode,
    interfaces::master_of,
    net::{Interface, NetView},
};

#[cfg(test)]
mod tests;

/// The most tags of a frame that the program reads.
const MOST_TAGS: usize = 2;

/// An interface whose program sees the frames of a VLAN device, with their tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    pub ifindex: u32,
    pub mode: Mode,
    pub tags: VlanTags,
}

impl NetView {
    pub fn vlans_on(&self, ifindex: u32) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(move |it| it.vlan.is_some() && it.lower == Some(ifindex))
    }

    pub fn ports_of(&self, ifindex: u32) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(move |port| port.master == Some(ifindex))
    }

    /// Returns true if a program in this mode sees frames of an interface's VLAN devices without
    /// their tags. Traffic control sees them always. XDP sees frames whose tags stand in the frame.
    /// Software devices keep tags beside the frame, and so do cards that take them off. The kernel
    /// does not report whether a card takes service tags (802.1ad) off, so this code assumes it.
    pub fn hides_tags(&self, interface: &Interface, mode: Mode) -> bool {
        let runs_in_driver = !interface.is_software() || mode == Mode::Native && interface.has_ports();
        let is_hidden = |device: &Interface| {
            !runs_in_driver
                || interface.strips_tags
                || self.ports_of(interface.index).any(|port| port.strips_tags)
                || device.vlan.is_some_and(VlanTag::is_service)
        };
        mode != Mode::Tc && self.vlans_on(interface.index).any(is_hidden)
    }

    /// Returns all links below an interface, over which its frames arrive: the ports of a bond, team or
    /// bridge, and the interface below a VLAN, macvlan or ipvlan device, in every depth.
    pub fn path(&self, ifindex: u32) -> BTreeSet<u32> {
        let mut path = BTreeSet::new();
        let mut left = vec![ifindex];
        while let Some(index) = left.pop() {
            let below = self.interfaces.get(&index).and_then(|interface| interface.lower);
            let ports = self.ports_of(index).map(|port| port.index);
            left.extend(ports.chain(below).filter(|link| path.insert(*link)));
        }
        path.remove(&ifindex);
        path
    }

    /// Returns the interfaces above a link, whose frames arrive over it, in every depth.
    pub fn above(&self, ifindex: u32) -> BTreeSet<u32> {
        self.interfaces.keys().copied().filter(|upper| self.path(*upper).contains(&ifindex)).collect()
    }

    /// Returns the interface that stands for this one's segment on this host. Ports lead to their master, and
    /// macvlan and ipvlan devices to the interface below them. A VLAN device is on a segment of its own.
    pub fn segment_of(&self, ifindex: u32) -> u32 {
        let next = |interface: &Interface| {
            let below = interface.lower.filter(|_| interface.vlan.is_none());
            master_of(self, interface).or(below)
        };
        let mut path = BTreeSet::from([ifindex]);
        let mut last = ifindex;
        while let Some(index) = self.interfaces.get(&last).and_then(next)
            && path.insert(index)
        {
            last = index;
        }
        last
    }

    /// Returns the keys in `vlans` of the frames that the program of a point sees for another interface.
    ///
    /// Native XDP on a bond runs on its ports (`bond_xdp_set`). If one port is active, the others
    /// receive copies, which nothing may answer.
    pub fn keys_of(&self, point: &Point) -> BTreeSet<VlanKey> {
        let key = |ifindex: u32| VlanKey::new(ifindex, point.tags);
        let bond = self.interfaces.get(&point.ifindex).filter(|it| it.has_ports());
        match bond.filter(|_| point.mode == Mode::Native) {
            None => BTreeSet::from([key(point.ifindex)]),
            Some(Interface { active_port: Some(active), .. }) => BTreeSet::from([key(*active)]),
            Some(bond) => self.ports_of(bond.index).map(|port| key(port.index)).collect(),
        }
    }

    /// Returns the interface whose program sees the frames of a VLAN device, if there is one:
    /// `mode_of` returns the mode of an interface's own program. The lowest goes first. A device that is
    /// down has none, since nothing may answer for it.
    pub fn point_of(&self, device: &Interface, mode_of: impl Fn(u32) -> Option<Mode>) -> Option<Point> {
        let mut found = None;
        let mut tags = Vec::with_capacity(MOST_TAGS);
        let mut upper = device;
        while let (Some(tag), Some(lower), true) = (upper.vlan, upper.lower, upper.up) {
            tags.insert(0, tag);
            // A frame of VLAN 0 counts as untagged.
            if tags.len() > MOST_TAGS || tag == VlanTag::NONE {
                break;
            }
            let Some(interface) = self.interfaces.get(&lower) else { break };
            if let Some(mode) = mode_of(lower)
                && !self.hides_tags(interface, mode)
            {
                let tags = tags.iter().fold(VlanTags::NONE, |tags, tag| tags.then(*tag));
                found = Some(Point { ifindex: lower, mode, tags });
            }
            upper = interface;
        }
        found
    }
}
