//! Refusals: the statuses and messages of a real API server, and one of this server.

use std::borrow::Cow;
use std::fmt;

use hyper::StatusCode;
use serde_json::{Value, json};
use thiserror::Error;

/// An object in the form of messages: `leases.coordination.k8s.io "a"`. The name is empty in a
/// request about all objects. In a message about validation, the kind is in the resource's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) name: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if self.name.is_empty() { Ok(()) } else { write!(f, " {:?}", self.name) }
    }
}

/// An action that a user may not do.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) user: String,
    pub(super) verb: &'static str,
    /// The plural, with its subresource: `services/status`.
    pub(super) resource: String,
    pub(super) group: String,
    pub(super) namespace: Option<String>,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user, verb, resource, group, namespace } = self;
        write!(f, "User {user:?} cannot {verb} resource {resource:?} in API group {group:?} ")?;
        match namespace {
            Some(namespace) => write!(f, "in the namespace {namespace:?}"),
            None => f.write_str("at the cluster scope"),
        }
    }
}

/// A field with a value that the type or the definition does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    path: String,
    problem: String,
}

impl Fault {
    /// Returns the fault `problem` of the field at `path`, with a real API server's text.
    pub(super) fn new(path: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { path: path.into(), problem: problem.into() }
    }

    /// Returns the fault of a field that is missing.
    pub(super) fn required(path: impl Into<String>) -> Self {
        Self::new(path, "Required value")
    }

    /// Returns the fault of a field whose value is wrong.
    pub(super) fn invalid(path: impl Into<String>, value: &Value, why: impl fmt::Display) -> Self {
        Self::new(path, format!("Invalid value: {value}: {why}"))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.problem)
    }
}

/// A field that another manager owns and that an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The owner, in the form of messages.
    pub(super) manager: String,
    pub(super) path: String,
}

/// The reason why a request is refused.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    #[error("404 page not found")]
    NoSuchPath,
    /// A request that a real API server may serve, and this one does not.
    #[error("the API server of the tests does not serve {0}; its documentation lists what it serves")]
    Unserved(Cow<'static, str>),
    #[error("Unauthorized")]
    Unauthorized,
    #[error("{object} is forbidden: {denied}")]
    Denied { object: Named, denied: Box<Denied> },
    #[error("{0} not found")]
    NotFound(Named),
    #[error("{0} already exists")]
    Exists(Named),
    #[error(
        "Operation cannot be fulfilled on {0}: the object has been modified; please apply your changes to the latest \
         version and try again"
    )]
    Modified(Named),
    #[error(
        "Operation cannot be fulfilled on {object}: Precondition failed: {field} in precondition: {}, {field} in \
         object meta: {}", .values[0], .values[1]
    )]
    Precondition { object: Named, field: &'static str, values: Box<[String; 2]> },
    #[error("{}", apply_text(.0))]
    Apply(Vec<Conflict>),
    #[error("{object} is invalid: {}", faults_text(.faults))]
    Invalid { object: Named, faults: Vec<Fault> },
    #[error("the object provided is unrecognized (must be of type {kind}): {source}")]
    Undecodable { kind: String, source: serde_json::Error },
    #[error("the object provided is no {kind}")]
    OtherObject { kind: String },
    #[error("{parameter}: invalid value {value:?}")]
    Parameter { parameter: &'static str, value: String },
    #[error(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter."
    )]
    ContinueExpired,
    #[error("too old resource version: {wanted} ({oldest})")]
    VersionExpired { wanted: u64, oldest: u64 },
    #[error("Timeout: Too large resource version: {wanted}, current: {current}")]
    VersionAhead { wanted: u64, current: u64 },
    #[error("failed to read the body of the request: {0}")]
    Body(#[source] hyper::Error),
    /// The answer that a test has ordered.
    #[error("{}", trouble_text(*.0))]
    Trouble(StatusCode),
}

fn trouble_text(code: StatusCode) -> &'static str {
    match code {
        StatusCode::TOO_MANY_REQUESTS => "Too many requests, please try again later.",
        StatusCode::SERVICE_UNAVAILABLE => "the server is currently unable to handle the request",
        StatusCode::GATEWAY_TIMEOUT => "Timeout: request did not complete within requested timeout",
        _ => "Internal error occurred: etcdserver: request timed out",
    }
}

fn faults_text(faults: &[Fault]) -> String {
    let texts: Vec<String> = faults.iter().map(Fault::to_string).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}

fn apply_text(conflicts: &[Conflict]) -> String {
    let texts: Vec<String> = conflicts
        .iter()
        .map(|Conflict { manager, path }| format!("conflict with {manager}: {path}"))
        .collect();
    let plural = if texts.len() == 1 { "" } else { "s" };
    format!("Apply failed with {} conflict{plural}: {}", texts.len(), texts.join("\n"))
}

impl Refusal {
    /// Returns the HTTP status and the `reason` of the body.
    pub(super) const fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath | Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Unserved(_) => (StatusCode::NOT_IMPLEMENTED, "NotServed"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Denied { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Exists(_) => (StatusCode::CONFLICT, "AlreadyExists"),
            Self::Modified(_) | Self::Precondition { .. } | Self::Apply(_) => {
                (StatusCode::CONFLICT, "Conflict")
            }
            Self::Invalid { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
            Self::Undecodable { .. } | Self::OtherObject { .. } | Self::Parameter { .. } | Self::Body(_) => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Self::ContinueExpired | Self::VersionExpired { .. } => (StatusCode::GONE, "Expired"),
            Self::VersionAhead { .. } => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Trouble(code) => (
                *code,
                match code.as_u16() {
                    429 => "TooManyRequests",
                    503 => "ServiceUnavailable",
                    504 => "Timeout",
                    _ => "InternalError",
                },
            ),
        }
    }

    /// Returns the `Status` object with this text.
    pub(super) fn status(&self, message: &str) -> Value {
        let (code, reason) = self.code();
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code.as_u16(),
        });
        if let Self::Apply(conflicts) = self {
            let causes: Vec<Value> = conflicts.iter().map(cause).collect();
            status["details"] = json!({"causes": causes});
        }
        status
    }
}

fn cause(conflict: &Conflict) -> Value {
    json!({
        "reason": "FieldManagerConflict",
        "message": format!("conflict with {}", conflict.manager),
        "field": conflict.path,
    })
}
