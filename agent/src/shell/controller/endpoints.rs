//! The controller's HTTP endpoints: `/metrics`, `/livez` and `/readyz`.
//!
//! The one task that decides updates the shared status in each of its rounds. The endpoints read that
//! status, so that a request never waits for the API server.

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
use crate::shell::endpoints::{
    Check, EndpointsError, accepted,
    metrics::{ControllerMetrics, ControllerSnapshot},
    report, serve,
};

struct Status {
    snapshot: ControllerSnapshot,
    /// The time of its last round.
    round: Instant,
    /// The reason why the leader's Lease could not be read or written the last time.
    lease: Option<String>,
    /// The reason why a leader does not decide yet.
    lists: Option<String>,
}

/// The state that the deciding task shares with the endpoints.
pub(super) struct SharedStatus {
    pub(super) metrics: ControllerMetrics,
    inner: Mutex<Status>,
    /// The longest time between two rounds: a round reads or writes the Lease at most twice.
    patience: Duration,
}

impl SharedStatus {
    pub(super) fn start(name: &str, lease: Duration) -> Arc<Self> {
        let snapshot = ControllerSnapshot { name: name.to_owned(), ..ControllerSnapshot::default() };
        let inner = Status {
            snapshot,
            round: Instant::now(),
            lease: Some("the leader's Lease has not been read yet".to_owned()),
            lists: None,
        };
        Arc::new(Self {
            metrics: ControllerMetrics::default(),
            inner: Mutex::new(inner),
            patience: lease * 2,
        })
    }

    /// Serves the endpoints until the tasks are dropped.
    pub(super) async fn serve(self: &Arc<Self>, listen: &Listen) -> Result<JoinSet<()>, EndpointsError> {
        let all_live = async |State(status): State<Arc<Self>>| report("livez", &status.liveness(), None);
        let live = async |State(status): State<Arc<Self>>, Path(name): Path<String>| {
            report("livez", &status.liveness(), Some(&name))
        };
        let all_ready = async |State(status): State<Arc<Self>>| report("readyz", &status.readiness(), None);
        let ready = async |State(status): State<Arc<Self>>, Path(name): Path<String>| {
            report("readyz", &status.readiness(), Some(&name))
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

    /// Records the beginning of a round.
    pub(super) fn round(&self) {
        self.with(|inner| inner.round = Instant::now());
    }

    /// Records whether the leader's Lease could be read and written; if not, with the reason.
    pub(super) fn lease(&self, trouble: Option<String>) {
        self.with(|inner| inner.lease = trouble);
    }

    /// Records that this process leads, and the reason why it does not decide yet.
    pub(super) fn leads(&self, lists: Option<String>) {
        self.with(|inner| {
            inner.snapshot.leads = true;
            inner.lists = lists;
        });
    }

    /// Changes the state of pools and Services in `/metrics`.
    pub(super) fn show(&self, change: impl FnOnce(&mut ControllerSnapshot)) {
        self.with(|inner| change(&mut inner.snapshot));
    }

    fn with<T>(&self, look: impl FnOnce(&mut Status) -> T) -> T {
        look(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn liveness(&self) -> Vec<Check> {
        let silent = self.with(|inner| inner.round.elapsed());
        if silent <= self.patience {
            return vec![Check::ok("event-loop")];
        }
        vec![Check::failed("event-loop", format!("no round has begun for {} s", silent.as_secs()))]
    }

    fn readiness(&self) -> Vec<Check> {
        let mut checks = self.liveness();
        let (lease, lists) = self.with(|inner| (inner.lease.clone(), inner.lists.clone()));
        checks.push(Check::of("lease", lease.into_iter().collect()));
        checks.push(Check::of("lists", lists.into_iter().collect()));
        checks
    }
}

async fn metrics(State(status): State<Arc<SharedStatus>>, headers: HeaderMap) -> Response {
    let format = accepted(&headers);
    let snapshot = status.with(|inner| inner.snapshot.clone());
    match status.metrics.page(format, snapshot) {
        Ok(page) => ([(header::CONTENT_TYPE, format.content_type())], page).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

#[cfg(test)]
mod tests;
