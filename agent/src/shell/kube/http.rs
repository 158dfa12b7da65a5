//! Requests to the API server: each has a deadline, and one result.

use std::{sync::Mutex, time::Duration};

use http::{
    Method, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

use super::{
    connect::{ConnectError, Server},
    meta::Status,
};
use crate::shell::metrics::ApiError;

#[cfg(test)]
mod tests;

/// Longest answer that is read, in bytes: a page of objects of the largest size that the API server stores is far
/// shorter.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// The most of an answer's text that is shown when it is no Status.
const MAX_TEXT: usize = 512;

/// Why a request has no good answer.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The API server refuses.
    #[error("{code}: {message}")]
    Status {
        /// The HTTP status.
        code: u16,
        /// Its reason in one word; empty when the answer was not of the API server's form.
        reason: String,
        /// Its words.
        message: String,
        /// Causes, where it names them.
        causes: Vec<String>,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// No answer in time.
    #[error("no answer within {limit:?}")]
    Deadline {
        /// The deadline.
        limit: Duration,
    },
    /// The connection failed.
    #[error("the connection failed")]
    Connection(#[source] Box<kube::Error>),
    /// The answer is not what was asked for.
    #[error("the answer cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// The answer is not text.
    #[error("the answer is no UTF-8")]
    NotText(#[source] std::string::FromUtf8Error),
    /// The answer never ends.
    #[error("the answer is longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// No connections can be set up any more.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl RequestError {
    /// The HTTP status that the API server refused it with.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Deadline { .. }
            | Self::Connection(_)
            | Self::Unreadable(_)
            | Self::NotText(_)
            | Self::TooLong { .. }
            | Self::Connect(_) => None,
        }
    }

    /// Whether the API server answered with this HTTP status.
    pub fn is_status(&self, wanted: u16) -> bool {
        self.code() == Some(wanted)
    }

    /// What it is counted as.
    fn kind(&self) -> ApiError {
        match self {
            Self::Status { code: 404, .. } => ApiError::Missing,
            Self::Status { code: 409, .. } => ApiError::Conflict,
            Self::Status { code: 410, .. } => ApiError::Expired,
            Self::Status { code: 429, .. } => ApiError::Busy,
            Self::Status { code: 500.., .. } => ApiError::Server,
            Self::Status { .. } => ApiError::Refused,
            Self::Deadline { .. } => ApiError::Deadline,
            Self::Connection(_) | Self::Connect(_) => ApiError::Connection,
            Self::Unreadable(_) | Self::NotText(_) | Self::TooLong { .. } => ApiError::Unreadable,
        }
    }

    /// Whether the API server does not even know the type of object.
    pub fn is_unknown_type(&self) -> bool {
        // Where there is no such type, the answer is a plain text and no Status.
        matches!(self, Self::Status { code: 404, reason, .. } if reason.is_empty())
    }
}

/// A request, before it has a connection.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) content_type: &'static str,
    pub(super) body: Vec<u8>,
}

/// Content types of patches.
pub(super) const MERGE: &str = "application/merge-patch+json";
/// Server-side apply: JSON is YAML.
pub(super) const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

impl Call {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, content_type: JSON, body: Vec::new() }
    }

    pub(super) fn post(path: String, object: &Value) -> Self {
        Self { method: Method::POST, path, content_type: JSON, body: object.to_string().into_bytes() }
    }

    pub(super) fn patch(path: String, content_type: &'static str, patch: &Value) -> Self {
        Self { method: Method::PATCH, path, content_type, body: patch.to_string().into_bytes() }
    }

    pub(super) fn delete(path: String, options: &Value) -> Self {
        Self { method: Method::DELETE, path, content_type: JSON, body: options.to_string().into_bytes() }
    }

    /// What it is about: a type of object that the agent deals with.
    fn resource(&self) -> &'static str {
        const KNOWN: [&str; 9] = [
            "leases",
            "virtualips",
            "services",
            "endpointslices",
            "nodes",
            "events",
            "pods",
            "daemonsets",
            "namespaces",
        ];
        let path = self.path.split('?').next().unwrap_or_default();
        // A namespace is named before what is in it.
        KNOWN.into_iter().find(|known| path.split('/').any(|part| part == *known)).unwrap_or("other")
    }

    /// What it does, as the API server names it.
    fn verb(&self) -> &'static str {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        match self.method {
            Method::POST => "create",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ if query.contains("watch=true") => "watch",
            _ if query.contains("limit=") => "list",
            _ => "get",
        }
    }

    fn request(self) -> Request<Body> {
        Request::builder()
            .method(self.method)
            .uri(self.path)
            .header(CONTENT_TYPE, self.content_type)
            .header(ACCEPT, JSON)
            .body(Body::from(self.body))
            .expect("invariant: our paths and headers are well-formed")
    }
}

/// Connections to the API server for one purpose.
pub(super) struct Connections {
    server: Server,
    current: Mutex<Numbered>,
}

struct Numbered {
    number: u64,
    client: Client,
}

impl Connections {
    pub(super) fn open(server: &Server) -> Result<Self, ConnectError> {
        let client = server.connect()?;
        Ok(Self { server: server.clone(), current: Mutex::new(Numbered { number: 0, client }) })
    }

    /// The text of a good answer, all of it within `limit` from now.
    pub(super) async fn ask(&self, call: Call, limit: Duration) -> Result<String, RequestError> {
        let resource = self.count(&call);
        let deadline = Instant::now() + limit;
        let answer = async {
            let body = self.answer(call, deadline, limit).await?;
            match timeout_at(deadline, collect(body)).await {
                Ok(text) => text,
                Err(_) => Err(RequestError::Deadline { limit }),
            }
        };
        answer.await.inspect_err(|error| self.server.requests().failed(resource, error.kind()))
    }

    fn count(&self, call: &Call) -> &'static str {
        let resource = call.resource();
        self.server.requests().asked(resource, call.verb());
        resource
    }

    /// The body of a good answer that has begun within `limit` from now.
    pub(super) async fn stream(&self, call: Call, limit: Duration) -> Result<Body, RequestError> {
        let resource = self.count(&call);
        let answer = self.answer(call, Instant::now() + limit, limit).await;
        answer.inspect_err(|error| self.server.requests().failed(resource, error.kind()))
    }

    async fn answer(&self, call: Call, deadline: Instant, limit: Duration) -> Result<Body, RequestError> {
        let (number, client) = {
            let current = self.current.lock().expect("invariant: nobody panics with this lock");
            (current.number, current.client.clone())
        };
        let Ok(answer) = timeout_at(deadline, client.send(call.request())).await else {
            self.replace(number);
            return Err(RequestError::Deadline { limit });
        };
        let answer = answer.map_err(|error| RequestError::Connection(Box::new(error)))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        let header = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let text = match timeout_at(deadline, collect(answer.into_body())).await {
            Ok(text) => text.unwrap_or_default(),
            Err(_) => String::new(),
        };
        Err(refusal(status, &text, header))
    }

    /// Connections that let a request hang may all be dead: the next request gets new ones.
    fn replace(&self, number: u64) {
        let mut current = self.current.lock().expect("invariant: nobody panics with this lock");
        if current.number == number
            && let Ok(client) = self.server.connect()
        {
            *current = Numbered { number: number + 1, client };
        }
    }
}

/// What an answer that is not good says.
fn refusal(status: StatusCode, text: &str, retry_after_seconds: Option<u64>) -> RequestError {
    let code = status.as_u16();
    let parsed = serde_json::from_str::<Status>(text).ok().filter(|parsed| parsed.code != 0);
    let Some(Status { message, reason, code: _, details }) = parsed else {
        let shown = super::text::clipped(text.trim(), MAX_TEXT);
        return RequestError::Status {
            code,
            reason: String::new(),
            message: if shown.is_empty() { status.to_string() } else { shown.to_owned() },
            causes: Vec::new(),
            retry_after: retry_after_seconds.map(Duration::from_secs),
        };
    };
    let details = details.unwrap_or_default();
    let causes = details.causes.unwrap_or_default();
    RequestError::Status {
        code,
        reason,
        message,
        causes: causes.into_iter().map(|cause| cause.message).collect(),
        retry_after: retry_after_seconds.or(details.retry_after_seconds).map(Duration::from_secs),
    }
}

async fn collect(mut body: Body) -> Result<String, RequestError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestError::Connection(Box::new(error)))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > MAX_ANSWER {
            return Err(RequestError::TooLong { limit_bytes: MAX_ANSWER });
        }
    }
    String::from_utf8(bytes).map_err(RequestError::NotText)
}

/// The lines of a body, as they come.
pub(super) struct Lines {
    body: Body,
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where there is no line end.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// Waits until there is a whole line, and says where it is in [`Lines::text`]; none at the end of the body, whose
    /// last line is nothing if it is not whole. Safe to cancel.
    pub(super) async fn next(&mut self) -> Result<Option<std::ops::Range<usize>>, RequestError> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.start..self.searched + at;
                self.start = line.end + 1;
                self.searched = self.start;
                return Ok(Some(line));
            }
            self.buffer.drain(..self.start);
            self.start = 0;
            self.searched = self.buffer.len();
            // A long line leaves no room behind for ever.
            self.buffer.shrink_to(self.buffer.len().max(64 * 1024));
            if self.buffer.len() > MAX_ANSWER {
                return Err(RequestError::TooLong { limit_bytes: MAX_ANSWER });
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| RequestError::Connection(Box::new(error)))?;
            if let Ok(data) = frame.into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    /// A line that [`Lines::next`] has found, until it is called again.
    pub(super) fn text(&self, line: std::ops::Range<usize>) -> &[u8] {
        &self.buffer[line]
    }
}
