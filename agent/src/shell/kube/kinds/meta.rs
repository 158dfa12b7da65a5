//! Metadata of objects. The parser skips the fields that the agent does not use.

use std::collections::BTreeMap;

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::OwnerReference, jiff::Timestamp,
};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The group and version of Vipward's own types.
pub(crate) const VERSION: &str = "vipward.io/v1alpha1";
/// The label with the manager of an object.
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Annotations by which Argo CD, Flux and Helm keep the definitions when they prune: with a
/// definition, all of its objects go.
const KEPT: [(&str, &str); 3] = [
    ("argocd.argoproj.io/sync-options", "Prune=false,Delete=false"),
    ("helm.sh/resource-policy", "keep"),
    ("kustomize.toolkit.fluxcd.io/prune", "disabled"),
];

/// Returns a definition with the annotations that keep it.
pub(crate) fn kept(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    let annotations = KEPT.map(|(key, value)| (key.to_owned(), value.to_owned()));
    definition.metadata.annotations = Some(annotations.into());
    definition
}

/// An object's metadata. kube's `ObjectMeta` would build a tree of all managed fields (ADR 0014).
#[derive(Deserialize, Debug, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) uid: Option<Box<str>>,
    pub(crate) resource_version: String,
    pub(crate) generation: Option<i64>,
    pub(crate) labels: Option<BTreeMap<String, String>>,
    pub(crate) annotations: Option<BTreeMap<String, String>>,
    pub(crate) finalizers: Option<Vec<String>>,
    pub(crate) creation_timestamp: Option<Box<str>>,
    pub(crate) deletion_timestamp: Option<IgnoredAny>,
    pub(crate) owner_references: Option<Vec<OwnerReference>>,
    #[serde(deserialize_with = "if_well_formed")]
    pub(crate) managed_fields: Option<Vec<ManagedFields>>,
}

impl Meta {
    pub(crate) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(name).map(String::as_str)
    }

    pub(crate) fn annotation_names(&self) -> impl Iterator<Item = &str> {
        self.annotations.iter().flatten().map(|(name, _)| name.as_str())
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// Returns the time of creation in seconds since 1970. An object without one counts as the latest.
    pub(crate) fn created(&self) -> i64 {
        self.creation_timestamp.as_deref().and_then(seconds).unwrap_or(i64::MAX)
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

/// Returns a time in seconds since 1970.
fn seconds(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_second)
}

/// Reads a field. A field of another form counts as absent, so that the object is not lost.
fn if_well_formed<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    Ok(serde_json::from_str(raw.get()).unwrap_or_default())
}

/// A field manager, and the mark if it has written the addresses in a Service's status.
#[derive(Deserialize, Debug)]
pub(crate) struct ManagedFields {
    #[serde(default)]
    pub(crate) manager: Option<Box<str>>,
    #[serde(default)]
    time: Option<Box<str>>,
    #[serde(rename = "fieldsV1", default)]
    fields: ManagedRoot,
}

impl ManagedFields {
    /// Returns the time of its last write, in seconds since 1970.
    pub(crate) fn time(&self) -> Option<i64> {
        seconds(self.time.as_deref()?)
    }

    pub(crate) fn has_written_ingress(&self) -> bool {
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

/// An object whose metadata alone is read.
#[derive(Deserialize, Debug)]
pub(crate) struct Bare {
    #[serde(default)]
    pub(crate) metadata: Meta,
}
