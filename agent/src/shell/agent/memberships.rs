//! The memberships in the groups of neighbour solicitations, as the entries need them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use vipward_common::{Role, VipEntry, VipKey};
use vipward_core::{
    base::time::Monotonic,
    host::net::NetView,
    segment::groups::{Command, Group, Groups},
};

/// Time after which the kernel has forgotten the memberships of an interface that was taken down;
/// some kernels forget them with the carrier too.
const FORGETTING: Duration = Duration::from_millis(100);

/// The memberships, and the times at which they are looked after.
#[derive(Default)]
pub(super) struct Hearing {
    pub(super) groups: Groups,
    /// VIPs of other nodes that this one would take first.
    pub(super) ahead: BTreeSet<IpAddr>,
    /// Time of the next changes, if there was no time for all.
    pub(super) change_due: Option<Monotonic>,
    /// Time of the next reading, if it is before the regular one.
    pub(super) read_due: Option<Monotonic>,
}

impl Hearing {
    /// Takes in all entries, and the VIPs whose addresses are probed: another host may probe for
    /// them at the same time.
    pub(super) fn on_entries(&mut self, entries: &BTreeMap<VipKey, VipEntry>, probed: &BTreeSet<VipKey>) {
        let is_heard = |(key, entry): &(&VipKey, &VipEntry)| answers(entry) || self.ahead.contains(&key.addr);
        let answered = entries.iter().filter(is_heard).map(|(key, _)| key);
        self.groups.on_vips(&answered.chain(probed).filter_map(v6).collect());
    }

    /// Takes in a change of an entry. `is_probed` is true if the VIP's address is probed.
    pub(super) fn on_entry(&mut self, key: &VipKey, entry: Option<&VipEntry>, is_probed: bool) {
        if let Some((ifindex, vip)) = v6(key) {
            let is_heard = |entry| answers(entry) || self.ahead.contains(&key.addr);
            self.groups.on_vip(ifindex, vip, is_probed || entry.is_some_and(is_heard));
        }
    }

    /// Takes in whether this node is the first that would take a VIP. The entries must follow.
    pub(super) fn on_successor(&mut self, vip: IpAddr, hears: bool) {
        if hears {
            self.ahead.insert(vip);
        } else {
            self.ahead.remove(&vip);
        }
    }

    /// Takes in that an interface has been taken down, or has lost its carrier.
    pub(super) fn on_down(&mut self, now: Monotonic) {
        self.read_due = Some(now + FORGETTING);
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.change_due.into_iter().chain(self.read_due).min()
    }

    /// Returns the changes that the kernel refuses, in words.
    pub(super) fn problems(&self, view: &NetView) -> impl Iterator<Item = String> {
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

/// Returns true if the program answers for an entry, if the fence allows.
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
