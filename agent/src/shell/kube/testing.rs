//! Helpers of several tests of this module.

use std::time::Duration;

use kube::{Config, core::Status};
use serde_json::Value;

use super::{Kube, Limits, RequestError, Server};

pub(super) const LIMITS: Limits =
    Limits { lease: Duration::from_secs(4), margin: Duration::from_millis(500) };

pub(super) fn refused(code: u16, reason: &str, message: &str) -> RequestError {
    let status = Status::failure(message, reason).with_code(code).boxed();
    RequestError::Refused { status, retry_after: None }
}

/// Applies a merge patch: RFC 7386, section 2.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let fields = target.as_object_mut().expect("it is one now");
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}

/// Returns the way of node `a`'s agent to an API server that gets no request.
pub(super) fn kube() -> Kube {
    Kube::new(
        Server::with_config(Config::new("http://192.0.2.99:1".parse().expect("a URL")), LIMITS),
        "a".into(),
        "vipward-system",
    )
}
