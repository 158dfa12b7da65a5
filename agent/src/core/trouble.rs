//! What the program tells about claims, as lines that an operator can read: a start, a summary a minute, an end.
//!
//! A conflict is one case with a beginning and an end, however many frames it has. What is remembered is bounded: a
//! flood from ever new MACs costs no more than a few.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{Event, EventKind, MacAddr, VipKey};

use super::time::Monotonic;

#[cfg(test)]
mod tests;

/// Time between two summaries of one case.
const SUMMARY: Duration = Duration::from_mins(1);
/// A case that has been quiet for so long is over.
const QUIET: Duration = Duration::from_mins(5);
/// MACs that are told apart in one case.
const MAX_OFFENDERS: usize = 16;
/// Cases that are told apart.
const MAX_CASES: usize = 4_096;
/// So many more for what peers do: no flood of strangers' claims may hide that a VIP was given up.
const PEER_CASES: usize = 1_024;

/// A claim, as the first event about it describes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Claim {
    /// What it is to us.
    pub kind: EventKind,
    /// The VIP and where it was claimed.
    pub key: VipKey,
    /// sha: the MAC that the VIP is claimed for.
    pub offender: MacAddr,
    /// The Ethernet source, which a careful impostor makes another.
    pub source: MacAddr,
    /// oper of the frame.
    pub oper: u16,
    /// The MAC that the VIP was at.
    pub holder: MacAddr,
    /// How many claims this event stands for: itself and those that the program did not tell.
    pub times: u64,
}

/// A line to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// A case begins.
    Started(Claim),
    /// Another MAC takes part.
    NewOffender(Claim),
    /// The case goes on.
    GoesOn {
        /// What it is.
        kind: EventKind,
        /// The VIP and where.
        key: VipKey,
        /// Claims since the last line about the case.
        times: u64,
        /// The MACs, as many as are told apart.
        offenders: Vec<MacAddr>,
        /// Whether there were more.
        more: bool,
    },
    /// The case is over.
    Ended {
        /// What it was.
        kind: EventKind,
        /// The VIP and where.
        key: VipKey,
        /// Claims in all.
        times: u64,
        /// From the first to the last.
        lasted: Duration,
        /// The MACs.
        offenders: Vec<MacAddr>,
    },
    /// More cases at once than are told apart.
    TooMany {
        /// Claims that belong to none.
        times: u64,
    },
}

#[derive(Debug)]
struct Case {
    kind: EventKind,
    started: Monotonic,
    last: Monotonic,
    summary_due: Monotonic,
    /// Claims since the last line.
    untold: u64,
    times: u64,
    offenders: Vec<MacAddr>,
    more: bool,
}

impl Case {
    /// Whether `mac` is new, and could be remembered.
    fn meet(&mut self, mac: MacAddr) -> bool {
        if self.offenders.contains(&mac) {
            return false;
        }
        if self.offenders.len() == MAX_OFFENDERS {
            self.more = true;
            return false;
        }
        self.offenders.push(mac);
        true
    }

    fn next_deadline(&self) -> Monotonic {
        let over = self.last + QUIET;
        if self.untold > 0 { self.summary_due.min(over) } else { over }
    }
}

/// The cases that are open.
#[derive(Debug)]
pub struct Trouble {
    cases: BTreeMap<(VipKey, EventKindKey), Case>,
    /// Claims that belong to no case, since there are too many.
    caseless: u64,
    caseless_due: Monotonic,
}

/// [`EventKind`] has no order of its own.
type EventKindKey = u32;

impl Trouble {
    /// Begins without a case.
    pub fn start(now: Monotonic) -> Self {
        Self { cases: BTreeMap::new(), caseless: 0, caseless_due: now }
    }

    /// Takes note of an event.
    pub fn on_event(&mut self, event: &Event, now: Monotonic) -> Vec<Line> {
        let claim = Claim {
            kind: event.kind,
            key: VipKey { ifindex: event.ifindex, vlan: event.vlan, _pad: 0, addr: event.vip },
            offender: MacAddr(event.sha),
            source: MacAddr(event.source),
            oper: event.oper,
            holder: MacAddr(event.holder),
            times: event.swallowed.saturating_add(1),
        };
        let key = (claim.key, claim.kind as EventKindKey);
        if !self.cases.contains_key(&key) && self.cases.len() >= most_cases(claim.kind) {
            self.caseless = self.caseless.saturating_add(claim.times);
            self.caseless_due = self.caseless_due.max(now);
            return Vec::new();
        }
        let mut line = None;
        let case = self.cases.entry(key).or_insert_with(|| {
            line = Some(Line::Started(claim));
            Case {
                kind: claim.kind,
                started: now,
                last: now,
                summary_due: now + SUMMARY,
                untold: 0,
                times: 0,
                offenders: Vec::new(),
                more: false,
            }
        });
        let is_new = case.meet(claim.offender);
        case.last = now;
        case.times = case.times.saturating_add(claim.times);
        let line = match (line, claim.kind) {
            (Some(started), _) => Some(started),
            // One for each time that a VIP was given up.
            (None, EventKind::Yielded) => Some(Line::Started(claim)),
            (None, _) if is_new => Some(Line::NewOffender(claim)),
            (None, _) => None,
        };
        if line.is_none() {
            case.untold = case.untold.saturating_add(claim.times);
        }
        line.into_iter().collect()
    }

    /// What is due at `now`: summaries and ends.
    pub fn on_tick(&mut self, now: Monotonic) -> Vec<Line> {
        let mut lines = Vec::new();
        self.cases.retain(|(key, _), case| {
            let kind = case.kind;
            if case.untold > 0 && (case.summary_due <= now || case.last + QUIET <= now) {
                lines.push(Line::GoesOn {
                    kind,
                    key: *key,
                    times: std::mem::take(&mut case.untold),
                    offenders: case.offenders.clone(),
                    more: case.more,
                });
                case.summary_due = now + SUMMARY;
            }
            let over = case.last + QUIET <= now;
            if over {
                lines.push(Line::Ended {
                    kind,
                    key: *key,
                    times: case.times,
                    lasted: case.last.saturating_since(case.started),
                    offenders: case.offenders.clone(),
                });
            }
            !over
        });
        if self.caseless > 0 && self.caseless_due <= now {
            lines.push(Line::TooMany { times: std::mem::take(&mut self.caseless) });
            self.caseless_due = now + SUMMARY;
        }
        lines
    }

    /// When [`Trouble::on_tick`] is wanted.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let caseless = (self.caseless > 0).then_some(self.caseless_due);
        self.cases.values().map(Case::next_deadline).chain(caseless).min()
    }
}

/// How many cases there may be for one of `kind` to be added.
fn most_cases(kind: EventKind) -> usize {
    match kind {
        EventKind::Conflict | EventKind::Sighted | EventKind::Probed => MAX_CASES,
        EventKind::Contested | EventKind::Moved | EventKind::Yielded => MAX_CASES + PEER_CASES,
    }
}
