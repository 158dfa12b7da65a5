//! Connections to the API server: each request has a deadline, and one result.
//!
//! kube's `Client` sends. Its `request_text` is not used for single answers: it hides the header
//! `Retry-After`, has no limit for the length, and holds each answer twice.

use std::{sync::Mutex, time::Duration};

use futures::{StreamExt as _, stream::BoxStream};
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    client::Body,
    core::{Status, WatchEvent},
};
use serde_json::value::RawValue;
use tokio::time::timeout;
use vipward_core::base::legible::Excerpt;

use super::{
    call::Call,
    connect::{ConnectError, Server},
    error::{ConnectionError, RequestError},
};

#[cfg(test)]
mod tests;

/// Length of the longest answer that is read, in bytes. A page of the largest objects that the API
/// server stores is far shorter.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// Length to which the text of a refusal is cut, in characters, when it may be a page of HTML.
const MAX_TEXT: usize = 512;

/// The events of a watch. A drop ends the watch. Waiting for the next event is safe to cancel.
pub(crate) type Events = BoxStream<'static, Result<WatchEvent<Box<RawValue>>, RequestError>>;

/// Connections to the API server for one purpose.
pub(crate) struct Connections {
    server: Server,
    current: Mutex<Numbered>,
}

struct Numbered {
    number: u64,
    /// The number of the credentials.
    credentials: u64,
    client: Client,
}

impl Connections {
    pub(crate) fn open(server: &Server) -> Result<Self, ConnectError> {
        let (credentials, client) = server.connect()?;
        let current = Mutex::new(Numbered { number: 0, credentials, client });
        Ok(Self { server: server.clone(), current })
    }

    /// Returns the text of a good answer, if it comes completely within `limit`.
    pub(crate) async fn send(&self, call: Call, limit: Duration) -> Result<String, RequestError> {
        let server = self.server.url();
        self.within(call, limit, async |client, request| {
            let answer = client.send(request.map(Body::from)).await;
            read(answer.map_err(|error| failed(&server, error))?, &server).await
        })
        .await
    }

    /// Returns the events of a watch, if it begins within `limit`.
    pub(crate) async fn watch(&self, call: Call, limit: Duration) -> Result<Events, RequestError> {
        let server = self.server.url();
        self.within(call, limit, async |client, request| match client.request_events(request).await {
            Ok(events) => Ok(events.map(move |event| event.map_err(|error| failed(&server, error))).boxed()),
            Err(error) => Err(failed(&server, error)),
        })
        .await
    }

    /// Runs `send` within `limit`, and counts the request and a failure.
    async fn within<T>(
        &self,
        Call { resource, verb, request }: Call,
        limit: Duration,
        send: impl AsyncFnOnce(Client, Request<Vec<u8>>) -> Result<T, RequestError>,
    ) -> Result<T, RequestError> {
        self.server.requests().sent(resource, verb);
        let (number, client) = self.current();
        let answer = timeout(limit, send(client, request)).await.unwrap_or_else(|_| {
            self.replace(number);
            Err(RequestError::Deadline { server: self.server.url(), limit })
        });
        answer.inspect_err(|error| self.server.requests().failed(resource, error.kind()))
    }

    /// Returns the present connections: new ones if the credentials have changed. A watch keeps the
    /// connection on which it began.
    fn current(&self) -> (u64, Client) {
        let credentials = self.server.credentials();
        let mut current = self.current.lock().expect("invariant: no thread panics with this lock");
        if current.credentials != credentials {
            self.renew(&mut current);
        }
        (current.number, current.client.clone())
    }

    /// Opens new connections for the next request: if one hangs, all may be dead.
    fn replace(&self, number: u64) {
        let mut current = self.current.lock().expect("invariant: no thread panics with this lock");
        if current.number == number {
            self.renew(&mut current);
        }
    }

    fn renew(&self, current: &mut Numbered) {
        if let Ok((credentials, client)) = self.server.connect() {
            *current = Numbered { number: current.number + 1, credentials, client };
        }
    }
}

/// Returns the text of a good answer, or else the refusal.
async fn read(answer: Response<Body>, server: &str) -> Result<String, RequestError> {
    let status = answer.status();
    let header = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let text = collect(answer.into_body(), server).await;
    if status.is_success() { text } else { Err(refusal(status, &text.unwrap_or_default(), header)) }
}

/// Returns the error that a refusal describes.
fn refusal(code: StatusCode, text: &str, retry_after_seconds: Option<u32>) -> RequestError {
    let parsed = serde_json::from_str::<Status>(text).ok().filter(|parsed| parsed.code != 0);
    let mut status = parsed.unwrap_or_else(|| {
        let words = text.trim();
        let words = if words.is_empty() { code.to_string() } else { words.to_owned() };
        Status::failure(&words, "")
    });
    shorten(&mut status);
    let details = status.details.as_ref().map(|details| details.retry_after_seconds);
    let retry_after = retry_after_seconds.or(details.filter(|seconds| *seconds > 0));
    RequestError::Refused {
        status: status.with_code(code.as_u16()).boxed(),
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

/// Shortens the API server's message, which repeats values of users.
fn shorten(status: &mut Status) {
    status.message = Excerpt::of(&status.message, MAX_TEXT).to_string();
}

fn failed(server: &str, error: kube::Error) -> RequestError {
    match error {
        kube::Error::Api(mut status) => {
            shorten(&mut status);
            RequestError::Refused { status, retry_after: None }
        }
        kube::Error::SerdeError(source) => RequestError::Unreadable(source),
        error => RequestError::Connection { server: server.to_owned(), source: ConnectionError::new(error) },
    }
}

async fn collect(mut body: Body, server: &str) -> Result<String, RequestError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(server, error))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > MAX_ANSWER {
            return Err(RequestError::TooLong { limit_bytes: MAX_ANSWER });
        }
    }
    String::from_utf8(bytes).map_err(RequestError::NotText)
}
