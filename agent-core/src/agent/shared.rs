//! The right to announce a VIP, by the pinned maps.

use vipward_common::{DeadlineState, LeaseDeadline, MacAddr, Role, VipEntry, WireState, Yield};

/// The pinned state that all VIPs share. Only the agent writes the lease deadline. While the
/// deadline lies ahead, the program yields no VIP, unless an expiry notice arrives.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    pub lease_deadline: LeaseDeadline,
    /// The last expiry notice for a session of this node.
    pub notified: WireState,
    /// True if the program has yielded a VIP whose entry does not show it yet.
    pub has_yielded: bool,
}

impl Shared {
    /// Returns true if this node holds a VIP with `mac` and the lease deadline lies ahead. For a
    /// VIP that was taken back, the grace period is enough. `record` returns the program's record
    /// of the entry, if it can be read.
    pub fn may_announce(
        &self,
        entry: &VipEntry,
        record: impl FnOnce() -> Option<Yield>,
        mac: MacAddr,
        is_taken_back: bool,
        now_ns: u64,
    ) -> bool {
        let is_valid = match self.lease_deadline.state(now_ns, self.notified) {
            DeadlineState::Valid => true,
            DeadlineState::Grace if is_taken_back => false,
            DeadlineState::Grace | DeadlineState::Over => return false,
        };
        if entry.role != Role::Held || entry.mac != mac.0 {
            return false;
        }
        is_valid && !self.has_yielded
            || record().is_some_and(|record| record.yielded_to(entry.generation).is_none())
    }
}

#[cfg(test)]
mod tests {
    use vipward_common::{Defence, Policy};

    use super::*;
    use crate::{
        agent::fixtures::{PEER, entry},
        base::samples::HOLDER,
    };

    /// The lease deadline is 10. The grace period ends at 20.
    fn shared(has_yielded: bool) -> Shared {
        let lease_deadline = LeaseDeadline {
            deadline_ns: 10,
            grace_until_ns: 20,
            yields_settled: 0,
            session: 0,
            notices_settled: 0,
            policy: Policy::Hold,
            defence: Defence::Match,
        };
        Shared { lease_deadline, notified: WireState::default(), has_yielded }
    }

    #[test]
    fn a_vip_is_announced_while_it_is_held_and_the_lease_deadline_is_valid() {
        let held = entry(Role::Held, HOLDER, 7);
        let yielded = Yield { mac: PEER.0, generation: 7 };
        let earlier = Yield { mac: PEER.0, generation: 6 };
        // Description, time, taken back, any yield, the entry, its record, and if it may.
        let rows = [
            ("valid", 9, false, false, held, None, true),
            ("grace period", 10, false, false, held, Some(Yield::default()), false),
            ("grace period, taken back", 10, true, false, held, Some(Yield::default()), true),
            ("grace period, taken back, unreadable", 10, true, false, held, None, false),
            ("over, taken back", 20, true, false, held, Some(Yield::default()), false),
            ("guarded", 9, false, false, entry(Role::Foreign, HOLDER, 7), None, false),
            ("handed over", 9, false, false, entry(Role::Handover, HOLDER, 7), None, false),
            ("another MAC", 9, false, false, entry(Role::Held, PEER, 7), None, false),
            ("another VIP has yielded", 9, false, true, held, Some(Yield::default()), true),
            ("it has yielded", 9, false, true, held, Some(yielded), false),
            ("it had yielded before it was taken", 9, false, true, held, Some(earlier), true),
            ("its record is unreadable", 9, false, true, held, None, false),
        ];
        for (what, now_ns, is_taken_back, has_yielded, entry, record, may) in rows {
            let shared = shared(has_yielded);
            assert_eq!(shared.may_announce(&entry, || record, HOLDER, is_taken_back, now_ns), may, "{what}");
        }
    }
}
