//! Conflicts: other hosts' claims on a VIP, from the first to the
//! last, and the VIP's defence (RFC 5227, 2.4).
//!
//! A conflict is one object, however many frames and hosts take part. It lists
//! a limited number of MACs, so a flood from ever new MACs costs little memory.
//!
//! In a cluster, claim objects show which peer has a VIP. A peer that
//! announces a VIP by its claim object is in no conflict.

mod case;
mod types;
mod waiting;

use std::{collections::BTreeMap, time::Duration};

use vipward_common::{MacAddr, VipKey};

pub use self::case::ALONE_AFTER;
pub use self::types::{
    Command, Conflict, Counted, Defend, End, Event, Line, Offender, Right, Settings, Sight, What,
};
use self::{
    case::{Case, SUMMARY},
    waiting::Waiting,
};
use crate::{base::time::Monotonic, records::Epoch, segment::confirming::Answerer};

#[cfg(test)]
mod tests;

/// Limit of the open conflicts with unknown hosts, and with peers. Neither flood hides the other.
const MOST_CASES: usize = 4_096;
/// Delay between a claim and the reading of the program's counts. Several hosts may have answered
/// at once, and the program reports only one of them.
const COUNT_AFTER: Duration = Duration::from_millis(200);
/// Least time between two readings of the counts.
const COUNT_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Conflicts {
    settings: Settings,
    cases: BTreeMap<(VipKey, What), Case>,
    with_peers: usize,
    waiting: Waiting,
    /// Number of claims that found no room for a conflict.
    caseless: u64,
    caseless_due: Monotonic,
    count_due: Option<Monotonic>,
    counted: Monotonic,
}

impl Conflicts {
    pub fn start(settings: &Settings, now: Monotonic) -> Self {
        Self {
            settings: *settings,
            cases: BTreeMap::new(),
            with_peers: 0,
            waiting: Waiting::default(),
            caseless: 0,
            caseless_due: now,
            count_due: None,
            counted: now.saturating_sub(COUNT_EVERY),
        }
    }

    pub fn configure(&mut self, settings: &Settings) {
        self.settings = *settings;
    }

    pub fn shown(&self) -> impl Iterator<Item = &Conflict> {
        self.cases.values().map(|case| &case.conflict).filter(|conflict| conflict.is_shown())
    }

    /// Returns the open conflict about a VIP, if it is a shown one.
    pub fn about(&self, key: &VipKey) -> Option<&Conflict> {
        let shown = self.cases.range((*key, What::FIRST_SHOWN)..=(*key, What::LAST_SHOWN));
        shown.map(|(_, case)| &case.conflict).next()
    }

    /// Returns the open conflict about a held VIP for which a peer answers too.
    pub fn doubled(&self, key: &VipKey) -> Option<&Conflict> {
        let case = self.cases.get(&(*key, What::Contested))?;
        Some(&case.conflict).filter(|conflict| conflict.doubled)
    }

    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        match event {
            Event::Sighted(sight) => self.on_sight(&sight, now, &mut commands),
            Event::Counted(counted) => self.on_counted(&counted, &mut commands),
            Event::Named { key, mac, answerer } => self.on_named(key, mac, answerer, &mut commands),
            Event::Recognised { ifindex, mac } => self.on_recognised(ifindex, mac, now, &mut commands),
            Event::Free(key) => self.end_shown(key, End::Free, &mut commands),
            Event::Proxied(key) => self.end_shown(key, End::Proxied, &mut commands),
            Event::Forgotten(key) => self.end_shown(key, End::Forgotten, &mut commands),
            Event::Released(key) => self.end(&(key, What::Contested), End::Turned, &mut commands),
        }
        commands
    }

    /// Returns the commands that are due at `now`: for summaries, ends, the reading of
    /// counts, and announcements that waited for their claim objects in vain. `right`
    /// returns the right that a claim's sender has now.
    pub fn on_tick(&mut self, right: impl Fn(&Sight) -> Right, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        for sight in self.waiting.look(right, now) {
            self.admit(&sight, now, &mut commands);
        }
        if self.count_due.is_some_and(|due| due <= now) {
            self.count_due = None;
            self.counted = now;
            commands.push(Command::Count);
        }
        let quiet = self.settings.quiet;
        let due = self.cases.iter().filter(|(_, case)| case.next_deadline(quiet) <= now);
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(case) = self.cases.get_mut(&id) else { continue };
            commands.extend(case.on_tick(now));
            if case.over(quiet) <= now {
                self.end(&id, End::Quiet, &mut commands);
            } else if case.is_summary_due(now) {
                commands.push(case.go_on(now));
            }
        }
        if self.caseless > 0 && self.caseless_due <= now {
            let times = std::mem::take(&mut self.caseless);
            commands.push(Command::Report(Line::TooMany { times }));
            self.caseless_due = now + SUMMARY;
        }
        commands
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        let caseless = (self.caseless > 0).then_some(self.caseless_due);
        let quiet = self.settings.quiet;
        let cases = self.cases.values().map(|case| case.next_deadline(quiet));
        cases.chain(caseless).chain(self.count_due).chain(self.waiting.next_look()).min()
    }

    fn on_sight(&mut self, sight: &Sight, now: Monotonic, commands: &mut Vec<Command>) {
        match judge(sight) {
            Judgement::Legitimate => {}
            Judgement::Conflict => self.admit(sight, now, commands),
            Judgement::Unclear(_) if self.is_reported(sight) => self.admit(sight, now, commands),
            Judgement::Unclear(epoch) => {
                if !self.waiting.add(*sight, epoch, now) {
                    self.count_caseless(sight, now);
                }
            }
        }
    }

    fn is_reported(&self, sight: &Sight) -> bool {
        self.cases.get(&(sight.key, sight.what)).is_some_and(|case| case.has_met(sight.mac))
    }

    fn count_caseless(&mut self, sight: &Sight, now: Monotonic) {
        self.caseless = self.caseless.saturating_add(sight.times);
        self.caseless_due = self.caseless_due.max(now);
    }

    /// Adds a claim to its conflict, or begins one. Only counts the claim if there is no room.
    fn admit(&mut self, sight: &Sight, now: Monotonic, commands: &mut Vec<Command>) {
        let Sight { key, what, mac, times, .. } = *sight;
        // This node's part in the VIP has changed, so the conflict goes on in another state.
        if what.is_shown() && self.about(&key).is_some_and(|conflict| conflict.what != what) {
            self.end_shown(key, End::Turned, commands);
        }
        let is_new = !self.cases.contains_key(&(key, what));
        let has_room = !is_new || self.has_room(what);
        let is_defended = what == What::Held
            && match self.settings.defend {
                Defend::Match | Defend::Always => true,
                Defend::Once => is_new && has_room,
                Defend::Never => false,
            };
        if is_defended {
            commands.push(Command::Defend(key));
        }
        if !has_room {
            self.count_caseless(sight, now);
            return;
        }
        if is_new {
            self.with_peers += usize::from(what.is_with_peer());
        }
        let case = self.cases.entry((key, what)).or_insert_with(|| Case::begin(sight, now));
        // A host that claims in a peer's name does not show that the peer answers.
        let is_doubled = what == What::Contested && sight.source == mac && case.on_peer(now);
        let is_new_mac = case.on_sight(sight, now);
        case.conflict.defences += u64::from(is_defended);
        // Each yield of a VIP is as important as the first.
        if is_new || what == What::Yielded {
            case.reported = case.reported.saturating_add(times);
            let conflict = case.conflict.clone();
            commands.push(Command::Report(Line::Began { conflict, sight: *sight }));
        } else if is_new_mac {
            case.reported = case.reported.saturating_add(times);
            commands.push(Command::Report(Line::NewOffender { conflict: case.conflict.clone(), mac }));
        }
        if is_doubled {
            commands.push(Command::Report(Line::Doubled { conflict: case.conflict.clone() }));
        }
        if what.is_shown() {
            self.count_due.get_or_insert((now + COUNT_AFTER).max(self.counted + COUNT_EVERY));
        }
    }

    fn has_room(&self, what: What) -> bool {
        let open = if what.is_with_peer() { self.with_peers } else { self.cases.len() - self.with_peers };
        open < MOST_CASES
    }

    /// Records the program's counts of each VIP and MAC.
    fn on_counted(&mut self, counted: &[Counted], commands: &mut Vec<Command>) {
        for Counted { key, offender } in counted {
            let Some(what) = self.about(key).map(|conflict| conflict.what) else { continue };
            let Some(case) = self.cases.get_mut(&(*key, what)) else { continue };
            if case.on_count(offender) {
                let (conflict, mac) = (case.conflict.clone(), offender.mac);
                commands.push(Command::Report(Line::NewOffender { conflict, mac }));
            }
        }
    }

    fn on_named(&mut self, key: VipKey, mac: MacAddr, answerer: Answerer, commands: &mut Vec<Command>) {
        let Some(case) = self.cases.get_mut(&(key, What::InUse)) else { return };
        let offender = case.conflict.offenders.iter_mut().find(|offender| offender.mac == mac);
        if let Some(offender) = offender {
            offender.answerer = Some(answerer);
            commands.push(Command::Report(Line::Named { conflict: case.conflict.clone(), mac }));
        }
    }

    /// Removes a peer's MAC from the shown conflicts, which are
    /// with unknown hosts. A conflict with no other offender ends.
    fn on_recognised(&mut self, ifindex: u32, mac: MacAddr, now: Monotonic, commands: &mut Vec<Command>) {
        let concerned = self
            .cases
            .iter()
            .filter(|((key, what), case)| key.ifindex == ifindex && what.is_shown() && case.has_met(mac));
        for id in concerned.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(case) = self.cases.get_mut(&id) else { continue };
            let Conflict { offenders, more, .. } = &mut case.conflict;
            if offenders.len() > 1 || *more {
                offenders.retain(|offender| offender.mac != mac);
                commands.push(case.go_on(now));
            } else {
                self.end(&id, End::Recognised, commands);
            }
        }
    }

    fn end_shown(&mut self, key: VipKey, why: End, commands: &mut Vec<Command>) {
        if let Some(what) = self.about(&key).map(|conflict| conflict.what) {
            self.end(&(key, what), why, commands);
        }
    }

    fn end(&mut self, id: &(VipKey, What), why: End, commands: &mut Vec<Command>) {
        if let Some(Case { conflict, .. }) = self.cases.remove(id) {
            self.with_peers -= usize::from(conflict.what.is_with_peer());
            commands.push(Command::Report(Line::Ended { conflict, why }));
        }
    }
}

enum Judgement {
    Conflict,
    Legitimate,
    /// The claim waits, because the news of a move may be
    /// under way. The VIP's claim object is in this epoch.
    Unclear(Epoch),
}

fn judge(sight: &Sight) -> Judgement {
    match (sight.what, sight.right) {
        (What::Held | What::Guarded | What::InUse | What::Sighted, _) | (_, Right::NoClaims) => {
            Judgement::Conflict
        }
        (What::Contested | What::Moved | What::Yielded, Right::Given) => Judgement::Legitimate,
        // While this node's lease deadline lies ahead, no other node can have the VIP.
        (What::Contested, Right::NotGiven(_) | Right::Unknown(_)) => Judgement::Conflict,
        (What::Moved | What::Yielded, Right::NotGiven(epoch) | Right::Unknown(epoch)) => {
            Judgement::Unclear(epoch)
        }
    }
}
