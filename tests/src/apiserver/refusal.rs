//! What the server says when it refuses: every reason, in the words and with the `Status` body of a real one.

use std::fmt;

use hyper::StatusCode;
use serde_json::{Value, json};
use thiserror::Error;

use super::apply::Conflict;

/// A resource as messages name it: `leases.coordination.k8s.io`, `services`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupResource {
    pub(super) group: String,
    pub(super) plural: String,
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.plural, &self.group)
    }
}

/// A kind as messages name it: `VirtualIP.vipward.io`, `Service`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupKind {
    pub(super) group: String,
    pub(super) kind: String,
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        qualified(f, &self.kind, &self.group)
    }
}

fn qualified(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

/// One object of a resource; its name is empty when the request was about all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) resource: GroupResource,
    pub(super) name: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "{}", self.resource)
        } else {
            write!(f, "{} {:?}", self.resource, self.name)
        }
    }
}

/// What a user may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) user: String,
    pub(super) verb: &'static str,
    /// With its subresource: `services/status`.
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

/// What is wrong with one field.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FieldFault {
    pub(super) path: String,
    pub(super) fault: Fault,
}

/// The kinds of fault that a field can have.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fault {
    Required,
    WrongType { value: Value, expected: String },
    Unsupported { value: Value, supported: Vec<Value> },
    Unmatched { value: String, pattern: String },
    OutOfBounds { value: Value, bound: &'static str, limit: f64 },
    BadName { value: String },
    Version,
    Unfit { value: Value, why: String },
    RuleBroken(String),
    Forbidden(&'static str),
}

impl Fault {
    const fn reason(&self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::WrongType { .. } => "FieldValueTypeInvalid",
            Self::Unsupported { .. } => "FieldValueNotSupported",
            Self::Unmatched { .. }
            | Self::OutOfBounds { .. }
            | Self::BadName { .. }
            | Self::Version
            | Self::Unfit { .. }
            | Self::RuleBroken(_) => "FieldValueInvalid",
            Self::Forbidden(_) => "FieldValueForbidden",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.write_str("Required value"),
            Self::WrongType { value, expected } => {
                write!(f, "Invalid value: {value}: must be of type {expected}: {:?}", type_name(value))
            }
            Self::Unsupported { value, supported } => {
                let supported: Vec<String> = supported.iter().map(Value::to_string).collect();
                write!(f, "Unsupported value: {value}: supported values: {}", supported.join(", "))
            }
            Self::Unmatched { value, pattern } => {
                write!(f, "Invalid value: {value:?}: should match '{pattern}'")
            }
            Self::OutOfBounds { value, bound, limit } => {
                write!(f, "Invalid value: {value}: should be {bound} {limit}")
            }
            Self::BadName { value } => write!(
                f,
                "Invalid value: {value:?}: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                 characters, '-' or '.', and must start and end with an alphanumeric character"
            ),
            Self::Version => f.write_str("Invalid value: 0x0: must be specified for an update"),
            Self::Unfit { value, why } => write!(f, "Invalid value: {value}: {why}"),
            Self::RuleBroken(message) => write!(f, "Invalid value: \"object\": {message}"),
            Self::Forbidden(why) => write!(f, "Forbidden: {why}"),
        }
    }
}

/// What JSON calls the type of a value.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) => {
            if number.is_f64() {
                "number"
            } else {
                "integer"
            }
        }
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Why a request is not done.
#[derive(Debug, Error)]
pub(super) enum Refusal {
    #[error("404 page not found")]
    NoSuchPath,
    #[error("Unauthorized")]
    Unauthorized,
    #[error("{object} is forbidden: {denied}")]
    Denied { object: Named, denied: Box<Denied> },
    #[error(
        "{object} is forbidden: unable to create new content in namespace {namespace} because it is being terminated"
    )]
    Terminating { object: Named, namespace: String },
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
        "Operation cannot be fulfilled on {object}: Precondition failed: UID in precondition: {wanted}, UID in object \
         meta: {found}"
    )]
    OtherUid { object: Named, wanted: String, found: String },
    #[error(
        "Operation cannot be fulfilled on {object}: Precondition failed: ResourceVersion in precondition: {wanted}, \
         ResourceVersion in object meta: {found}"
    )]
    OtherVersion { object: Named, wanted: String, found: String },
    #[error("{}", applies(.0))]
    Apply(Vec<Conflict>),
    #[error("{object} {name:?} is invalid: {}", faults_text(.faults))]
    Invalid { object: GroupKind, name: String, faults: Vec<FieldFault> },
    #[error("strict decoding error: {}", unknown(.0))]
    UnknownFields(Vec<String>),
    #[error("the object provided is unrecognized (must be of type {kind}): {source}")]
    Undecodable { kind: String, source: serde_json::Error },
    #[error("error decoding patch: {0}")]
    UndecodablePatch(#[source] serde_json::Error),
    #[error("error decoding YAML: {0}")]
    UndecodableYaml(#[source] Box<serde_saphyr::Error>),
    #[error(
        "{found_kind} in version {found_version:?} cannot be handled as a {kind}: expected {version}, Kind={kind}"
    )]
    OtherKind { kind: String, version: String, found_kind: String, found_version: String },
    #[error("the name of the object ({found}) does not match the name on the URL ({wanted})")]
    OtherName { found: String, wanted: String },
    #[error("the namespace of the provided object does not match the namespace sent on the request")]
    OtherNamespace,
    #[error("name or generateName is required")]
    Nameless,
    #[error("the object is not a JSON object")]
    NoObject,
    #[error("unable to parse requirement: {0:?} is not a label selector")]
    LabelSelector(String),
    #[error("field label not supported: {0}")]
    FieldLabel(String),
    #[error("invalid selector: {0:?}; can't understand it")]
    FieldSelector(String),
    #[error("{parameter}: invalid value {value:?}")]
    Parameter { parameter: &'static str, value: String },
    #[error(
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    )]
    NoManager,
    #[error("continue key is not valid: {0:?}")]
    Continue(String),
    #[error("the server rejected our request due to an error in our request: {0}")]
    JsonPatch(#[source] json_patch::PatchError),
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {}", .accepted.join(", ")
    )]
    MediaType { accepted: &'static [&'static str] },
    #[error("the patch has the directive {0:?}, which this server does not know")]
    Directive(String),
    #[error("the server does not allow this method on the requested resource")]
    Method,
    #[error("dry runs are not supported by this server")]
    DryRun,
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

fn unknown(fields: &[String]) -> String {
    fields.iter().map(|field| format!("unknown field {field:?}")).collect::<Vec<_>>().join(", ")
}

fn faults_text(faults: &[FieldFault]) -> String {
    let texts: Vec<String> = faults.iter().map(|fault| format!("{}: {}", fault.path, fault.fault)).collect();
    if let [one] = texts.as_slice() { one.clone() } else { format!("[{}]", texts.join(", ")) }
}

fn applies(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, one.path);
    }
    let mut text = format!("Apply failed with {} conflicts:", conflicts.len());
    let mut managers: Vec<&str> = conflicts.iter().map(|conflict| conflict.manager.as_str()).collect();
    managers.sort_unstable();
    managers.dedup();
    for (number, manager) in managers.into_iter().enumerate() {
        text.push_str(if number == 0 { " " } else { "\n" });
        text.push_str("conflicts with ");
        text.push_str(manager);
        text.push(':');
        for conflict in conflicts.iter().filter(|conflict| conflict.manager == manager) {
            text.push_str("\n- ");
            text.push_str(&conflict.path);
        }
    }
    text
}

impl Refusal {
    /// The HTTP status and the `reason` of the body.
    pub(super) const fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoSuchPath | Self::NotFound(_) => (StatusCode::NOT_FOUND, "NotFound"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Denied { .. } | Self::Terminating { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::Exists(_) => (StatusCode::CONFLICT, "AlreadyExists"),
            Self::Modified(_) | Self::OtherUid { .. } | Self::OtherVersion { .. } | Self::Apply(_) => {
                (StatusCode::CONFLICT, "Conflict")
            }
            Self::Invalid { .. } | Self::NoManager | Self::JsonPatch(_) | Self::DryRun => {
                (StatusCode::UNPROCESSABLE_ENTITY, "Invalid")
            }
            Self::UnknownFields(_)
            | Self::Undecodable { .. }
            | Self::UndecodablePatch(_)
            | Self::UndecodableYaml(_)
            | Self::OtherKind { .. }
            | Self::OtherName { .. }
            | Self::OtherNamespace
            | Self::Nameless
            | Self::NoObject
            | Self::LabelSelector(_)
            | Self::FieldLabel(_)
            | Self::FieldSelector(_)
            | Self::Parameter { .. }
            | Self::Continue(_)
            | Self::Directive(_)
            | Self::Body(_) => (StatusCode::BAD_REQUEST, "BadRequest"),
            Self::MediaType { .. } => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
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

    /// The `Status` object.
    pub(super) fn status(&self) -> Value {
        let (code, reason) = self.code();
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "reason": reason,
            "code": code.as_u16(),
        });
        if let Some(details) = self.details() {
            status["details"] = details;
        }
        status
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Denied { object, .. }
            | Self::Terminating { object, .. }
            | Self::NotFound(object)
            | Self::Exists(object)
            | Self::Modified(object)
            | Self::OtherUid { object, .. }
            | Self::OtherVersion { object, .. } => Some(json!({
                "name": object.name,
                "group": object.resource.group,
                "kind": object.resource.plural,
            })),
            Self::Apply(conflicts) => {
                let causes: Vec<Value> = conflicts
                    .iter()
                    .map(|conflict| {
                        json!({
                            "reason": "FieldManagerConflict",
                            "message": format!("conflict with {}", conflict.manager),
                            "field": conflict.path,
                        })
                    })
                    .collect();
                Some(json!({"causes": causes}))
            }
            Self::Invalid { object, name, faults } => {
                let causes: Vec<Value> = faults
                    .iter()
                    .map(|fault| {
                        json!({
                            "reason": fault.fault.reason(),
                            "message": fault.fault.to_string(),
                            "field": fault.path,
                        })
                    })
                    .collect();
                Some(json!({"name": name, "group": object.group, "kind": object.kind, "causes": causes}))
            }
            Self::Trouble(StatusCode::TOO_MANY_REQUESTS) | Self::VersionAhead { .. } => {
                Some(json!({"retryAfterSeconds": 1}))
            }
            Self::NoSuchPath
            | Self::Unauthorized
            | Self::UnknownFields(_)
            | Self::Undecodable { .. }
            | Self::UndecodablePatch(_)
            | Self::UndecodableYaml(_)
            | Self::OtherKind { .. }
            | Self::OtherName { .. }
            | Self::OtherNamespace
            | Self::Nameless
            | Self::NoObject
            | Self::LabelSelector(_)
            | Self::FieldLabel(_)
            | Self::FieldSelector(_)
            | Self::Parameter { .. }
            | Self::NoManager
            | Self::Continue(_)
            | Self::JsonPatch(_)
            | Self::MediaType { .. }
            | Self::Directive(_)
            | Self::Method
            | Self::DryRun
            | Self::ContinueExpired
            | Self::VersionExpired { .. }
            | Self::Body(_)
            | Self::Trouble(_) => None,
        }
    }
}
