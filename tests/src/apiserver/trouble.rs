//! Trouble on demand: which requests meet it, and what it does to them.

#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::request::{Action, Verb};

/// Which requests are meant; what is not said may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matching {
    user: Option<String>,
    verbs: Vec<Verb>,
    resource: Option<String>,
    name: Option<String>,
}

impl Matching {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those of this user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Those with this verb; said several times, with any of them.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Those that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection]
            .into_iter()
            .fold(self, Self::verb)
    }

    /// Those about this resource: the plural, with its subresource (`leases`, `services/status`).
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Those about the object of this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    pub(super) fn matches(&self, user: &str, action: &Action) -> bool {
        self.user.as_ref().is_none_or(|wanted| wanted == user)
            && (self.verbs.is_empty() || self.verbs.contains(&action.verb))
            && self.resource.as_ref().is_none_or(|wanted| *wanted == action.qualified_resource())
            && self.name.as_ref().is_none_or(|wanted| *wanted == action.name)
    }
}

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is done, this much later.
    Delay(Duration),
    /// It is not done, and the answer has this status (429 with `Retry-After`).
    Answer(u16),
    /// It is not done, and the connection is closed without an answer.
    Drop,
    /// It is done, and the connection is closed without an answer.
    DropAnswer,
    /// It is done at once, and the answer comes this much later: watches are faster.
    DelayAnswer(Duration),
    /// It is not done, and there is never an answer.
    Hang,
}

/// How many of the requests that match are met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Often {
    /// All of them.
    Always,
    /// The next so many.
    Next(u32),
    /// This fraction of them, at random.
    Fraction(f64),
}

/// Names one trouble, to end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TroubleId(u64);

/// What a request meets: the sum of the delays, then the first of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) delay: Duration,
    pub(super) effect: Option<Effect>,
}

#[derive(Debug)]
struct Trouble {
    id: TroubleId,
    matching: Matching,
    effect: Effect,
    often: Often,
}

/// All trouble that there is.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    state: Mutex<State>,
    /// Moves when a stall begins or ends.
    stalls_changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    last_id: u64,
    troubles: Vec<Trouble>,
    stalls: Vec<(TroubleId, Matching)>,
}

impl State {
    fn new_id(&mut self) -> TroubleId {
        self.last_id += 1;
        TroubleId(self.last_id)
    }
}

impl Troubles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, matching: Matching, effect: Effect, often: Often) -> TroubleId {
        let mut state = self.state();
        let id = state.new_id();
        state.troubles.push(Trouble { id, matching, effect, often });
        id
    }

    pub(super) fn stall(&self, matching: Matching) -> TroubleId {
        let mut state = self.state();
        let id = state.new_id();
        state.stalls.push((id, matching));
        drop(state);
        self.stalls_may_have_changed();
        id
    }

    pub(super) fn end(&self, id: TroubleId) {
        let mut state = self.state();
        state.troubles.retain(|trouble| trouble.id != id);
        state.stalls.retain(|(stall, _)| *stall != id);
        drop(state);
        self.stalls_may_have_changed();
    }

    pub(super) fn end_all(&self) {
        let mut state = self.state();
        state.troubles.clear();
        state.stalls.clear();
        drop(state);
        self.stalls_may_have_changed();
    }

    /// What this request meets.
    pub(super) fn meet(&self, user: &str, action: &Action) -> Met {
        let mut state = self.state();
        let mut met = Met::default();
        for trouble in state.troubles.iter_mut().filter(|trouble| trouble.matching.matches(user, action)) {
            if met.effect.is_some() && !matches!(trouble.effect, Effect::Delay(_)) {
                continue;
            }
            let happens = match &mut trouble.often {
                Often::Always => true,
                Often::Next(0) => false,
                Often::Next(left) => {
                    *left -= 1;
                    true
                }
                Often::Fraction(fraction) => fastrand::f64() < *fraction,
            };
            match trouble.effect {
                Effect::Delay(delay) if happens => met.delay += delay,
                Effect::Answer(_)
                | Effect::Drop
                | Effect::DropAnswer
                | Effect::DelayAnswer(_)
                | Effect::Hang
                    if happens =>
                {
                    met.effect = Some(trouble.effect);
                }
                Effect::Delay(_)
                | Effect::Answer(_)
                | Effect::Drop
                | Effect::DropAnswer
                | Effect::DelayAnswer(_)
                | Effect::Hang => {}
            }
        }
        met
    }

    /// Whether this watch delivers nothing at the moment.
    pub(super) fn is_stalled(&self, user: &str, action: &Action) -> bool {
        self.state().stalls.iter().any(|(_, matching)| matching.matches(user, action))
    }

    /// Lets every watch look again whether it is stalled.
    pub(super) fn stalls_may_have_changed(&self) {
        self.stalls_changed.send_modify(|generation| *generation += 1);
    }

    /// Tells when a stall begins or ends.
    pub(super) fn stalls(&self) -> watch::Receiver<u64> {
        self.stalls_changed.subscribe()
    }
}
