//! The VIPs that this node should hold and does not answer for, and why.
//!
//! A VIP is examined after a change of its entry or claim. All are examined after a change of an
//! interface or the lease deadline.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{DeadlineState, MacAddr, SeenEntry, VipKey};

use super::{
    host::{Host, RETRY},
    segment::Segment,
};
use crate::{
    base::time::Monotonic,
    host::{
        answering::{Part, Silence},
        net::{InterfaceFault, NetView},
        stale::Stale,
    },
    ownership::HolderClaim,
    reports::unanswered::{Silences, Unanswered},
    segment::conflict::Conflict,
};

/// Least time between two examinations.
const PACE: Duration = Duration::from_millis(500);

/// Most VIPs whose entries are read at once: very many would take megabytes.
const PART: usize = 1_024;

/// State that the answers for all VIPs depend on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surroundings {
    pub lease_deadline: DeadlineState,
    /// True if the program has ever yielded a VIP.
    pub any_yielded: bool,
    /// MAC of each attached interface, and the reason why it cannot answer with that MAC.
    pub interfaces: BTreeMap<u32, (MacAddr, Option<InterfaceFault>)>,
}

/// The sources of the reason why a VIP does not answer, beside its entries.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub view: &'a NetView,
    /// The state of the reconciliations.
    pub host: &'a Host,
    /// The segments, with the VIPs that wait to be held.
    pub segment: &'a Segment,
    /// VIPs whose entries could not be written.
    pub stale: &'a Stale,
    /// Interfaces that should have the program and do not, with the reason.
    pub unattached: &'a BTreeMap<u32, String>,
    /// True if no claim decides between this node and a peer.
    pub settles_by_age: bool,
}

/// The VIPs of an examination.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Examined {
    /// VIPs whose answers may have changed, or whose silence must be reported.
    pub all: BTreeSet<IpAddr>,
    /// VIPs whose silence must be reported now.
    pub begun: Vec<IpAddr>,
    /// VIPs whose reported silence is over: this node answers again.
    pub over: Vec<IpAddr>,
    /// VIPs whose reported silence is over, since this node has them no longer.
    pub gone: Vec<IpAddr>,
}

/// The VIPs to examine, and the results.
#[derive(Debug)]
pub struct Answers {
    silences: Silences,
    some: BTreeSet<IpAddr>,
    all: bool,
    /// The earliest time of the next examination.
    next: Monotonic,
    /// State of the interfaces and the lease deadline at the last examination.
    seen: Option<Surroundings>,
}

impl Answers {
    /// Starts with all VIPs to examine. A VIP may be silent for `grace` before that is reported.
    pub fn start(grace: Duration, now: Monotonic) -> Self {
        let silences = Silences::start(grace);
        Self { silences, some: BTreeSet::new(), all: true, next: now, seen: None }
    }

    /// Applies another grace.
    pub fn configure(&mut self, grace: Duration) {
        self.silences.configure(grace);
    }

    /// Marks some VIPs to be examined.
    pub fn examine_some(&mut self, vips: impl IntoIterator<Item = IpAddr>) {
        self.some.extend(vips);
    }

    /// Marks all VIPs to be examined.
    pub fn examine_all(&mut self) {
        self.all = true;
    }

    pub fn reported(&self) -> impl Iterator<Item = (IpAddr, &Unanswered)> {
        self.silences.all_notified()
    }

    /// Returns the reported reason of a VIP's silence.
    pub fn reason(&self, vip: IpAddr) -> Option<&Unanswered> {
        self.silences.notified(vip)
    }

    /// Returns true if a VIP was found silent, whether that was reported or not.
    pub fn is_silent(&self, vip: IpAddr) -> bool {
        self.silences.contains(vip)
    }

    /// Returns the time of the next examination or report, at least `PACE` after the last examination.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let look = (self.all || !self.some.is_empty()).then_some(self.next);
        let due = self.silences.next_deadline();
        look.into_iter().chain(due).min().map(|deadline| deadline.max(self.next))
    }

    /// Returns true if an examination may begin.
    pub fn is_open(&self, now: Monotonic) -> bool {
        self.next <= now
    }

    /// Begins an examination of the marked VIPs, and of `left_behind`, the VIPs of ended sessions.
    /// `said` returns the VIPs that this node should hold, among some or all.
    pub fn begin(
        &mut self,
        surroundings: Surroundings,
        left_behind: Vec<IpAddr>,
        said: impl FnOnce(Option<&BTreeSet<IpAddr>>) -> BTreeMap<IpAddr, HolderClaim>,
        segment: &Segment,
        now: Monotonic,
    ) -> Examination {
        self.next = now + PACE;
        let all =
            std::mem::take(&mut self.all) || self.seen.as_ref().is_none_or(|seen| *seen != surroundings);
        let mut looked_at = std::mem::take(&mut self.some);
        looked_at.extend(left_behind);
        let mut said = said((!all).then_some(&looked_at));
        // A VIP that waits until its address is known to be free is not held yet.
        let held_back: BTreeSet<IpAddr> = segment.held_back().collect();
        said.retain(|vip, _| !held_back.contains(vip));
        if all {
            looked_at.extend(said.keys().copied());
            looked_at.extend(self.silences.all());
        }
        let left = looked_at.iter().copied().collect();
        Examination {
            surroundings,
            said,
            looked_at,
            left,
            part: Vec::new(),
            over: Vec::new(),
            gone: Vec::new(),
        }
    }

    /// Examines a part of the VIPs. `entries` has the existing entries of
    /// [`Examination::next_part`], as they count now.
    pub fn on_entries(
        &mut self,
        examination: &mut Examination,
        entries: &BTreeMap<VipKey, SeenEntry>,
        (known, now): (&Known<'_>, Monotonic),
    ) {
        for vip in std::mem::take(&mut examination.part) {
            let why = match examination.said.get(&vip) {
                None => None,
                Some(HolderClaim::Ended(node)) => Some(Unanswered::SessionEnded(node.clone())),
                Some(HolderClaim::Here { taken }) => {
                    why_silent(vip, *taken, &examination.surroundings, entries, known).map(Unanswered::Silent)
                }
            };
            if self.silences.record(vip, why, now) {
                let is_here = examination.said.contains_key(&vip);
                if is_here { &mut examination.over } else { &mut examination.gone }.push(vip);
            }
        }
    }

    /// Abandons an examination, because the lease deadline or the entries could not be read. All
    /// VIPs are examined at the next attempt.
    pub fn give_up(&mut self, now: Monotonic) {
        self.all = true;
        self.next = now + RETRY;
    }

    pub fn end(&mut self, examination: Examination, now: Monotonic) -> Examined {
        let Examination { surroundings, mut looked_at, over, gone, .. } = examination;
        self.seen = Some(surroundings);
        let begun = self.silences.on_tick(now);
        looked_at.extend(&begun);
        Examined { all: looked_at, begun, over, gone }
    }
}

/// An examination that goes on.
#[derive(Debug)]
pub struct Examination {
    surroundings: Surroundings,
    said: BTreeMap<IpAddr, HolderClaim>,
    looked_at: BTreeSet<IpAddr>,
    left: VecDeque<IpAddr>,
    part: Vec<IpAddr>,
    over: Vec<IpAddr>,
    gone: Vec<IpAddr>,
}

impl Examination {
    /// Returns the keys of the entries to read next, of very many VIPs a part. Returns `None` when no VIP
    /// is left. [`Answers::on_entries`] follows.
    pub fn next_part(&mut self) -> Option<Vec<VipKey>> {
        let number = self.left.len().min(PART);
        self.part = self.left.drain(..number).collect();
        let is_here = |vip: &&IpAddr| matches!(self.said.get(vip), Some(HolderClaim::Here { .. }));
        let keys =
            self.part.iter().filter(is_here).flat_map(|vip| {
                self.surroundings.interfaces.keys().map(|ifindex| VipKey::new(*ifindex, *vip))
            });
        (number > 0).then(|| keys.collect())
    }
}

/// Returns the reason why this node does not answer for a VIP that it should hold. Returns `None`
/// if it does.
fn why_silent(
    vip: IpAddr,
    taken: bool,
    surroundings: &Surroundings,
    entries: &BTreeMap<VipKey, SeenEntry>,
    known: &Known<'_>,
) -> Option<String> {
    let (mut silent, mut given_to) = (None, None);
    for (ifindex, (own, trouble)) in &surroundings.interfaces {
        let Some(seen) = entries.get(&VipKey::new(*ifindex, vip)) else { continue };
        let trouble = trouble.or((seen.mac != *own).then_some(InterfaceFault::OtherMac));
        match Part::of(seen.role, surroundings.lease_deadline, trouble, seen.fault) {
            Part::Held => {
                // In a cluster the claim decides, and forged frames must not make a node not ready.
                let conflict = known.segment.doubled(&VipKey::new(*ifindex, vip));
                return conflict.filter(|_| known.settles_by_age).map(doubled);
            }
            Part::Handover => return None,
            Part::Failing(fault) => {
                silent = Some(format!("{}: {}", known.view.name_of(*ifindex), fault.name()));
            }
            Part::Silent(why @ (Silence::LeaseDeadline | Silence::Doubled)) => {
                silent = Some(why.name().to_owned());
            }
            Part::Silent(why @ Silence::Interface(_)) => {
                silent = Some(format!("{}: {}", known.view.name_of(*ifindex), why.name()));
            }
            Part::Foreign if seen.yielded => given_to = Some(seen.mac),
            Part::Foreign => {}
        }
    }
    Some(silent.unwrap_or_else(|| no_entry(vip, taken, given_to, surroundings, known)))
}

fn doubled(conflict: &Conflict) -> String {
    let macs: Vec<_> = conflict.offenders.iter().map(|offender| offender.mac.to_string()).collect();
    format!("{}: {}", Silence::Doubled.name(), macs.join(", "))
}

/// Returns the reason why no entry answers for a VIP that this node should hold.
fn no_entry(
    vip: IpAddr,
    taken: bool,
    given_to: Option<MacAddr>,
    surroundings: &Surroundings,
    known: &Known<'_>,
) -> String {
    if let Some(mac) = given_to.or_else(|| known.host.yielded().get(&vip).copied()) {
        return format!("the program yielded to {mac} after the lease deadline had passed");
    }
    if let Some(failure) = known.stale.failure(vip) {
        return match &failure.interface {
            Some(interface) => format!("its entry on {interface} cannot be changed: {}", failure.error),
            None => failure.error.clone(),
        };
    }
    if surroundings.lease_deadline == DeadlineState::Over {
        return Silence::LeaseDeadline.name().to_owned();
    }
    let mut segments = known.view.routes.iter().filter(|route| route.prefix.contains(&vip));
    if !segments.any(|route| surroundings.interfaces.contains_key(&route.interface)) {
        let unattached = known.unattached.values().next().cloned();
        return unattached
            .unwrap_or_else(|| "no interface that the program runs on is in its subnet".to_owned());
    }
    if taken {
        return "the program has no entry that answers for it".to_owned();
    }
    "its claim names this node, whose agent has not taken it: its log states why".to_owned()
}
