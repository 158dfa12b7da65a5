//! Conflicts: who else claims a VIP, from the first claim to the end, and how it is defended (RFC 5227, 2.4).
//!
//! A conflict is one object, however many frames it has and hosts take part. What is remembered is bounded: a flood from
//! ever new MACs costs no more than a few.

mod types;

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, VipKey};

use super::time::Monotonic;

#[cfg(test)]
mod tests;

pub use self::types::{
    Command, Conflict, Counted, Defend, End, Event, Line, Offender, Settings, Sight, What,
};

/// Time between two summaries of one conflict.
const SUMMARY: Duration = Duration::from_mins(1);
/// MACs that are told apart in one conflict.
const MAX_OFFENDERS: usize = 16;
/// Conflicts that are told apart.
const MOST_CASES: usize = 4_096;
/// An address in use is asked about once a minute in the end (RFC 5227's `RATE_LIMIT_INTERVAL`): that nothing is heard between two
/// attempts, or misses one, is no end.
const IN_USE_QUIET: Duration = Duration::from_mins(3);
/// How long after a claim the program's own counts are read: several hosts may have answered at once, and it tells of one.
const COUNT_AFTER: Duration = Duration::from_millis(200);
/// How often they are read at most.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// A conflict and what is due about it.
#[derive(Debug)]
struct Case {
    conflict: Conflict,
    /// Claims by the events about them, which also count what was swallowed.
    heard: u64,
    /// Those that lines have told of.
    told: u64,
    summary_due: Monotonic,
    /// What the program had counted of each offender before the conflict began.
    before: BTreeMap<MacAddr, u64>,
}

impl Case {
    fn next_deadline(&self, quiet: Duration) -> Monotonic {
        let over = self.over(quiet);
        if self.untold() > 0 { self.summary_due.min(over) } else { over }
    }

    /// When it is over if nothing more is heard.
    fn over(&self, quiet: Duration) -> Monotonic {
        let quiet = match self.conflict.what {
            What::InUse => quiet.max(IN_USE_QUIET),
            What::Held | What::Guarded => quiet,
        };
        self.conflict.last + quiet
    }

    fn untold(&self) -> u64 {
        self.conflict.claims.saturating_sub(self.told)
    }

    /// Tells how it stands.
    fn go_on(&mut self, now: Monotonic) -> Command {
        let times = self.untold();
        self.told = self.conflict.claims;
        self.summary_due = now + SUMMARY;
        Command::Tell(Line::GoesOn { conflict: self.conflict.clone(), times })
    }

    /// Events and the program's counts are two views of the same claims; either may be behind.
    fn sum_up(&mut self) {
        let counted = self.conflict.offenders.iter().map(|offender| offender.claims).sum();
        self.conflict.claims = self.conflict.claims.max(self.heard).max(counted);
    }

    /// Takes note of a claim; says whether its MAC is new, and could be remembered.
    fn meet(&mut self, mac: MacAddr, source: MacAddr, oper: u16, now: Monotonic) -> bool {
        let conflict = &mut self.conflict;
        if let Some(known) = conflict.offenders.iter_mut().find(|offender| offender.mac == mac) {
            known.last = known.last.max(now);
            (known.source, known.oper) = (source, oper);
            return false;
        }
        if conflict.offenders.len() == MAX_OFFENDERS {
            conflict.more = true;
            return false;
        }
        conflict.offenders.push(Offender { mac, source, oper, first: now, last: now, claims: 0 });
        true
    }
}

/// The conflicts that are open.
#[derive(Debug)]
pub struct Conflicts {
    settings: Settings,
    cases: BTreeMap<VipKey, Case>,
    begun: u64,
    /// Claims on VIPs of no conflict, since there are too many.
    caseless: u64,
    caseless_due: Monotonic,
    /// When the program's counts are to be read.
    count_due: Option<Monotonic>,
    counted: Monotonic,
}

impl Conflicts {
    /// Begins without a conflict.
    pub fn start(settings: &Settings, now: Monotonic) -> Self {
        Self {
            settings: *settings,
            cases: BTreeMap::new(),
            begun: 0,
            caseless: 0,
            caseless_due: now,
            count_due: None,
            counted: now.saturating_sub(COUNT_EVERY),
        }
    }

    /// Goes on with other settings.
    pub fn configure(&mut self, settings: &Settings) {
        self.settings = *settings;
    }

    /// The conflicts that are open, by VIP.
    pub fn open(&self) -> impl ExactSizeIterator<Item = &Conflict> {
        self.cases.values().map(|case| &case.conflict)
    }

    /// The open conflict about a VIP, on whichever segment.
    pub fn about(&self, key: &VipKey) -> Option<&Conflict> {
        self.cases.get(key).map(|case| &case.conflict)
    }

    /// How many have begun since the start.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Takes note of `event`; returns what is to be done.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Sighted(sight) => self.on_sight(&sight, now, &mut commands),
            Event::Counted(counted) => self.on_counted(&counted, &mut commands),
            Event::Recognised { ifindex, mac } => self.on_recognised(ifindex, mac, now, &mut commands),
            Event::Free(key) => self.end(&key, End::Free, &mut commands),
            Event::Forgotten(key) => self.end(&key, End::Forgotten, &mut commands),
            Event::Tick => self.on_tick(now, &mut commands),
        }
        commands
    }

    /// When [`Event::Tick`] is wanted.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let caseless = (self.caseless > 0).then_some(self.caseless_due);
        let quiet = self.settings.quiet;
        let cases = self.cases.values().map(|case| case.next_deadline(quiet));
        cases.chain(caseless).chain(self.count_due).min()
    }

    fn on_sight(&mut self, sight: &Sight, now: Monotonic, commands: &mut Vec<Command>) {
        let Sight { key, what, mac, source, oper, holder, times, at } = *sight;
        // Who holds a VIP tells people, and defends it: what others have known of a conflict is not told yet.
        if self.cases.get(&key).is_some_and(|case| case.conflict.what != what) {
            self.end(&key, End::Turned, commands);
        }
        if !self.cases.contains_key(&key) && self.cases.len() == MOST_CASES {
            self.caseless = self.caseless.saturating_add(times);
            self.caseless_due = self.caseless_due.max(now);
            if what == What::Held && self.settings.defend == Defend::Always {
                commands.push(Command::Defend(key));
            }
            return;
        }
        let is_new = !self.cases.contains_key(&key);
        let case = self.cases.entry(key).or_insert_with(|| Case {
            conflict: Conflict {
                key,
                what,
                holder,
                begun: at.min(now),
                last: now,
                claims: 0,
                offenders: Vec::new(),
                more: false,
                defences: 0,
            },
            heard: 0,
            told: 0,
            summary_due: now + SUMMARY,
            before: BTreeMap::new(),
        });
        let is_new_mac = case.meet(mac, source, oper, now);
        let conflict = &mut case.conflict;
        conflict.what = what;
        conflict.holder = holder;
        conflict.last = now;
        if let Some(offender) = conflict.offenders.iter_mut().find(|offender| offender.mac == mac) {
            // Those that the program swallowed may have been another's: its own counts will tell.
            offender.claims = offender.claims.saturating_add(1);
        }
        case.heard = case.heard.saturating_add(times);
        case.sum_up();
        let conflict = &mut case.conflict;
        let is_defended = what == What::Held
            && match self.settings.defend {
                Defend::Always => true,
                Defend::Once => is_new,
                Defend::Never => false,
            };
        if is_defended {
            conflict.defences = conflict.defences.saturating_add(1);
            commands.push(Command::Defend(key));
        }
        if is_new {
            self.begun += 1;
            commands.push(Command::Tell(Line::Began { conflict: conflict.clone(), sight: *sight }));
            case.told = times;
        } else if is_new_mac {
            commands.push(Command::Tell(Line::NewOffender { conflict: conflict.clone(), mac }));
            case.told = case.told.saturating_add(times);
        }
        self.count_due.get_or_insert((now + COUNT_AFTER).max(self.counted + COUNT_EVERY));
    }

    /// Takes over what the program has counted of each VIP and MAC.
    fn on_counted(&mut self, counted: &[Counted], commands: &mut Vec<Command>) {
        for Counted { key, offender: count } in counted {
            let Some(case) = self.cases.get_mut(key) else { continue };
            // What was quiet before the conflict began has no part in it.
            if count.last < case.conflict.begun {
                continue;
            }
            let is_new_mac = case.meet(count.mac, count.source, count.oper, count.last);
            let mut offenders = case.conflict.offenders.iter_mut();
            let Some(offender) = offenders.find(|offender| offender.mac == count.mac) else { continue };
            let began_before = count.first < case.conflict.begun;
            let before = case.before.entry(count.mac).or_insert_with(|| {
                if began_before { count.claims.saturating_sub(offender.claims.max(1)) } else { 0 }
            });
            offender.claims = count.claims.saturating_sub(*before).max(offender.claims);
            offender.first = offender.first.min(count.first.max(case.conflict.begun));
            case.sum_up();
            case.conflict.last = case.conflict.last.max(count.last);
            if is_new_mac {
                let conflict = case.conflict.clone();
                commands.push(Command::Tell(Line::NewOffender { conflict, mac: count.mac }));
            }
        }
    }

    /// A MAC is a peer's: what it did was no conflict.
    fn on_recognised(&mut self, ifindex: u32, mac: MacAddr, now: Monotonic, commands: &mut Vec<Command>) {
        let concerned = |(key, case): &(&VipKey, &Case)| {
            key.ifindex == ifindex && case.conflict.offenders.iter().any(|offender| offender.mac == mac)
        };
        let keys: Vec<VipKey> = self.cases.iter().filter(concerned).map(|(key, _)| *key).collect();
        for key in keys {
            let Some(case) = self.cases.get_mut(&key) else { continue };
            let offenders = &mut case.conflict.offenders;
            if offenders.len() > 1 || case.conflict.more {
                offenders.retain(|offender| offender.mac != mac);
                commands.push(case.go_on(now));
            } else {
                self.end(&key, End::Recognised, commands);
            }
        }
    }

    fn end(&mut self, key: &VipKey, why: End, commands: &mut Vec<Command>) {
        if let Some(case) = self.cases.remove(key) {
            commands.push(Command::Tell(Line::Ended { conflict: case.conflict, why }));
        }
    }

    fn on_tick(&mut self, now: Monotonic, commands: &mut Vec<Command>) {
        if self.count_due.is_some_and(|due| due <= now) {
            self.count_due = None;
            self.counted = now;
            commands.push(Command::Count);
        }
        let quiet = self.settings.quiet;
        let due: Vec<VipKey> = self
            .cases
            .iter()
            .filter(|(_, case)| case.next_deadline(quiet) <= now)
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            let Some(case) = self.cases.get_mut(&key) else { continue };
            if case.over(quiet) <= now {
                self.end(&key, End::Quiet, commands);
                continue;
            }
            commands.push(case.go_on(now));
        }
        if self.caseless > 0 && self.caseless_due <= now {
            let times = std::mem::take(&mut self.caseless);
            commands.push(Command::Tell(Line::TooMany { times }));
            self.caseless_due = now + SUMMARY;
        }
    }
}
