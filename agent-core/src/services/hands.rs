//! Detection of another controller that serves a Service too, or has taken it over.
//!
//! Only the turns at a status are remembered, until it has been left
//! alone for a while. All other signs are in the Service itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Command, ServiceEntry, Services, Settings,
    ingress::Acceptance,
    problem::{Problem, WayOut},
    records::{FIELD_MANAGER, ServiceRecord, StatusOwner},
    selection::Unselected,
};
use crate::{base::time::Monotonic, records::ServiceName};

/// Number of turns that make a contest. Fewer turns are a takeover, or a repair by hand.
const CONTEST: u32 = 3;
/// Quiet time that ends a contest. Single turns are forgotten after it too.
const QUIET: Duration = Duration::from_mins(5);
/// Largest number of field managers that are listed.
const MOST_MANAGERS: usize = 4;

/// The turns at a status.
#[derive(Debug, Default)]
pub(super) struct Turns {
    count: u32,
    managers: BTreeSet<Arc<str>>,
    /// Time of the last turn. None until the time is known.
    last: Option<Monotonic>,
}

/// The field managers before and after the last turn. None for a manager without a name.
#[derive(PartialEq, Eq, Debug)]
struct Turn {
    from: Option<Arc<str>>,
    by: Option<Arc<str>>,
}

impl Turns {
    fn add(&mut self, Turn { from, by }: Turn) {
        self.count = self.count.saturating_add(1);
        self.last = None;
        for manager in [from, by].into_iter().flatten() {
            if self.managers.len() < MOST_MANAGERS {
                self.managers.insert(manager);
            }
        }
    }

    fn is_contest(&self) -> bool {
        self.count >= CONTEST
    }
}

impl Services {
    /// Takes in the time. Ends contests that have been quiet for long enough, and the precedence of VIPs
    /// without a holder.
    pub fn on_time(&mut self, now: Monotonic) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.next_deadline().is_none_or(|next| now < next) {
            return commands;
        }
        let touched = &mut self.touched.services;
        self.turns.retain(|service, turns| {
            let last = *turns.last.get_or_insert(now);
            let stands = now < last + QUIET;
            if !stands {
                touched.insert(service.clone());
            }
            stands
        });
        self.touched.vips.extend(self.holders.expire(now));
        if self.synced {
            self.look_again(false, &mut commands);
        }
        commands
    }

    /// Returns the time of the next [`Services::on_time`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let quiet =
            self.turns.values().map(|turns| turns.last.map_or_else(Monotonic::default, |last| last + QUIET));
        quiet.chain(self.holders.next_deadline()).min()
    }

    /// Takes in another controller's turn at the status of a known Service.
    pub(super) fn note_turn(&mut self, new: &ServiceRecord) {
        let Some(entry) = self.entries.get(&new.name) else { return };
        if entry.selection.is_err() || !is_of_status_only(&entry.record, new) {
            return;
        }
        let is_kept =
            |address| self.vips.get(address).is_some_and(|vip| vip.accepts(&new.name) != Acceptance::Refused);
        let clears = !entry.for_status.iter().any(is_kept);
        if let Some(turn) = turn(&entry.record, new, clears) {
            self.turns.entry(new.name.clone()).or_default().add(turn);
        }
    }

    pub(super) fn is_contested(&self, service: &ServiceName) -> bool {
        self.turns.get(service).is_some_and(Turns::is_contest)
    }
}

/// Returns another controller's turn between two records. `clears` is true
/// if this agent is to remove its own addresses.
fn turn(old: &ServiceRecord, new: &ServiceRecord, clears: bool) -> Option<Turn> {
    let named = |manager: Option<&str>| manager.map(Into::into);
    match (old.status_owner(), new.status_owner()) {
        // MetalLB's controller, which Vipward replaces, still runs.
        (StatusOwner::Vipward, StatusOwner::Vipward)
            if new.status_from_metallb && !old.status_from_metallb =>
        {
            Some(Turn { from: Some(FIELD_MANAGER.into()), by: named(new.status_manager.as_deref()) })
        }
        (StatusOwner::Vipward, StatusOwner::Other(by)) => {
            Some(Turn { from: Some(FIELD_MANAGER.into()), by: named(by) })
        }
        // The author of a removal is unknown.
        (StatusOwner::Vipward, StatusOwner::Nobody) if !clears => {
            Some(Turn { from: Some(FIELD_MANAGER.into()), by: None })
        }
        (StatusOwner::Other(from), StatusOwner::Other(by)) if from != by => {
            Some(Turn { from: named(from), by: named(by) })
        }
        (StatusOwner::Nobody | StatusOwner::Other(_), _)
        | (StatusOwner::Vipward, StatusOwner::Nobody | StatusOwner::Vipward) => None,
    }
}

/// Returns true if only the status has changed.
fn is_of_status_only(old: &ServiceRecord, new: &ServiceRecord) -> bool {
    let ServiceRecord { version, ingress, status_manager, status_shared, status_from_metallb, .. } =
        old.clone();
    ServiceRecord { version, ingress, status_manager, status_shared, status_from_metallb, ..new.clone() }
        == *old
}

/// Returns the problems of a Service that another controller serves too, or has taken over.
pub(super) fn look(entry: &ServiceEntry, turns: Option<&Turns>, settings: &Settings) -> Vec<Problem> {
    match entry.selection {
        Ok(()) => {}
        Err(Unselected::Class) if entry.was_ours => {
            let (class, ours) = (entry.record.class.clone(), Arc::clone(&settings.class));
            return vec![Problem::HandedOver { class, ours }];
        }
        Err(_) => return Vec::new(),
    }
    let way_out = way_out(&entry.record, settings);
    let mut problems = Vec::new();
    if let Some(controller) = entry.record.other_controller.filter(|_| entry.record.class.is_none()) {
        problems.push(Problem::OtherController { controller, way_out: way_out.clone() });
    }
    if let Some(turns) = turns.filter(|turns| turns.is_contest()) {
        let managers = turns.managers.iter().cloned().collect();
        problems.push(Problem::Contested { managers, way_out });
    }
    problems
}

/// Returns the way to a single controller for a Service.
pub(super) fn way_out(record: &ServiceRecord, settings: &Settings) -> WayOut {
    let (ours, is_set) = (Arc::clone(&settings.class), record.class.is_some());
    WayOut { ours, is_set, is_from_metallb: record.status_from_metallb }
}
