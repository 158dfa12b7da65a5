//! Failovers: which interfaces' VIPs are announced once more, because their frames take another way.
//!
//! The kernel announces only its own addresses then, and notifies rtnetlink's listeners. One
//! failover of a bond makes a series of notifications. `BONDING_FAILOVER` comes first.
//! `NOTIFY_PEERS` follows within a second, and may be repeated (`num_grat_arp`). Every VLAN and
//! macvlan device above has a copy of each. A virtual machine that has moved, and a team, make only
//! `NOTIFY_PEERS`.

use std::{collections::BTreeMap, collections::BTreeSet, time::Duration};

use crate::{base::time::Monotonic, host::net::NetView};

#[cfg(test)]
mod tests;

/// Longest pause between two notifications of one series. QEMU repeats its own within 550 ms.
const PAUSE: Duration = Duration::from_secs(2);

/// A notification (`IFLA_EVENT` of `RTM_NEWLINK`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Notice {
    pub ifindex: u32,
    pub kind: NoticeKind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoticeKind {
    /// A bond has another active port (`IFLA_EVENT_BONDING_FAILOVER`).
    Failover,
    /// The kernel announces its own addresses (`IFLA_EVENT_NOTIFY_PEERS`).
    NotifyPeers,
}

#[derive(Debug)]
struct Last {
    at: Monotonic,
    /// True if the kernel has announced its own addresses since the failover.
    has_announced: bool,
}

#[derive(Debug, Default)]
pub struct Failovers {
    last: BTreeMap<u32, Last>,
}

impl Failovers {
    /// Records the notifications that were received together. Returns the interfaces that failed
    /// over: the named ones, and all that have their frames through them.
    pub fn on_notices(
        &mut self,
        notices: &BTreeSet<Notice>,
        view: &NetView,
        now: Monotonic,
    ) -> BTreeSet<u32> {
        self.last.retain(|_, last| now < last.at + PAUSE);
        let mut failed_over = BTreeSet::new();
        let named: BTreeSet<u32> = notices.iter().map(|notice| notice.ifindex).collect();
        for ifindex in named {
            // The interface below has a notification of its own.
            if view.interfaces.get(&ifindex).is_none_or(|interface| interface.lower.is_some()) {
                continue;
            }
            let has = |kind| notices.contains(&Notice { ifindex, kind });
            if self.is_new(ifindex, has(NoticeKind::Failover), has(NoticeKind::NotifyPeers), now) {
                failed_over.insert(ifindex);
                failed_over.extend(view.above(ifindex));
            }
        }
        failed_over
    }

    /// Returns true if the notifications of an interface need a round of announcements.
    ///
    /// The kernel withholds its own announcement while the new port cannot send yet
    /// (`bond_should_notify_peers`). A round at the failover is lost then, and needed again.
    fn is_new(&mut self, ifindex: u32, failover: bool, announces: bool, now: Monotonic) -> bool {
        let last = self.last.get(&ifindex);
        let was_withheld = last.is_some_and(|last| !last.has_announced);
        let is_new = failover || last.is_none() || was_withheld;
        self.last.insert(ifindex, Last { at: now, has_announced: announces });
        is_new
    }
}

/// Returns the interfaces that failed over between two views, as far as they show it: bonds with
/// another active port, and all that have their frames through them. For when notifications were
/// lost.
pub fn unnoticed(before: &NetView, after: &NetView) -> BTreeSet<u32> {
    let active = |view: &NetView, ifindex| view.interfaces.get(&ifindex).and_then(|it| it.active_port);
    let bonds = after.interfaces.values().filter(|bond| {
        bond.active_port.is_some()
            && active(before, bond.index).is_some_and(|port| Some(port) != bond.active_port)
    });
    bonds.flat_map(|bond| after.above(bond.index).into_iter().chain([bond.index])).collect()
}
