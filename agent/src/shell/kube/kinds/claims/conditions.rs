//! The state and the conditions in the status of a claim's object.

use k8s_openapi::jiff::Timestamp;
use vipward_core::{
    base::legible,
    diagnosis::overview::VipState,
    records::{ClaimNote, ClaimState, NoAnswer},
    reports::unanswered::Unanswered,
};

use super::known::Known;
use crate::shell::kube::kinds::{
    condition::{Condition, Truth},
    text,
};

/// The condition of a VIP that a node holds, and answers for.
pub(super) const HELD: &str = "Held";
/// The condition of a VIP that is not where it is wanted.
pub(super) const TROUBLE: &str = "Trouble";
/// The condition of a VIP that another host claims on the segment.
pub(super) const CONFLICT: &str = "Conflict";

/// Returns the state that `kubectl get vip` shows.
pub(super) fn shown_state(state: &ClaimState, unanswered: Option<&NoAnswer>) -> VipState {
    match (state, unanswered) {
        (ClaimState::Held(_), None) => VipState::Held,
        (ClaimState::Held(_), Some(reason)) if reason.word == Unanswered::SESSION_ENDED => {
            VipState::SessionEnded
        }
        (ClaimState::Held(_), Some(_)) => VipState::NotAnswered,
        (ClaimState::Offered { .. }, _) => VipState::HandingOver,
        (ClaimState::Released, _) => VipState::Released,
        (ClaimState::Blank, _) => VipState::Unheld,
    }
}

/// Returns the status and the reason of the condition `Held` of a claim whose holder answers.
pub(super) fn held_reason(state: &ClaimState) -> (Truth, &'static str) {
    match state {
        ClaimState::Held(_) => (Truth::True, "Held"),
        ClaimState::Offered { .. } => (Truth::True, "HandingOver"),
        ClaimState::Released => (Truth::False, "Released"),
        ClaimState::Blank => (Truth::False, "Blank"),
    }
}

pub(super) fn held_condition(
    state: &ClaimState,
    note: &ClaimNote,
    unanswered: Option<&NoAnswer>,
    before: Option<(Truth, Timestamp)>,
    now: Timestamp,
) -> Condition {
    if let Some(NoAnswer { word, message }) = unanswered {
        return condition(HELD, Truth::False, word, message, before, now);
    }
    let (status, reason) = held_reason(state);
    let message = note.trouble.as_ref().filter(|_| status == Truth::False).unwrap_or(&note.cause);
    condition(HELD, status, reason, message, before, now)
}

pub(super) fn trouble_condition(note: &ClaimNote, known: Option<&Known>, now: Timestamp) -> Condition {
    let before = known.and_then(|known| known.trouble);
    match &note.trouble {
        Some(trouble) => condition(TROUBLE, Truth::True, "NotWhereWanted", trouble, before, now),
        None => condition(TROUBLE, Truth::False, "None", "", before, now),
    }
}

pub(super) fn condition(
    kind: &str,
    status: Truth,
    reason: &str,
    message: &str,
    before: Option<(Truth, Timestamp)>,
    now: Timestamp,
) -> Condition {
    let unchanged = before.filter(|(was, _)| *was == status);
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: legible::message(message),
        last_transition_time: text::time(unchanged.map_or(now, |(_, since)| since)),
        observed_generation: None,
    }
}
