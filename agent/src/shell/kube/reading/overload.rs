//! Times at which nodes write very many claims, as at a cold start.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

#[cfg(test)]
mod tests;

/// Number of claims in a [`WINDOW`] that everyday changes do not reach.
const MANY: u32 = 50;
/// Time for which claims are counted, and for which an overload lasts after the last such number.
const WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Overload(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The beginning of the window, and the number of claims in it.
    window: Option<(Instant, u32)>,
    /// The last time at which there were many in a window.
    many: Option<Instant>,
    since: Option<Instant>,
}

impl Overload {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("invariant: no thread panics with this lock")
    }

    pub(crate) fn count(&self, now: Instant) {
        let mut state = self.state();
        let window = state.window.filter(|(begun, _)| now.duration_since(*begun) < WINDOW);
        let (begun, claims) = window.unwrap_or((now, 0));
        state.window = Some((begun, claims + 1));
        if claims + 1 >= MANY {
            state.many = Some(now);
        }
    }

    /// Returns the time for which the overload has lasted without a pause. `waits` is true if claims of
    /// this node wait for their turn. That is an overload too, whatever number is written.
    pub(crate) fn lasts(&self, waits: bool, now: Instant) -> Option<Duration> {
        let mut state = self.state();
        let is_overload = waits || state.many.is_some_and(|many| now.duration_since(many) < WINDOW);
        if !is_overload {
            state.since = None;
            return None;
        }
        Some(now.duration_since(*state.since.get_or_insert(now)))
    }
}
