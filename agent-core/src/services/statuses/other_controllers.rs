//! Detection of another controller that serves a Service too, or has taken it over.
//!
//! Only the turns at a status are remembered, until it has been left
//! alone for a while. All other signs are in the Service itself.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::super::{
    FIELD_MANAGER, Problem, ServiceRecord, Settings, StatusOwner, WayOut,
    reading::{Selection, Unselected},
};
use crate::base::time::Monotonic;

/// Number of turns that make a contest. Fewer turns are a takeover, or a repair by hand.
const CONTEST: u32 = 3;
/// Quiet time that ends a contest. Single turns are forgotten after it too.
const QUIET: Duration = Duration::from_mins(5);
/// Largest number of field managers that are listed.
const MOST_MANAGERS: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct Turns {
    count: u32,
    managers: BTreeSet<Arc<str>>,
    /// Time of the last turn. None until the time is known.
    last: Option<Monotonic>,
}

/// The field managers before and after the last turn. None for a manager without a name.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Turn {
    from: Option<Arc<str>>,
    by: Option<Arc<str>>,
}

impl Turns {
    pub(crate) fn add(&mut self, Turn { from, by }: Turn) {
        self.count = self.count.saturating_add(1);
        self.last = None;
        for manager in [from, by].into_iter().flatten() {
            if self.managers.len() < MOST_MANAGERS {
                self.managers.insert(manager);
            }
        }
    }

    pub(crate) fn is_contest(&self) -> bool {
        self.count >= CONTEST
    }

    /// Returns true unless the status has been left alone for long enough.
    pub(crate) fn stand(&mut self, now: Monotonic) -> bool {
        now < *self.last.get_or_insert(now) + QUIET
    }

    pub(crate) fn deadline(&self) -> Monotonic {
        self.last.map_or_else(Monotonic::default, |last| last + QUIET)
    }
}

/// Returns another controller's turn between two records. `clears` is true
/// if this agent is to remove its own addresses.
pub(crate) fn turn(old: &ServiceRecord, new: &ServiceRecord, clears: bool) -> Option<Turn> {
    if !is_of_status_only(old, new) {
        return None;
    }
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
        (StatusOwner::Vipward, StatusOwner::Absent) if !clears => {
            Some(Turn { from: Some(FIELD_MANAGER.into()), by: None })
        }
        (StatusOwner::Other(from), StatusOwner::Other(by)) if from != by => {
            Some(Turn { from: named(from), by: named(by) })
        }
        (StatusOwner::Absent | StatusOwner::Other(_), _)
        | (StatusOwner::Vipward, StatusOwner::Absent | StatusOwner::Vipward) => None,
    }
}

/// Returns true if two records of a Service differ in its status and version alone.
pub(crate) fn is_of_status_only(old: &ServiceRecord, new: &ServiceRecord) -> bool {
    let new = new.clone();
    let ServiceRecord { version, ingress, status_manager, status_shared, .. } = old.clone();
    let ServiceRecord { status_since, status_from_metallb, .. } = *old;
    let status = ServiceRecord { version, ingress, status_manager, status_shared, ..new };
    ServiceRecord { status_since, status_from_metallb, ..status } == *old
}

/// Returns the problems of a Service that another controller serves too, or has taken over.
pub(crate) fn control_problems(
    record: &ServiceRecord,
    selection: Selection,
    was_ours: bool,
    turns: Option<&Turns>,
    settings: &Settings,
) -> Vec<Problem> {
    match selection {
        Ok(()) => {}
        Err(Unselected::Class) if was_ours => {
            let (class, ours) = (record.class.clone(), Arc::clone(&settings.class));
            return vec![Problem::HandedOver { class, ours }];
        }
        Err(_) => return Vec::new(),
    }
    let way_out = WayOut::of(record, &settings.class);
    let mut problems = Vec::new();
    if let Some(controller) = record.other_controller.filter(|_| record.class.is_none()) {
        problems.push(Problem::OtherController { controller, way_out: way_out.clone() });
    }
    if let Some(turns) = turns.filter(|turns| turns.is_contest()) {
        let managers = turns.managers.iter().cloned().collect();
        problems.push(Problem::Contested { managers, way_out });
    }
    problems
}
