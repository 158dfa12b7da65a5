//! What is read of any object's metadata, and of a list of objects: all else is skipped while it is parsed.

use std::{borrow::Cow, collections::BTreeMap};

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Of an object's metadata, what some module here uses.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: Option<Box<str>>,
    pub(super) uid: Option<Box<str>>,
    pub(super) resource_version: String,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
    pub(super) finalizers: Option<Vec<String>>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    pub(super) owner_references: Option<Vec<OwnerReference>>,
    #[serde(deserialize_with = "if_well_formed")]
    pub(super) managed_fields: Option<Vec<ManagedFields>>,
}

impl Meta {
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// What is of another form than its type has counts as absent: an object is not lost for what is said about its fields.
fn if_well_formed<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

/// Of who manages which fields, only who has written the addresses.
#[derive(Deserialize, Debug)]
pub(super) struct ManagedFields {
    #[serde(default)]
    pub(super) manager: Option<Box<str>>,
    #[serde(rename = "fieldsV1", default)]
    fields: ManagedRoot,
}

impl ManagedFields {
    /// Whether this is who has written the addresses in a Service's status.
    pub(super) fn has_written_ingress(&self) -> bool {
        self.fields.status.load_balancer.ingress.is_some()
    }
}

#[derive(Deserialize, Debug, Default)]
struct ManagedRoot {
    #[serde(rename = "f:status", default)]
    status: ManagedStatus,
}

#[derive(Deserialize, Debug, Default)]
struct ManagedStatus {
    #[serde(rename = "f:loadBalancer", default)]
    load_balancer: ManagedLoadBalancer,
}

#[derive(Deserialize, Debug, Default)]
struct ManagedLoadBalancer {
    #[serde(rename = "f:ingress", default)]
    ingress: Option<IgnoredAny>,
}

/// Who owns an object.
#[derive(Deserialize, Debug)]
pub(super) struct OwnerReference {
    pub(super) kind: String,
    pub(super) name: String,
}

/// An object of which only the metadata matters.
#[derive(Deserialize, Debug)]
pub(super) struct Bare {
    #[serde(default)]
    pub(super) metadata: Meta,
}

/// A page of a list; its items are parsed one by one.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMeta,
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// Where a page is in its list.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMeta {
    pub(super) resource_version: String,
    #[serde(rename = "continue")]
    pub(super) next: Option<String>,
}

/// One line of a watch.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: &'a RawValue,
}

/// The API server's words when it refuses something.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct Status {
    pub(super) message: String,
    pub(super) reason: String,
    pub(super) code: u16,
    pub(super) details: Option<StatusDetails>,
}

/// More of them.
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct StatusDetails {
    pub(super) causes: Option<Vec<StatusCause>>,
    pub(super) retry_after_seconds: Option<u64>,
}

/// One of several causes.
#[derive(Deserialize, Debug, Default)]
#[serde(default)]
pub(super) struct StatusCause {
    pub(super) reason: String,
    pub(super) message: String,
}
