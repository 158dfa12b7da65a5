//! Finds the part of a schedule that is enough to break a promise.

use super::run::run;
use crate::schedule::{Options, Schedule};

/// Returns the schedule without the disturbances that are not needed to break the same promise.
pub fn shrink(schedule: &Schedule, options: Options) -> Schedule {
    let options = Options { trace: false, ..options };
    let Some(wanted) = run(schedule, options).violation else { return schedule.clone() };
    let breaks = |candidate: &Schedule| {
        run(candidate, options).violation.is_some_and(|violation| violation.rule == wanted.rule)
    };
    let mut shortest = schedule.clone();
    let mut chunk = shortest.disturbances.len().div_ceil(2);
    while chunk > 0 {
        let mut from = 0;
        let mut dropped = false;
        while from < shortest.disturbances.len() {
            let mut candidate = shortest.clone();
            let to = (from + chunk).min(candidate.disturbances.len());
            candidate.disturbances.drain(from..to);
            if breaks(&candidate) {
                shortest = candidate;
                dropped = true;
            } else {
                from = to;
            }
        }
        if !dropped || chunk > 1 {
            chunk /= 2;
        }
    }
    shortest
}
