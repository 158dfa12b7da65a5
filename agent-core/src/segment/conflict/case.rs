//! Open conflict, with its due reports.

use std::{collections::BTreeMap, time::Duration};

use vipward_common::MacAddr;

use super::{Command, Conflict, Line, Offender, Sight, What};
use crate::base::time::Monotonic;

/// Time between two summaries of one conflict.
pub(super) const SUMMARY: Duration = Duration::from_mins(1);
pub(super) const MAX_OFFENDERS: usize = 16;
/// Least quiet time that ends a conflict about an address in use. After
/// many conflicts this node probes the address only once a minute (RFC
/// 5227's `RATE_LIMIT_INTERVAL`), and a probe or its answer may be lost.
const IN_USE_QUIET: Duration = Duration::from_mins(3);
/// Time for which a peer's claims go on before two hosts are known to answer. While a VIP moves, its
/// former holder may claim it for a moment.
pub(super) const PERSISTS: Duration = Duration::from_secs(1);
/// Time between two requests for a VIP that a peer claims.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// Time without a claim, and so without an answer to three requests, that shows that one host answers.
pub const ALONE_AFTER: Duration = Duration::from_secs(7);
/// Quiet time that ends a conflict that is only logged.
const LOGGED_QUIET: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(super) struct Case {
    pub(super) conflict: Conflict,
    /// Number of claims by the program's events, including those that it did not report singly.
    received: u64,
    /// Number of claims that lines have reported.
    pub(super) reported: u64,
    summary_due: Monotonic,
    /// The beginning of a peer's claims that have gone on since.
    goes_on_since: Option<Monotonic>,
    /// The time of the next request for the VIP.
    ask_due: Option<Monotonic>,
    /// The program's count of each offender's claims before the conflict.
    before: BTreeMap<MacAddr, u64>,
}

impl Case {
    pub(super) fn begin(sight: &Sight, now: Monotonic) -> Self {
        let conflict = Conflict {
            key: sight.key,
            what: sight.what,
            holder: sight.holder,
            begun: sight.at.min(now),
            last: now,
            claims: 0,
            offenders: Vec::new(),
            more: false,
            defences: 0,
            doubled: false,
        };
        Self {
            conflict,
            received: 0,
            reported: 0,
            summary_due: now + SUMMARY,
            goes_on_since: None,
            ask_due: None,
            before: BTreeMap::new(),
        }
    }

    pub(super) fn next_deadline(&self, quiet: Duration) -> Monotonic {
        let summary = (self.unreported() > 0).then_some(self.summary_due);
        let alone = self.conflict.doubled.then(|| self.conflict.last + ALONE_AFTER);
        summary.into_iter().chain(self.ask_due).chain(alone).fold(self.over(quiet), Monotonic::min)
    }

    /// Returns true if a summary is due.
    pub(super) fn is_summary_due(&self, now: Monotonic) -> bool {
        self.unreported() > 0 && self.summary_due <= now
    }

    /// Records a claim of a peer on a held VIP, before [`Case::on_sight`]. Returns true if it shows that
    /// two hosts answer, and the claims before did not.
    pub(super) fn on_peer(&mut self, now: Monotonic) -> bool {
        let is_over = |_: &mut Monotonic| now >= self.conflict.last + ALONE_AFTER;
        self.goes_on_since.take_if(is_over);
        let since = *self.goes_on_since.get_or_insert(now);
        self.ask_due.get_or_insert(now + PERSISTS);
        let is_doubled = now.saturating_since(since) >= PERSISTS;
        is_doubled && !std::mem::replace(&mut self.conflict.doubled, true)
    }

    /// Returns what is due about a VIP that a peer claims.
    pub(super) fn on_tick(&mut self, now: Monotonic) -> Option<Command> {
        if now >= self.conflict.last + ALONE_AFTER {
            self.ask_due = None;
            let was_doubled = std::mem::take(&mut self.conflict.doubled);
            return was_doubled.then(|| Command::Report(Line::Doubled { conflict: self.conflict.clone() }));
        }
        self.ask_due.take_if(|due| *due <= now)?;
        self.ask_due = Some(now + ASK_EVERY);
        Some(Command::Ask(self.conflict.key))
    }

    /// Returns the time at which the conflict ends if no further claim comes.
    pub(super) fn over(&self, quiet: Duration) -> Monotonic {
        let quiet = match self.conflict.what {
            What::InUse => quiet.max(IN_USE_QUIET),
            What::Held | What::Guarded => quiet,
            What::Sighted | What::Contested | What::Moved | What::Yielded => LOGGED_QUIET,
        };
        self.conflict.last + quiet
    }

    fn unreported(&self) -> u64 {
        self.conflict.claims.saturating_sub(self.reported)
    }

    /// Returns a line that sums up the claims since the last one.
    pub(super) fn go_on(&mut self, now: Monotonic) -> Command {
        let times = self.unreported();
        self.reported = self.conflict.claims;
        self.summary_due = now + SUMMARY;
        Command::Report(Line::GoesOn { conflict: self.conflict.clone(), times })
    }

    pub(super) fn has_met(&self, mac: MacAddr) -> bool {
        self.conflict.offenders.iter().any(|offender| offender.mac == mac)
    }

    /// Adds a claim. Returns true if its MAC is a new offender.
    pub(super) fn on_sight(&mut self, sight: &Sight, now: Monotonic) -> bool {
        let Sight { what, mac, source, oper, holder, times, .. } = *sight;
        let seen = Offender { mac, source, oper, first: now, last: now, claims: 0, answerer: None };
        let (is_new, offender) = self.meet(seen).unzip();
        if let Some(offender) = offender {
            // The claims that the program did not report may come from
            // another MAC. The program's count of that MAC includes them.
            let own = if what.is_shown() { 1 } else { times };
            offender.claims = offender.claims.saturating_add(own);
        }
        self.conflict.holder = holder;
        self.conflict.last = now;
        self.received = self.received.saturating_add(times);
        self.sum_up();
        is_new == Some(true)
    }

    /// Records the program's count of one MAC. Returns true if the MAC is a new offender.
    pub(super) fn on_count(&mut self, count: &Offender) -> bool {
        let begun = self.conflict.begun;
        // A MAC that has been quiet since the conflict began has no part in it.
        if count.last < begun {
            return false;
        }
        let known = self.before.get(&count.mac).copied();
        let Some((is_new, offender)) = self.meet(Offender { first: count.last, claims: 0, ..*count }) else {
            return false;
        };
        let began_before = count.first < begun;
        let first_count =
            || if began_before { count.claims.saturating_sub(offender.claims.max(1)) } else { 0 };
        let before = known.unwrap_or_else(first_count);
        offender.claims = count.claims.saturating_sub(before).max(offender.claims);
        offender.first = offender.first.min(count.first.max(begun));
        self.before.insert(count.mac, before);
        self.sum_up();
        self.conflict.last = self.conflict.last.max(count.last);
        is_new
    }

    /// Returns the offender with the MAC of `seen`, and true if it is
    /// new. Returns none if there is no room for it.
    fn meet(&mut self, seen: Offender) -> Option<(bool, &mut Offender)> {
        let Conflict { offenders, more, .. } = &mut self.conflict;
        let known = offenders.iter().position(|offender| offender.mac == seen.mac);
        if known.is_none() && offenders.len() == MAX_OFFENDERS {
            *more = true;
            return None;
        }
        let position = known.unwrap_or_else(|| {
            offenders.push(seen);
            offenders.len() - 1
        });
        let offender = &mut offenders[position];
        offender.last = offender.last.max(seen.last);
        (offender.source, offender.oper) = (seen.source, seen.oper);
        Some((known.is_none(), offender))
    }

    /// Sets the number of claims from the events and from the program's counts. Both
    /// count the same claims, and either may be behind.
    fn sum_up(&mut self) {
        let counted = self.conflict.offenders.iter().map(|offender| offender.claims).sum();
        self.conflict.claims = self.conflict.claims.max(self.received).max(counted);
    }
}
