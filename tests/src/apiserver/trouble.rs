//! Trouble on demand: which requests meet it, and what it does to them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::request::{Action, Verb};

/// A selection of requests; what it does not state may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matching {
    user: Option<String>,
    verbs: Vec<Verb>,
    resource: Option<String>,
}

impl Matching {
    /// Selects every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Selects the requests of this user.
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Selects the requests with this verb; of several verbs, any matches.
    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Selects the requests that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        [Verb::Create, Verb::Patch, Verb::Delete].into_iter().fold(self, Self::verb)
    }

    /// Selects the requests about this resource: the plural, with its subresource (`leases`,
    /// `services/status`).
    #[must_use]
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Returns whether a request is selected.
    pub(super) fn matches(&self, user: &str, action: &Action) -> bool {
        self.user.as_ref().is_none_or(|wanted| wanted == user)
            && (self.verbs.is_empty() || self.verbs.contains(&action.verb))
            && self.resource.as_ref().is_none_or(|wanted| *wanted == action.qualified_resource())
    }
}

/// An effect on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is done after this time.
    Delay(Duration),
    /// It is not done, and the answer has this status (429 with `Retry-After`).
    Answer(u16),
    /// It is not done, and the connection is closed without an answer.
    Drop,
    /// It is done, and the connection is closed without an answer.
    DropAnswer,
    /// It is not done, and there is never an answer.
    Hang,
}

/// The share of the selected requests that meets trouble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Often {
    /// All of them.
    Always,
    /// The next so many.
    Next(u32),
    /// This fraction of them, at random.
    Fraction(f64),
}

impl Often {
    /// Returns whether the next request meets trouble, and counts it.
    fn happens(&mut self) -> bool {
        match self {
            Self::Always => true,
            Self::Next(0) => false,
            Self::Next(left) => {
                *left -= 1;
                true
            }
            Self::Fraction(fraction) => fastrand::f64() < *fraction,
        }
    }
}

/// Names one trouble, to end it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TroubleId(u64);

/// The trouble of one request: the sum of all delays, and the first of the other effects.
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

/// All trouble that is going on.
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

    /// Starts trouble for requests.
    pub(super) fn begin(&self, matching: Matching, effect: Effect, often: Often) -> TroubleId {
        let mut state = self.state();
        let id = state.new_id();
        state.troubles.push(Trouble { id, matching, effect, often });
        id
    }

    /// Starts to stall watches.
    pub(super) fn stall(&self, matching: Matching) -> TroubleId {
        let mut state = self.state();
        let id = state.new_id();
        state.stalls.push((id, matching));
        drop(state);
        self.recheck_stalls();
        id
    }

    /// Ends one trouble or stall.
    pub(super) fn end(&self, id: TroubleId) {
        let mut state = self.state();
        state.troubles.retain(|trouble| trouble.id != id);
        state.stalls.retain(|(stall, _)| *stall != id);
        drop(state);
        self.recheck_stalls();
    }

    /// Ends all trouble and all stalls.
    pub(super) fn end_all(&self) {
        let mut state = self.state();
        state.troubles.clear();
        state.stalls.clear();
        drop(state);
        self.recheck_stalls();
    }

    /// Returns what this request meets, and counts it.
    pub(super) fn meet(&self, user: &str, action: &Action) -> Met {
        let mut state = self.state();
        let mut met = Met::default();
        for trouble in state.troubles.iter_mut().filter(|trouble| trouble.matching.matches(user, action)) {
            match trouble.effect {
                Effect::Delay(delay) => {
                    met.delay += if trouble.often.happens() { delay } else { Duration::ZERO };
                }
                Effect::Answer(_) | Effect::Drop | Effect::DropAnswer | Effect::Hang => {
                    // An effect that another one has forestalled is not used up.
                    if met.effect.is_none() && trouble.often.happens() {
                        met.effect = Some(trouble.effect);
                    }
                }
            }
        }
        met
    }

    /// Returns whether this watch delivers nothing at the moment.
    pub(super) fn is_stalled(&self, user: &str, action: &Action) -> bool {
        self.state().stalls.iter().any(|(_, matching)| matching.matches(user, action))
    }

    /// Makes every watch check again whether it is stalled.
    pub(super) fn recheck_stalls(&self) {
        self.stalls_changed.send_modify(|generation| *generation += 1);
    }

    /// Returns a receiver that changes when a watch has to check whether it is stalled.
    pub(super) fn stalls(&self) -> watch::Receiver<u64> {
        self.stalls_changed.subscribe()
    }
}
