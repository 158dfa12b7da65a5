//! The Secret with the keys of the failure detector, as it is read and created.

use k8s_openapi::ByteString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::meta::{MANAGED_BY, Meta};
use crate::shell::{
    kernel::liveness::{Fault, Key, Keys},
    kube::link::call::MANAGER,
};

#[cfg(test)]
mod tests;

/// The name of the Secret, which is in the namespace of the Leases.
pub const SECRET: &str = "vipward-wire";
/// The field selector of the Secret. The agents' role names this one object.
pub(crate) const SELECTOR: &str = "metadata.name=vipward-wire";
/// The annotation with the number of the newest key.
pub(crate) const NEWEST: &str = "vipward.io/newest";
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Meta,
    // A typed map would name the values of another form in its error.
    #[serde(default)]
    data: Value,
}

pub(crate) struct Read {
    pub(crate) version: String,
    pub(crate) keys: Keys,
    pub(crate) faults: Vec<Fault>,
}

pub(crate) fn read(object: &str) -> Result<Read, serde_json::Error> {
    let Object { metadata, data } = serde_json::from_str(object)?;
    let bytes = |value: &Value| {
        let ByteString(bytes) = serde_json::from_value(value.clone()).ok()?;
        String::from_utf8(bytes).ok()
    };
    let entries: Vec<(&str, String)> = data
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.as_str(), bytes(value).unwrap_or_default()))
        .collect();
    let entries = entries.iter().map(|(name, value)| (*name, value.as_str()));
    let (keys, faults) = Keys::read(entries, metadata.annotation(NEWEST));
    Ok(Read { version: metadata.resource_version, keys, faults })
}

pub(crate) fn value_of(key: &Key) -> Value {
    json!(ByteString(key.secret_text().into_bytes()))
}

pub(crate) fn creation(key: &Key) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET,
            "labels": {(MANAGED_BY): MANAGER},
            "annotations": {(NEWEST): "1"},
        },
        "type": "Opaque",
        "data": {"1": value_of(key)},
    })
}
