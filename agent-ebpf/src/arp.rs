//! ARP: the decision about a frame, and the frame that is sent in its place. XDP and traffic control
//! share it.

use vipward_common::{ArpFrame, Outcome, Verdict, decide};

use crate::{
    counting::{count, receive},
    family::V4,
    tables::Maps,
};

/// Decides about an ARP frame of a segment, and counts it.
#[inline(always)]
pub(crate) fn judge(frame: &ArpFrame, segment: u32) -> Verdict {
    receive(segment);
    let verdict = if frame.is_ethernet_ipv4() {
        decide(frame, &Maps::<V4, _>::of(segment, || true))
    } else {
        Verdict::about_none(Outcome::Unread)
    };
    count::<V4>(&verdict);
    verdict
}

/// Turns the frame into the one that is sent in its place. Returns false if none is sent.
#[inline(always)]
pub(crate) fn rewrite(frame: &mut ArpFrame, verdict: &Verdict) -> bool {
    if let Some(answer) = verdict.answer {
        frame.turn_into_reply(answer.mac, answer.source);
        return true;
    }
    if verdict.defence.is_zero() {
        return false;
    }
    frame.turn_into_announcement(verdict.defence);
    true
}
