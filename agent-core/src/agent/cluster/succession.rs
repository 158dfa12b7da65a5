//! The former holders of taken VIPs. Each is notified that its session has ended.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use vipward_common::{MacAddr, VipKey};

use crate::{base::time::Monotonic, records::Session};

/// The time within which one expiry notice is enough for all VIPs of a session.
const NOTIFIED: Duration = Duration::from_millis(10);

/// The former holders.
#[derive(Debug, Default)]
pub(super) struct Succession {
    /// The former holders of VIPs that are about to be taken, by their sessions.
    former: BTreeMap<IpAddr, (Session, MacAddr)>,
    /// The last one that was notified, with the interface and the time.
    notified: Option<(Session, u32, Monotonic)>,
}

impl Succession {
    /// Records from which session a VIP is taken, until its entry is written.
    pub(super) fn on_former(&mut self, vip: IpAddr, session: Session, mac: MacAddr) {
        self.former.insert(vip, (session, mac));
    }

    /// Forgets the former holder of a VIP that is not taken after all.
    pub(super) fn forget(&mut self, vip: IpAddr) {
        self.former.remove(&vip);
    }

    /// Returns the former holder of a VIP whose entry is written, and whether it is to be notified now.
    pub(super) fn on_taken(&mut self, key: VipKey, now: Monotonic) -> Option<(Session, MacAddr, bool)> {
        let (session, mac) = self.former.remove(&key.addr)?;
        let is_notified = self.notified.is_some_and(|(notified, ifindex, at)| {
            notified == session && ifindex == key.ifindex && now.saturating_since(at) < NOTIFIED
        });
        if !is_notified {
            self.notified = Some((session, key.ifindex, now));
        }
        Some((session, mac, !is_notified))
    }
}
