//! Hears the neighbour solicitations for IPv6 VIPs: memberships follow the entries.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
    time::Duration,
};

use tracing::{debug, warn};
use vipward_common::{Role, VipEntry, VipKey};
use vipward_core::{
    base::time::Monotonic,
    host::net::NetView,
    segment::groups::{Command, Group, Groups},
};

use super::{EventLoop, RETRY, RunError, now, source::Source};
use crate::shell::{
    causes::chain,
    groups::{self, GroupsError},
    netlink::Exchange,
};

/// The longest time for changes at once, and the time until the next ones. The more groups there
/// are, the longer the kernel takes for each.
const SHARE: Duration = Duration::from_millis(20);
/// Time after which the kernel has forgotten the memberships of an interface that was taken down;
/// some kernels forget them with the carrier too.
const FORGETTING: Duration = Duration::from_millis(100);

/// The memberships, and the times at which they are looked after.
#[derive(Default)]
pub(super) struct Hearing {
    groups: Groups,
    /// VIPs of other nodes that this one would take first.
    ahead: BTreeSet<IpAddr>,
    /// Time of the next changes, if there was no time for all.
    change_due: Option<Monotonic>,
    /// Time of the next reading, if it is before the regular one.
    read_due: Option<Monotonic>,
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

impl<S: Source> EventLoop<S> {
    /// Reads the kernel's memberships.
    pub(super) async fn read_groups(&mut self) -> Result<(), GroupsError> {
        self.hearing.read_due = None;
        self.hearing.groups.on_observed(groups::observe().await?);
        Ok(())
    }

    /// Hears the questions for a VIP, or no longer, as its entry, its probes and the succession need it.
    /// Another host may probe for the same address (RFC 4862, 5.4.2).
    pub(super) fn hear_questions(&mut self, key: VipKey) -> Result<(), RunError> {
        if key.addr.is_ipv6() {
            let entry = self.plane.maps().entry(&key)?;
            let is_probed = self.is_probed(&key);
            self.hearing.on_entry(&key, entry.as_ref(), is_probed);
            self.hearing.change_due = Some(now()?);
        }
        Ok(())
    }

    /// Joins and leaves groups, as many as there is time for. Leaves none before it is known which
    /// are wanted.
    pub(super) fn change_groups(&mut self) -> Result<(), RunError> {
        let Hearing { groups, change_due, .. } = &mut self.hearing;
        *change_due = None;
        let may_leave = self.source.is_known();
        if groups.next(may_leave).is_none() {
            return Ok(());
        }
        let mut kernel = Exchange::open().map_err(GroupsError::Open)?;
        let until = now()? + SHARE;
        while let Some(command) = groups.next(may_leave) {
            let now = now()?;
            if until <= now {
                *change_due = Some(now + SHARE);
                break;
            }
            debug!(?command, "change a membership");
            match groups::change(&mut kernel, command) {
                Ok(()) => groups.on_done(command),
                Err(error) => groups.on_refused(command, chain(&error)),
            }
        }
        Ok(())
    }

    /// Reads and changes memberships when that is due.
    pub(super) async fn tick_hearing(&mut self, now: Monotonic) {
        if self.hearing.next_deadline().is_none_or(|due| now < due) {
            return;
        }
        let is_read = match self.hearing.read_due {
            Some(due) if due <= now => self.read_groups().await.map_err(RunError::from),
            Some(_) | None => Ok(()),
        };
        if let Err(error) = is_read.and_then(|()| self.change_groups()) {
            warn!(error = chain(&error), "memberships could not be changed; trying again");
            self.hearing.read_due = Some(now + RETRY);
        }
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
