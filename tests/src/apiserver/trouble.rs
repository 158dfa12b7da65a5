//! Trouble on demand: a selection of requests, and an effect on them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::watch;

use super::request::{Action, Verb};

/// A selection of requests. A criterion that it does not state matches any request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matching {
    user: Option<String>,
    verbs: Vec<Verb>,
    resource: Option<String>,
}

impl Matching {
    pub fn any() -> Self {
        Self::default()
    }

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

    /// Selects the requests that change an object.
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

    /// Returns true if a request is selected.
    pub(super) fn matches(&self, user: &str, action: &Action) -> bool {
        self.user.as_ref().is_none_or(|wanted| wanted == user)
            && (self.verbs.is_empty() || self.verbs.contains(&action.verb))
            && self.resource.as_ref().is_none_or(|wanted| *wanted == action.qualified_resource())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// A request that is done after this time.
    Delay(Duration),
    /// A request that is not done, with an answer of this status (429 with `Retry-After`).
    Answer(u16),
    /// A request that is not done, with a connection that is closed without an answer.
    Drop,
    /// A request that is done, with a connection that is closed without an answer.
    DropAnswer,
    /// A request that is not done, and never gets an answer.
    Hang,
}

/// The share of the selected requests that meets trouble.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Often {
    /// All of them.
    Always,
    /// The next ones, this number.
    Next(u32),
    /// This fraction of them, drawn with a fixed seed.
    Fraction(f64),
}

impl Often {
    /// Returns true if the next request meets trouble, and counts it.
    fn happens(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::Always => true,
            Self::Next(0) => false,
            Self::Next(left) => {
                *left -= 1;
                true
            }
            Self::Fraction(fraction) => rng.f64() < *fraction,
        }
    }
}

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
    rng: Rng,
}

#[derive(Debug, Default)]
pub(super) struct Troubles {
    state: Mutex<State>,
    /// A channel that changes when a stall begins or ends.
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
        state.troubles.push(Trouble { id, matching, effect, often, rng: Rng::with_seed(id.0) });
        id
    }

    pub(super) fn stall(&self, matching: Matching) -> TroubleId {
        let mut state = self.state();
        let id = state.new_id();
        state.stalls.push((id, matching));
        drop(state);
        self.recheck_stalls();
        id
    }

    pub(super) fn end(&self, id: TroubleId) {
        let mut state = self.state();
        state.troubles.retain(|trouble| trouble.id != id);
        state.stalls.retain(|(stall, _)| *stall != id);
        drop(state);
        self.recheck_stalls();
    }

    pub(super) fn end_all(&self) {
        let mut state = self.state();
        state.troubles.clear();
        state.stalls.clear();
        drop(state);
        self.recheck_stalls();
    }

    /// Returns the trouble of this request, and counts it.
    pub(super) fn meet(&self, user: &str, action: &Action) -> Met {
        let mut state = self.state();
        let mut met = Met::default();
        for trouble in state.troubles.iter_mut().filter(|trouble| trouble.matching.matches(user, action)) {
            let mut happens = || trouble.often.happens(&mut trouble.rng);
            match trouble.effect {
                Effect::Delay(delay) => {
                    met.delay += if happens() { delay } else { Duration::ZERO };
                }
                Effect::Answer(_) | Effect::Drop | Effect::DropAnswer | Effect::Hang => {
                    // An effect is not used up if an earlier effect prevails.
                    if met.effect.is_none() && happens() {
                        met.effect = Some(trouble.effect);
                    }
                }
            }
        }
        met
    }

    /// Returns true if this watch is stalled.
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
