//! The controller's pages: `/metrics`, `/livez` and `/readyz`.
//!
//! The one task that decides leaves its state on the board in each of its rounds. The pages tell what
//! is there, so that a request never waits for the API server.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::{task::JoinSet, time::Instant};

use crate::cli::Listen;
use crate::shell::pages::{
    Check, PagesError, accepted,
    metrics::{ControllerMetrics, ControllerSnapshot},
    report, serve,
};

/// What the deciding task says of itself.
struct Said {
    snapshot: ControllerSnapshot,
    /// The time of its last round.
    round: Instant,
    /// The reason why the leader's Lease could not be read or written the last time.
    lease: Option<String>,
    /// The reason why a leader does not decide yet.
    lists: Option<String>,
}

/// The state that the deciding task shares with the pages.
pub(super) struct Board {
    pub(super) metrics: ControllerMetrics,
    said: Mutex<Said>,
    /// The longest time between two rounds: a round asks for the Lease at most twice.
    patience: Duration,
}

impl Board {
    pub(super) fn start(name: &str, lease: Duration) -> Arc<Self> {
        let snapshot = ControllerSnapshot { name: name.to_owned(), ..ControllerSnapshot::default() };
        let said = Said {
            snapshot,
            round: Instant::now(),
            lease: Some("the leader's Lease has not been read yet".to_owned()),
            lists: None,
        };
        Arc::new(Self { metrics: ControllerMetrics::default(), said: Mutex::new(said), patience: lease * 2 })
    }

    /// Serves the pages until the tasks are dropped.
    pub(super) async fn serve(self: &Arc<Self>, listen: &Listen) -> Result<JoinSet<()>, PagesError> {
        let all_live = async |State(board): State<Arc<Self>>| report("livez", &board.liveness(), None);
        let live = async |State(board): State<Arc<Self>>, Path(name): Path<String>| {
            report("livez", &board.liveness(), Some(&name))
        };
        let all_ready = async |State(board): State<Arc<Self>>| report("readyz", &board.readiness(), None);
        let ready = async |State(board): State<Arc<Self>>, Path(name): Path<String>| {
            report("readyz", &board.readiness(), Some(&name))
        };
        let router = Router::new()
            .route("/livez", get(all_live))
            .route("/livez/{check}", get(live))
            .route("/readyz", get(all_ready))
            .route("/readyz/{check}", get(ready))
            .route("/metrics", get(metrics))
            .with_state(Arc::clone(self));
        serve(listen, &router).await
    }

    /// Notes that a round of the deciding task begins.
    pub(super) fn round(&self) {
        self.with(|said| said.round = Instant::now());
    }

    /// Notes why the leader's Lease could not be read or written, or that it could.
    pub(super) fn lease(&self, trouble: Option<String>) {
        self.with(|said| said.lease = trouble);
    }

    /// Notes that this process leads, and why it does not decide yet.
    pub(super) fn leads(&self, lists: Option<String>) {
        self.with(|said| {
            said.snapshot.leads = true;
            said.lists = lists;
        });
    }

    /// Changes what `/metrics` says of pools and Services.
    pub(super) fn show(&self, change: impl FnOnce(&mut ControllerSnapshot)) {
        self.with(|said| change(&mut said.snapshot));
    }

    fn with<T>(&self, look: impl FnOnce(&mut Said) -> T) -> T {
        look(&mut self.said.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn liveness(&self) -> Vec<Check> {
        let silent = self.with(|said| said.round.elapsed());
        if silent <= self.patience {
            return vec![Check::ok("event-loop")];
        }
        vec![Check::failed("event-loop", format!("no round has begun for {} s", silent.as_secs()))]
    }

    fn readiness(&self) -> Vec<Check> {
        let mut checks = self.liveness();
        let (lease, lists) = self.with(|said| (said.lease.clone(), said.lists.clone()));
        checks.push(Check::of("lease", lease.into_iter().collect()));
        checks.push(Check::of("lists", lists.into_iter().collect()));
        checks
    }
}

async fn metrics(State(board): State<Arc<Board>>, headers: HeaderMap) -> Response {
    let format = accepted(&headers);
    let snapshot = board.with(|said| said.snapshot.clone());
    match board.metrics.page(format, snapshot) {
        Ok(page) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;
