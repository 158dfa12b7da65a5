//! The defence of a held VIP: the announcement that takes the place of a dropped claim, and its limits.

use vipward_common::{
    DeadlineState, Defence, DefenceWindow, EventKind, MacAddr, Offender, OffenderKey, Role, VipEntry, VipKey,
};
use vipward_core::base::time::Monotonic;

use super::{Counted, Program};
use crate::machine::frame::{Frame, Oper};

const WINDOW_NS: u64 = 1_000_000_000;
/// The defences in a window: of one VIP, and of all.
const MOST_OF_VIP: u64 = 20;
const MOST_OF_ALL: u64 = 1_000;
/// A claim that comes sooner after a defence answers it.
const ANSWERS_NS: u64 = 30_000_000;
/// The answers in a row of a rival that defends too, which gets one defence in [`SELDOM_NS`], or after
/// [`MOST_STRAYS`] claims that answer nothing.
const MOST_ANSWERED: u16 = 10;
const MOST_STRAYS: u16 = 5;
const SELDOM_NS: u64 = 10_000_000_000;

impl Program {
    /// Returns the defence that is sent in place of a dropped claim, if one is.
    pub(super) fn defends(
        &mut self,
        kind: EventKind,
        key: VipKey,
        entry: &VipEntry,
        (counted, lease_deadline): (Counted, DeadlineState),
        frame: &Frame,
        now: Monotonic,
    ) -> Option<Frame> {
        let is_on = match self.lease_deadline.defence {
            Defence::Match => true,
            Defence::Off => false,
        };
        let is_due = match kind {
            EventKind::Conflict => lease_deadline != DeadlineState::Over,
            EventKind::Contested => lease_deadline == DeadlineState::Valid,
            EventKind::Moved | EventKind::Yielded | EventKind::Sighted | EventKind::Probed => false,
        };
        if !(is_on && is_due && counted.role == Role::Held && frame.to.is_multicast()) {
            return None;
        }
        let now_ns = now.as_nanos();
        let offender = self.offenders.get_mut(&OffenderKey { vip: key, mac: frame.sha })?;
        if !is_met(offender, now_ns)
            || !has_room(&mut self.states.entry(entry.slot).or_default().defences, MOST_OF_VIP, now_ns)
            || !has_room(&mut self.defences, MOST_OF_ALL, now_ns)
        {
            return None;
        }
        offender.defended_ns = now_ns;
        let (mac, to) = (counted.mac, MacAddr::BROADCAST);
        Some(Frame { source: mac, to, oper: Oper::Request, sha: mac, spa: frame.spa, tpa: frame.spa })
    }
}

/// Counts a claim among those that answer a defence. Returns whether a defence meets it.
fn is_met(offender: &mut Offender, now_ns: u64) -> bool {
    let since = now_ns.saturating_sub(offender.defended_ns);
    let answers = offender.defended_ns != 0 && since < ANSWERS_NS;
    if offender.answered < MOST_ANSWERED {
        offender.answered = if answers { offender.answered + 1 } else { 0 };
        offender.strays = 0;
        return offender.answered < MOST_ANSWERED;
    }
    offender.strays += u16::from(!answers);
    let is_due = since >= SELDOM_NS || offender.strays >= MOST_STRAYS;
    if is_due {
        // The last ten defences are this one and nine that were answered.
        (offender.answered, offender.strays) = (MOST_ANSWERED - 1, 0);
    }
    is_due
}

fn has_room(window: &mut DefenceWindow, most: u64, now_ns: u64) -> bool {
    if now_ns.saturating_sub(window.began_ns) >= WINDOW_NS {
        *window = DefenceWindow { began_ns: now_ns, wanted: 0 };
    }
    window.wanted += 1;
    window.wanted <= most
}
