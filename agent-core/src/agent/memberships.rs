//! The memberships in the groups of neighbour solicitations, as the entries need them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use vipward_common::{Role, VipEntry, VipKey};

use super::host::RETRY;
use crate::{
    base::time::Monotonic,
    host::net::NetView,
    segment::groups::{Command, Group, Groups, Membership},
};

#[cfg(test)]
mod tests;

/// The longest time for changes at once, and the time until the next ones. The more groups there
/// are, the longer the kernel takes for each.
pub const SHARE: Duration = Duration::from_millis(20);
/// Time after which the kernel has forgotten the memberships of an interface that was taken down;
/// some kernels forget them with the carrier too.
const FORGETTING: Duration = Duration::from_millis(100);

/// The memberships that the entries need, and the times at which they are looked after.
#[derive(Debug, Default)]
pub struct Memberships {
    groups: Groups,
    /// VIPs of other nodes that this one would take first.
    ahead: BTreeSet<IpAddr>,
    /// Time of the next changes.
    change_due: Option<Monotonic>,
    /// Time of the next reading, if it is before the regular one.
    read_due: Option<Monotonic>,
}

impl Memberships {
    /// Records all entries, and the VIPs whose addresses are probed: another host may probe for
    /// them at the same time.
    pub fn on_entries(&mut self, entries: &BTreeMap<VipKey, VipEntry>, probed: &BTreeSet<VipKey>) {
        let is_received =
            |(key, entry): &(&VipKey, &VipEntry)| answers(entry) || self.ahead.contains(&key.addr);
        let answered = entries.iter().filter(is_received).map(|(key, _)| key);
        self.groups.on_vips(&answered.chain(probed).filter_map(v6).collect());
    }

    /// Records an entry, which has changed or whose VIP is now probed or taken first. `is_probed` is
    /// true if the VIP's address is probed: another host may probe for it too (RFC 4862, 5.4.2).
    pub fn on_entry(&mut self, key: &VipKey, entry: Option<&VipEntry>, is_probed: bool, now: Monotonic) {
        if let Some((ifindex, vip)) = v6(key) {
            let is_received = |entry| answers(entry) || self.ahead.contains(&key.addr);
            self.groups.on_vip(ifindex, vip, is_probed || entry.is_some_and(is_received));
            self.change_due = Some(now);
        }
    }

    /// Records whether this node is the first that would take a VIP. The entries must follow.
    pub fn on_successor(&mut self, vip: IpAddr, receives: bool) {
        if receives {
            self.ahead.insert(vip);
        } else {
            self.ahead.remove(&vip);
        }
    }

    /// Records that an interface has been taken down, or has lost its carrier.
    pub fn on_down(&mut self, now: Monotonic) {
        self.read_due = Some(now + FORGETTING);
    }

    /// Records the memberships that the kernel has.
    pub fn on_observed(&mut self, joined: BTreeSet<Membership>) {
        self.read_due = None;
        self.groups.on_observed(joined);
    }

    /// Returns the next change, until there is none. Leaves no group before it is known which ones are
    /// wanted. The result follows with [`Memberships::on_done`] or [`Memberships::on_refused`].
    pub fn next(&mut self, may_leave: bool) -> Option<Command> {
        let next = self.groups.next(may_leave);
        if next.is_none() {
            self.change_due = None;
        }
        next
    }

    /// Returns true if the kernel has a membership.
    pub fn any(&self) -> bool {
        self.groups.joined().next().is_some()
    }

    /// Returns the interfaces with memberships that the kernel no longer has.
    pub fn left(&self, joined: &BTreeSet<Membership>) -> BTreeSet<u32> {
        self.groups.joined().filter(|it| !joined.contains(it)).map(|it| it.ifindex).collect()
    }

    /// Records that the kernel has made a change.
    pub fn on_done(&mut self, command: Command) {
        self.groups.on_done(command);
    }

    /// Records that the kernel has refused a change.
    pub fn on_refused(&mut self, command: Command, error: String) {
        self.groups.on_refused(command, error);
    }

    /// Puts the changes that are left off: there was no time for all.
    pub fn put_off(&mut self, now: Monotonic) {
        self.change_due = Some(now + SHARE);
    }

    /// Has everything read again soon, after a failure.
    pub fn try_again_soon(&mut self, now: Monotonic) {
        self.change_due = None;
        self.read_due = Some(now + RETRY);
    }

    /// Returns the time of the next reading or changes.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.change_due.into_iter().chain(self.read_due).min()
    }

    /// Returns true if the kernel's memberships must be read.
    pub fn must_be_read(&self, now: Monotonic) -> bool {
        self.read_due.is_some_and(|due| due <= now)
    }

    /// Returns the texts about changes that the kernel refuses.
    pub fn problems(&self, view: &NetView) -> impl Iterator<Item = String> {
        let mut refused: BTreeMap<_, Vec<Group>> = BTreeMap::new();
        for (command, error) in self.groups.refused() {
            let is_join = matches!(command, Command::Join(_));
            let membership = command.membership();
            refused.entry((membership.ifindex, is_join, error)).or_default().push(membership.group);
        }
        let words = |((ifindex, is_join, error), groups): ((u32, bool, &str), Vec<Group>)| {
            let interface = view.name_of(ifindex);
            let group = groups[0];
            let more = match groups.len() - 1 {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            if is_join {
                format!(
                    "solicitations to {group}{more} may not reach {interface}: failed to join the group: {error}"
                )
            } else {
                format!("failed to leave {group}{more} on {interface}: {error}")
            }
        };
        refused.into_iter().map(words).collect::<Vec<_>>().into_iter()
    }
}

/// Returns true if the program answers for an entry while the lease deadline allows it.
fn answers(entry: &VipEntry) -> bool {
    match entry.role {
        Role::Held | Role::Handover => true,
        Role::Foreign => false,
    }
}

/// Returns the interface and the VIP of an IPv6 entry.
fn v6(key: &VipKey) -> Option<(u32, Ipv6Addr)> {
    match key.addr {
        IpAddr::V4(_) => None,
        IpAddr::V6(vip) => Some((key.ifindex, vip)),
    }
}
