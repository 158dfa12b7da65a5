//! The decision about a frame: the two tables of docs/internals/dataplane.md, and the events.

use std::net::IpAddr;

use vipward_common::{
    DeadlineState, Event, EventKind, Limiter, MacAddr, Offender, OffenderKey, Role, VipEntry, VipKey, Yield,
};
use vipward_core::base::time::Monotonic;

use super::{Counted, Program};
use crate::{machine::frame::Frame, schedule::Sabotage};

/// The least time between two events of one group about one VIP.
const EVENT_EVERY_NS: u64 = 100_000_000;

/// What becomes of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Handled {
    /// True if the kernel gets it.
    pub(crate) passes: bool,
    /// The frame that is sent in its place: an answer or a defence.
    pub(crate) sent: Option<Frame>,
    pub(crate) event: Option<Event>,
}

const PASSED: Handled = Handled { passes: true, sent: None, event: None };
const DROPPED: Handled = Handled { passes: false, sent: None, event: None };

/// The sender of a claim, as the columns of the first table have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sender {
    Entry,
    Peer,
    Other,
}

/// The manner of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Forged,
    Announcing,
    Quiet,
}

/// An entry, as the rows of the first table have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Row {
    Held,
    Handover,
    Foreign,
    /// Foreign, with MAC zero.
    Unknown,
}

/// An outcome of the first table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    Own,
    Passed,
    Dropped(EventKind),
    /// It passes, with this event.
    Reported(EventKind),
    /// It passes after the program has yielded, with this event.
    Yields(EventKind),
}

/// Returns the outcome of a claim.
fn claim(row: Row, lease_deadline: DeadlineState, manner: Manner, sender: Sender) -> Claim {
    let lapsed = lease_deadline != DeadlineState::Valid;
    match (row, lapsed, manner, sender) {
        (Row::Held, _, _, Sender::Entry) => Claim::Own,
        (Row::Held | Row::Handover | Row::Foreign, _, _, Sender::Other) => {
            Claim::Dropped(EventKind::Conflict)
        }
        (Row::Handover, false, _, Sender::Entry)
        | (Row::Unknown, _, Manner::Forged, Sender::Peer)
        | (Row::Foreign | Row::Unknown, _, Manner::Announcing, Sender::Peer) => {
            Claim::Reported(EventKind::Moved)
        }
        (Row::Held | Row::Handover, false, _, Sender::Peer)
        | (Row::Held, true, Manner::Forged, Sender::Peer)
        | (Row::Handover, true, Manner::Forged, Sender::Entry | Sender::Peer) => {
            Claim::Dropped(EventKind::Contested)
        }
        (Row::Handover, true, Manner::Announcing, Sender::Entry) => Claim::Yields(EventKind::Moved),
        (Row::Held | Row::Handover, true, Manner::Announcing, Sender::Peer) => {
            Claim::Yields(EventKind::Yielded)
        }
        (Row::Held, true, Manner::Quiet, Sender::Peer)
        | (Row::Handover, true, Manner::Quiet, Sender::Entry | Sender::Peer)
        | (Row::Foreign | Row::Unknown, _, _, Sender::Entry)
        | (Row::Foreign | Row::Unknown, _, Manner::Quiet, Sender::Peer)
        | (Row::Foreign, _, Manner::Forged, Sender::Peer) => Claim::Passed,
        (Row::Unknown, _, _, Sender::Other) => Claim::Reported(EventKind::Sighted),
    }
}

impl Program {
    /// Handles a frame of the segment behind an interface.
    pub(crate) fn handle(&mut self, ifindex: u32, frame: &Frame, now: Monotonic) -> Handled {
        let key = |addr: IpAddr| VipKey::new(ifindex, addr);
        let claimed = frame.claimed().map(key).filter(|key| self.entries.contains_key(key));
        let target = frame.target().map(key).filter(|key| self.entries.contains_key(key));
        let handled = claimed.map_or(PASSED, |key| self.on_claim(key, frame, now));
        match target {
            Some(target) if handled.passes && !(claimed.is_some() && frame.is_gratuitous()) => {
                let request = self.on_request(target, frame, now);
                Handled { event: handled.event.or(request.event), ..request }
            }
            Some(_) | None => handled,
        }
    }

    fn on_claim(&mut self, key: VipKey, frame: &Frame, now: Monotonic) -> Handled {
        let (Some(entry), Some(counted)) = (self.entry(key).copied(), self.counted(key, now)) else {
            return PASSED;
        };
        let lease_deadline = self.lease_deadline_state(now);
        let row = match counted.role {
            Role::Held => Row::Held,
            Role::Handover => Row::Handover,
            Role::Foreign if counted.mac.is_zero() => Row::Unknown,
            Role::Foreign => Row::Foreign,
        };
        let manner = match (frame.announces(), frame.source == frame.sha) {
            (true, false) => Manner::Forged,
            (true, true) => Manner::Announcing,
            (false, _) => Manner::Quiet,
        };
        let sender = if frame.sha == counted.mac && row != Row::Unknown {
            Sender::Entry
        } else if self.peers.contains(&(key.ifindex, frame.sha)) {
            Sender::Peer
        } else {
            Sender::Other
        };
        match claim(row, lease_deadline, manner, sender) {
            Claim::Own => DROPPED,
            Claim::Passed => PASSED,
            Claim::Dropped(kind) => {
                let event = self.event(kind, key, &entry, counted, frame, now);
                let sent = self.defends(kind, key, &entry, (counted, lease_deadline), frame, now);
                Handled { sent, event, ..DROPPED }
            }
            Claim::Reported(kind) => {
                Handled { event: self.event(kind, key, &entry, counted, frame, now), ..PASSED }
            }
            Claim::Yields(_) if self.sabotage == Some(Sabotage::NoYield) => PASSED,
            Claim::Yields(kind) => {
                // Another frame has come first.
                let kind = if self.give_way(&entry, frame.sha) { kind } else { EventKind::Moved };
                Handled { event: self.event(kind, key, &entry, counted, frame, now), ..PASSED }
            }
        }
    }

    /// Records a yield. Returns false if this generation has yielded before.
    fn give_way(&mut self, entry: &VipEntry, to: MacAddr) -> bool {
        if self.recorded(entry).is_some() {
            return false;
        }
        let state = self.states.entry(entry.slot).or_default();
        state.yielded = Yield { mac: to.0, generation: entry.generation };
        self.yields_total += 1;
        true
    }

    fn on_request(&mut self, key: VipKey, frame: &Frame, now: Monotonic) -> Handled {
        let (Some(entry), Some(counted)) = (self.entry(key).copied(), self.counted(key, now)) else {
            return PASSED;
        };
        let own = match counted.role {
            Role::Foreign => {
                let is_peer = self.peers.contains(&(key.ifindex, frame.sha));
                if !(counted.mac.is_zero() && frame.is_probe() && !is_peer) {
                    return DROPPED;
                }
                let event = self.event(EventKind::Probed, key, &entry, counted, frame, now);
                return Handled { event, ..DROPPED };
            }
            Role::Held => Some(counted.mac),
            Role::Handover => self.own_macs.get(&key.ifindex).copied(),
        };
        let lease_deadline = self.lease_deadline_state(now);
        let Some(own) = own.filter(|_| lease_deadline != DeadlineState::Over) else { return DROPPED };
        let is_addressed = frame.to == MacAddr::BROADCAST || frame.to == own;
        let is_host = frame.sha.is_unicast() && frame.sha != own;
        let sent = (is_addressed && is_host).then(|| frame.answered(own, counted.mac));
        Handled { sent, ..DROPPED }
    }

    /// Counts the claim, and returns its event unless one of its group came shortly before.
    fn event(
        &mut self,
        kind: EventKind,
        key: VipKey,
        entry: &VipEntry,
        counted: Counted,
        frame: &Frame,
        now: Monotonic,
    ) -> Option<Event> {
        // The switch has sent a frame of this node back.
        if self.own_macs.get(&key.ifindex) == Some(&frame.sha) {
            return None;
        }
        let at_ns = now.as_nanos();
        let state = self.states.entry(entry.slot).or_default();
        let limiter = match kind {
            EventKind::Conflict | EventKind::Sighted | EventKind::Probed => Some(&mut state.unknown_hosts),
            EventKind::Contested | EventKind::Moved => Some(&mut state.peers),
            EventKind::Yielded => None,
        };
        let swallowed = limiter.map_or(Some(0), |limiter| admit(limiter, at_ns));
        match kind {
            EventKind::Conflict | EventKind::Contested | EventKind::Sighted | EventKind::Probed => {
                self.count(kind, OffenderKey { vip: key, mac: frame.sha }, frame, at_ns);
            }
            EventKind::Moved | EventKind::Yielded => {}
        }
        let vip = match key.addr {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        Some(Event {
            at_ns,
            swallowed: swallowed?,
            kind,
            ifindex: key.ifindex,
            oper: frame.oper as u16,
            vip: vip.octets(),
            sha: frame.sha.0,
            source: frame.source.0,
            holder: counted.mac.0,
            _pad: [0; 4],
        })
    }

    fn count(&mut self, kind: EventKind, key: OffenderKey, frame: &Frame, now_ns: u64) {
        let (oper, source) = (frame.oper as u16, frame.source.0);
        let new = Offender {
            first_ns: now_ns,
            last_ns: now_ns,
            claims: 0,
            kind,
            oper,
            source,
            answered: 0,
            strays: 0,
            defended_ns: 0,
        };
        let offender = self.offenders.entry(key).or_insert(new);
        offender.claims += 1;
        (offender.last_ns, offender.kind) = (now_ns, kind);
        (offender.oper, offender.source) = (oper, source);
    }
}

/// Returns the number of events that were held back before this one, unless this one is too.
fn admit(limiter: &mut Limiter, now_ns: u64) -> Option<u64> {
    if now_ns < limiter.next_ns {
        limiter.swallowed += 1;
        return None;
    }
    limiter.next_ns = now_ns + EVENT_EVERY_NS;
    Some(std::mem::take(&mut limiter.swallowed))
}
