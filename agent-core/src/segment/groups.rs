//! Membership in the multicast groups of neighbour solicitations for IPv6 VIPs.
//!
//! A solicitation goes to the solicited-node group of its target (RFC 4291, 2.7.1). A card that
//! filters, and a switch that snoops MLD, pass it only to members of that group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv6Addr,
};

#[cfg(test)]
mod tests;

/// A solicited-node group: the last 24 bits of the addresses that share it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Group([u8; 3]);

impl Group {
    pub const fn of(address: Ipv6Addr) -> Self {
        let [.., high, middle, low] = address.octets();
        Self([high, middle, low])
    }

    /// Returns the group that has this multicast address, if it is a solicited-node group.
    pub fn from_address(address: Ipv6Addr) -> Option<Self> {
        let group = Self::of(address);
        (group.address() == address).then_some(group)
    }

    pub const fn address(self) -> Ipv6Addr {
        let [high, middle, low] = self.0;
        Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, high, middle, low])
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Membership {
    pub ifindex: u32,
    pub group: Group,
}

impl Membership {
    pub const fn of(ifindex: u32, vip: Ipv6Addr) -> Self {
        Self { ifindex, group: Group::of(vip) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Command {
    Join(Membership),
    Leave(Membership),
}

impl Command {
    pub const fn membership(self) -> Membership {
        match self {
            Self::Join(membership) | Self::Leave(membership) => membership,
        }
    }
}

/// The wanted memberships, the kernel's memberships, and the difference.
///
/// A change of one VIP costs one look-up, whatever the number of VIPs.
#[derive(Default, Debug)]
pub struct Groups {
    vips: BTreeSet<(u32, Ipv6Addr)>,
    /// The number of VIPs that share each membership.
    wanted: BTreeMap<Membership, usize>,
    joined: BTreeSet<Membership>,
    joins: BTreeSet<Membership>,
    leaves: BTreeSet<Membership>,
    /// Changes that the kernel has refused since its memberships were read, with its errors.
    refused: BTreeMap<Command, String>,
}

impl Groups {
    /// Records whether solicitations for a VIP are to be received on an interface.
    pub fn on_vip(&mut self, ifindex: u32, vip: Ipv6Addr, is_wanted: bool) {
        let key = (ifindex, vip);
        let membership = Membership::of(ifindex, vip);
        if is_wanted {
            if self.vips.insert(key) {
                *self.wanted.entry(membership).or_default() += 1;
            }
        } else if self.vips.remove(&key)
            && let Some(sharing) = self.wanted.get_mut(&membership)
        {
            *sharing -= 1;
            if *sharing == 0 {
                self.wanted.remove(&membership);
            }
        }
        self.queue(membership);
    }

    /// Records the VIPs whose solicitations are to be received, in place of all former ones.
    pub fn on_vips(&mut self, vips: &BTreeSet<(u32, Ipv6Addr)>) {
        let gone: Vec<_> = self.vips.difference(vips).copied().collect();
        for (ifindex, vip) in gone {
            self.on_vip(ifindex, vip, false);
        }
        let new: Vec<_> = vips.difference(&self.vips).copied().collect();
        for (ifindex, vip) in new {
            self.on_vip(ifindex, vip, true);
        }
    }

    /// Records the kernel's memberships, as just read. Refused commands are retried.
    pub fn on_observed(&mut self, joined: BTreeSet<Membership>) {
        self.refused.clear();
        self.joined = joined;
        self.joins = self.wanted.keys().filter(|it| !self.joined.contains(it)).copied().collect();
        self.leaves = self.joined.iter().filter(|it| !self.wanted.contains_key(it)).copied().collect();
    }

    /// Records that the kernel has carried a command out.
    pub fn on_done(&mut self, command: Command) {
        match command {
            Command::Join(membership) => self.joined.insert(membership),
            Command::Leave(membership) => self.joined.remove(&membership),
        };
        self.queue(command.membership());
    }

    /// Records that the kernel has refused a command. It is retried after the next reading.
    pub fn on_refused(&mut self, command: Command, error: String) {
        self.refused.insert(command, error);
        self.queue(command.membership());
    }

    /// Returns the next command. Joins come first, and leaves only if they are allowed.
    pub fn next(&self, may_leave: bool) -> Option<Command> {
        let join = self.joins.first().copied().map(Command::Join);
        join.or_else(|| self.leaves.first().filter(|_| may_leave).copied().map(Command::Leave))
    }

    /// Returns the memberships that the kernel had when they were read, and those that were changed since.
    pub fn joined(&self) -> impl Iterator<Item = &Membership> {
        self.joined.iter()
    }

    pub fn refused(&self) -> impl Iterator<Item = (Command, &str)> {
        self.refused.iter().map(|(command, error)| (*command, &**error))
    }

    /// Puts a membership into the queue in which it belongs, if any.
    fn queue(&mut self, membership: Membership) {
        let is_wanted = self.wanted.contains_key(&membership);
        let is_joined = self.joined.contains(&membership);
        let is_refused = |command| self.refused.contains_key(&command);
        let joins = is_wanted && !is_joined && !is_refused(Command::Join(membership));
        let leaves = is_joined && !is_wanted && !is_refused(Command::Leave(membership));
        if joins {
            self.joins.insert(membership);
        } else {
            self.joins.remove(&membership);
        }
        if leaves {
            self.leaves.insert(membership);
        } else {
            self.leaves.remove(&membership);
        }
    }
}
