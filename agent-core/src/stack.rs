//! Stacks of links: the interfaces below a segment's, and those whose program sees its frames.

use std::collections::BTreeSet;

use vipward_common::{VlanTag, VlanTags};

use super::{
    attaching::Mode,
    net::{Interface, NetView},
};

#[cfg(test)]
mod tests;

/// The most tags of a frame that the program reads.
const MOST_TAGS: usize = 2;

/// An interface whose program sees the frames of a VLAN device, with their tags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Point {
    /// The interface.
    pub ifindex: u32,
    /// The mode of its program.
    pub mode: Mode,
    /// The tags of the frames there.
    pub tags: VlanTags,
}

impl NetView {
    /// Returns the VLAN devices on an interface.
    pub fn vlans_on(&self, ifindex: u32) -> impl Iterator<Item = &Interface> {
        self.interfaces.values().filter(move |it| it.vlan.is_some() && it.lower == Some(ifindex))
    }

    /// Returns true if XDP on an interface sees frames of its VLAN devices without their tags. The
    /// kernel does not say so of service tags (802.1ad), so hardware is supposed to take those off.
    pub fn hides_tags(&self, interface: &Interface) -> bool {
        self.vlans_on(interface.index).any(|device| {
            interface.strips_tags || !interface.is_software() && device.vlan.is_some_and(VlanTag::is_service)
        })
    }

    /// Returns all links below an interface, over which its frames arrive: the ports of a bond, team or
    /// bridge, and the interface below a VLAN, macvlan or ipvlan device, in every depth.
    pub fn path(&self, ifindex: u32) -> BTreeSet<u32> {
        let mut path = BTreeSet::new();
        let mut left = vec![ifindex];
        while let Some(index) = left.pop() {
            let below = self.interfaces.get(&index).and_then(|interface| interface.lower);
            let ports = self.interfaces.values().filter(|port| port.master == Some(index));
            left.extend(ports.map(|port| port.index).chain(below).filter(|link| path.insert(*link)));
        }
        path.remove(&ifindex);
        path
    }

    /// Returns the interfaces above a link, whose frames arrive over it, in every depth.
    pub fn above(&self, ifindex: u32) -> BTreeSet<u32> {
        self.interfaces.keys().copied().filter(|upper| self.path(*upper).contains(&ifindex)).collect()
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
                && (mode == Mode::Tc || !self.hides_tags(interface))
            {
                let tags = tags.iter().fold(VlanTags::NONE, |tags, tag| tags.then(*tag));
                found = Some(Point { ifindex: lower, mode, tags });
            }
            upper = interface;
        }
        found
    }
}
