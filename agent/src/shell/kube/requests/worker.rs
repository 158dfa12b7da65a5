//! The worker of one lane: sends its requests, and translates the answers for the core.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use vipward_core::ownership::Outcome;

use crate::shell::kube::{
    call::Call, connect::ConnectError, error::RequestError, http::Connections, read_error::ReadError,
    resource::Resource, shared::Kube,
};

#[cfg(test)]
mod tests;

/// Time before a request that was refused with 429 is sent again, if the API server names none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A sender of the requests of one lane.
pub(super) struct Worker {
    pub(super) kube: Kube,
    connections: Connections,
    /// The deadline of one job.
    limit: Duration,
}

impl Worker {
    pub(super) fn open(kube: &Kube, limit: Duration) -> Result<Self, ConnectError> {
        Ok(Self { kube: kube.clone(), connections: Connections::open(&kube.server)?, limit })
    }

    /// Returns the deadline of a job that begins now.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.limit
    }

    /// Sends a request. Sends it again after a 429 if there is time.
    pub(super) async fn ask(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        loop {
            let answer = self.ask_once(call.clone(), deadline).await;
            let Err(RequestError::Refused { status, retry_after }) = &answer else { return answer };
            let pause = retry_after.unwrap_or(RETRY_AFTER).mul_f64(1.0 + fastrand::f64() / 4.0);
            if status.code != 429 || Instant::now() + pause >= deadline {
                return answer;
            }
            sleep(pause).await;
        }
    }

    pub(super) async fn ask_once(&self, call: Call, deadline: Instant) -> Result<String, RequestError> {
        self.connections.ask(call, deadline.saturating_duration_since(Instant::now())).await
    }
}

/// Returns the outcome for the core of a request without a good answer.
///
/// | answer | outcome |
/// |---|---|
/// | 409 | conflict |
/// | 404 | missing; refused if the type is unknown, or the namespace at a creation |
/// | 429 | unknown. It was certainly not carried out, but there was no time to ask again |
/// | 5xx, 408, no answer in time, a connection that fails, an unreadable answer | unknown |
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
