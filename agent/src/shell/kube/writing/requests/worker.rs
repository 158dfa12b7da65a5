//! The worker of one queue: sends its requests, and translates the answers for the core.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::{Instant, sleep};
use tracing::warn;
use vipward_core::{
    base::{concurrency::Concurrency, time::Monotonic},
    ownership::Outcome,
    reports::seldom::Seldom,
};

use crate::shell::{
    kernel::clock,
    kube::{
        kinds::resource::Resource,
        link::{call::Call, connect::ConnectError, error::RequestError, http::Connections},
        reading::{read_error::ReadError, shared::Kube},
    },
    logging::errors::chain,
};

#[cfg(test)]
mod tests;

/// Time before a request that was refused with 429 is sent again, if the API server names none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Least and largest number of requests of a queue that follows the API server's load.
const AT_ONCE: (u32, u32) = (12, 64);

/// A sender of the requests of one queue.
pub(super) struct Worker {
    pub(super) kube: Kube,
    connections: Arc<Connections>,
    limit: Duration,
    load: Load,
    /// The last log line about an answer that leaves open what was done.
    open: Mutex<Seldom<(), ()>>,
}

/// The number of requests under way that the API server takes. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Load(Arc<Mutex<Concurrency>>);

impl Load {
    fn new() -> Self {
        let (least, most) = AT_ONCE;
        Self(Arc::new(Mutex::new(Concurrency::new(least, most))))
    }

    fn concurrency(&self) -> MutexGuard<'_, Concurrency> {
        self.0.lock().expect("invariant: no thread panics with this lock")
    }

    /// Returns the number of requests that may be under way.
    pub(super) fn limit(&self) -> usize {
        usize::try_from(self.concurrency().limit()).expect("invariant: the number is small")
    }

    /// Records the answer to a request, or that none came, and the time that it took. Only the time of
    /// a successful write counts, as the server's speed.
    fn record(&self, is_write: bool, answer: &Result<String, RequestError>, took: Duration) {
        let mut concurrency = self.concurrency();
        match answer {
            Ok(_) if is_write => concurrency.on_answer(took),
            Err(RequestError::Deadline { .. }) => concurrency.on_overload(),
            Err(RequestError::Refused { status, .. }) if status.code == 429 || status.code >= 500 => {
                concurrency.on_overload();
            }
            // A connection may fail for reasons other than load.
            Ok(_)
            | Err(
                RequestError::Connection { .. }
                | RequestError::Connect(_)
                | RequestError::Refused { .. }
                | RequestError::InDoubt(_)
                | RequestError::Unreadable(_)
                | RequestError::NotText(_)
                | RequestError::TooLong { .. },
            ) => {}
        }
    }
}

impl Worker {
    /// Returns a worker with connections of its own.
    pub(super) fn open(kube: &Kube, limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self::on(kube, Connections::open(&kube.server)?.into(), limit))
    }

    pub(super) fn on(kube: &Kube, connections: Arc<Connections>, limit: Duration) -> Self {
        let (kube, load, open) = (kube.clone(), Load::new(), Mutex::new(Seldom::start(1)));
        Self { kube, connections, limit, load, open }
    }

    /// Returns the load of the API server, as this worker's requests show it.
    pub(super) fn load(&self) -> Load {
        self.load.clone()
    }

    /// Returns the deadline of a job that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Sends a request. Sends it again after a 429 if there is time.
    pub(super) async fn send(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        loop {
            let answer = self.send_once(call.clone(), deadline).await;
            let Err(error @ RequestError::Refused { status, retry_after }) = &answer else { return answer };
            let pause = retry_after.unwrap_or(RETRY_AFTER).mul_f64(1.0 + fastrand::f64() / 4.0);
            if status.code != 429 || Instant::now() + pause >= deadline {
                self.log_open(error, status.code);
                return answer;
            }
            sleep(pause).await;
        }
    }

    /// Logs an answer that leaves open what was done, such as that of a webhook which fails. The core
    /// does not get its text, and the reader reports connections that fail.
    fn log_open(&self, error: &RequestError, code: u16) {
        let now = clock::monotonic_ns().map(Monotonic::from_nanos).unwrap_or_default();
        let mut open = self.open.lock().expect("invariant: no thread panics with this lock");
        if let 408 | 429 | 500.. = code
            && let Some(others) = open.on((), (), now)
        {
            warn!(
                error = chain(error),
                others, "the API server has failed to carry out a request; trying again"
            );
        }
    }

    pub(super) async fn send_once(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        let (sent_at, is_write) = (Instant::now(), call.request.method() != http::Method::GET);
        let answer = self.connections.send(call, deadline.saturating_duration_since(sent_at)).await;
        self.load.record(is_write, &answer, sent_at.elapsed());
        answer
    }
}

/// Returns the outcome for the core of a request without a good answer.
///
/// | answer | outcome |
/// |---|---|
/// | 409 | conflict |
/// | 404 | missing; refused if the type is unknown, or the namespace at a creation |
/// | 429 | unknown. It was certainly not carried out, but there was no time to ask again |
/// | 5xx, 408, no answer in time, a connection that fails, an unreadable answer, a write in doubt | unknown |
/// | any other | refused, with the API server's words |
pub(super) fn outcome<T>(error: &RequestError, resource: Resource, creating: bool) -> Outcome<T> {
    let Some(status) = error.status() else { return Outcome::Unknown };
    let unknown_type = error.is_unknown_type();
    match status.code {
        409 => Outcome::Conflict,
        404 if unknown_type && resource == Resource::VirtualIps => {
            Outcome::Refused(ReadError::NoDefinition { resource }.to_string().into())
        }
        404 if !creating && !unknown_type => Outcome::Missing,
        408 | 429 => Outcome::Unknown,
        400..500 => Outcome::Refused(status.message.as_str().into()),
        _ => Outcome::Unknown,
    }
}
