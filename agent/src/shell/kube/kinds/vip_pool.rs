//! The `VIPPool` type: a pool of addresses in the API server, and its definition there.

#![expect(unreachable_pub, reason = "the derived schema has a copy of its type inside a function")]
#![expect(clippy::duplicated_attributes, reason = "each column has a type")]

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vipward_core::pools::{AnnounceRecord, Choice, PoolRecord, Sharing};

use super::{
    condition::Condition,
    meta::{self, Meta},
};

#[cfg(test)]
mod tests;

/// Addresses for Services of type `LoadBalancer`.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, PartialEq, Debug)]
#[kube(
    group = "vipward.io",
    version = "v1alpha1",
    kind = "VIPPool",
    plural = "vippools",
    singular = "vippool",
    status = "VipPoolStatus",
    derive = "PartialEq",
    doc = "Addresses that Vipward's controller allocates to Services of type LoadBalancer that request \
           none by name, and which Services may have them. A pool that changes takes no address from \
           a Service that has it.",
    label("app.kubernetes.io/name", "vipward"),
    label("app.kubernetes.io/component", "agent"),
    printcolumn(
        name = "ADDRESSES",
        type_ = "string",
        json_path = ".status.addresses",
        description = "The networks, ranges and addresses"
    ),
    printcolumn(
        name = "USED",
        type_ = "string",
        json_path = ".status.used",
        description = "The addresses that are reserved or kept, of all"
    ),
    printcolumn(
        name = "FREE",
        type_ = "string",
        json_path = ".status.free",
        description = "The addresses that are free"
    ),
    printcolumn(
        name = "AUTO",
        type_ = "boolean",
        json_path = ".spec.autoAssign",
        description = "True if Services get its addresses without naming it"
    ),
    printcolumn(
        name = "READY",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "True if all of it can be used"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "PROBLEM",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        description = "What cannot be used, and why",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct VipPoolSpec {
    /// Networks (192.0.2.0/28), ranges (192.0.2.10-192.0.2.20) and single addresses, of both families.
    #[schemars(length(min = 1, max = 256))]
    pub addresses: Vec<AddressText>,
    /// True if Services that do not name the pool get its addresses.
    #[serde(default = "yes")]
    pub auto_assign: bool,
    /// Pools with lower numbers come first; those of one number by the used part of their addresses.
    #[serde(default)]
    pub priority: i32,
    /// Only Services with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_selector: Option<LabelSelector>,
    /// Only Services in namespaces with these labels, besides those in `namespaces`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Only Services in these namespaces, besides those that `namespaceSelector` selects.
    #[schemars(length(max = 256))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    /// Addresses that are never allocated.
    #[serde(default)]
    pub avoid: Avoid,
    #[doc = " Which Services may share an address: none, those of one namespace, or by consent (the \
             annotations vipward.io/share and vipward.io/share-with) those of others too."]
    #[serde(default)]
    pub sharing: SharingText,
    #[doc = " How long an address stays reserved, after its Service was deleted, for one of the same \
             namespace and name: 0s, a duration such as 24h, or forever."]
    #[schemars(
        regex(pattern = r"^(forever|([0-9]+(ns|us|ms|s|m|h|d|w|days?|hours?|minutes?|min|weeks?)\s*)+)$"),
        length(max = 64)
    )]
    #[serde(default = "not_kept")]
    pub keep: String,
    #[doc = " The largest number of addresses that stay reserved so for the Services of one namespace. \
             There is no limit if it is not set."]
    // The API server warns of a format that it does not know, as uint32.
    #[schemars(extend("format" = "int64"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_at_most: Option<u32>,
    /// Which free address is allocated: the first, or one that depends on the Service's name.
    #[serde(default)]
    pub choice: ChoiceText,
    /// Where its addresses may be announced: everywhere, if nothing is set.
    #[serde(default, skip_serializing_if = "Announce::is_everywhere")]
    pub announce: Announce,
}

/// Where the addresses of a pool may be announced. A Service's own annotations limit that further.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct Announce {
    /// Only nodes with these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// Only interfaces with these names: names (eth1), or globs with *, ? and [a-z] (bond*).
    #[schemars(length(max = 64))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceText>,
    /// Nodes with these labels come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_nodes: Option<LabelSelector>,
}

impl Announce {
    fn is_everywhere(&self) -> bool {
        *self == Self::default()
    }
}

/// The name of an interface, or a glob over names.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
#[serde(transparent)]
pub struct InterfaceText(
    #[schemars(regex(pattern = r"^[^\s/,{}\\]+$"), length(min = 1, max = 64))] pub String,
);

/// A network, a range or an address.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
#[serde(transparent)]
pub struct AddressText(
    #[schemars(
        regex(pattern = r"^\s*[0-9a-fA-F:.]+(/[0-9]{1,3}|\s*-\s*[0-9a-fA-F:.]+)?\s*$"),
        length(min = 1, max = 100)
    )]
    pub String,
);

/// Addresses that are never allocated.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Avoid {
    /// The first and the last address of each IPv4 network, and the first of each IPv6 network.
    #[serde(default = "yes")]
    pub ends: bool,
    /// Networks, ranges and single addresses.
    #[schemars(length(max = 256))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressText>,
}

impl Default for Avoid {
    fn default() -> Self {
        Self { ends: true, addresses: Vec::new() }
    }
}

/// Which Services may share an address.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SharingText {
    /// None.
    Never,
    /// Those of one namespace.
    Namespace,
    /// Those of one namespace, and of others by consent.
    #[default]
    Key,
}

/// Which free address is allocated.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChoiceText {
    /// The lowest.
    #[default]
    First,
    /// One that depends on the Service's name.
    Spread,
}

/// The state of a pool.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct VipPoolStatus {
    /// The usable networks, ranges and addresses, for operators.
    #[serde(default)]
    pub addresses: String,
    /// The reserved and kept addresses, of all, for operators.
    #[serde(default)]
    pub used: String,
    /// The free addresses, for operators.
    #[serde(default)]
    pub free: String,
    /// The numbers by family: `IPv4` and `IPv6`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub families: BTreeMap<String, FamilyCounts>,
    /// The `metadata.generation` of the spec that the status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`: whether all of the pool can be used, and if not, what cannot, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Numbers of addresses. They are texts, for those of IPv6 may be larger than a number can be.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
pub struct FamilyCounts {
    /// All that the pool can allocate.
    pub total: String,
    /// Those reserved for Services.
    pub allocated: String,
    /// Those kept for Services that are gone.
    pub kept: String,
    /// Those that are free.
    pub available: String,
}

fn yes() -> bool {
    true
}

fn not_kept() -> String {
    "0s".to_owned()
}

/// Returns the definition of the type, for the API server.
pub(crate) fn definition() -> CustomResourceDefinition {
    meta::kept(VIPPool::crd())
}

/// Returns a pool in the core's form.
pub(crate) fn record(metadata: &Meta, spec: VipPoolSpec) -> PoolRecord {
    let texts = |texts: Vec<AddressText>| texts.into_iter().map(|text| text.0.into()).collect();
    PoolRecord {
        name: metadata.name.as_str().into(),
        uid: Arc::default(),
        generation: metadata.generation,
        labels: BTreeMap::new(),
        created: metadata.created(),
        deleting: metadata.is_deleting(),
        addresses: texts(spec.addresses),
        lenient: false,
        auto_assign: spec.auto_assign,
        priority: spec.priority,
        service_selectors: spec.service_selector.iter().map(selector).collect(),
        namespace_selectors: spec.namespace_selector.iter().map(selector).collect(),
        namespaces: spec.namespaces.iter().map(|name| name.as_str().into()).collect(),
        avoid: texts(spec.avoid.addresses),
        use_ends: !spec.avoid.ends,
        avoid_buggy: false,
        sharing: match spec.sharing {
            SharingText::Never => Sharing::Never,
            SharingText::Namespace => Sharing::Namespace,
            SharingText::Key => Sharing::Key,
        },
        keep: Some(spec.keep.into()),
        keep_at_most: spec.keep_at_most,
        choice: match spec.choice {
            ChoiceText::First => Choice::First,
            ChoiceText::Spread => Choice::Spread,
        },
        announce: AnnounceRecord {
            nodes: spec.announce.node_selector.as_ref().map(selector),
            interfaces: spec.announce.interfaces.into_iter().map(|text| text.0.into()).collect(),
            preferred: spec.announce.preferred_nodes.as_ref().map(selector),
        },
    }
}

/// Returns a selector as text, as `kubectl -l` takes it.
pub(crate) fn selector(selector: &LabelSelector) -> Box<str> {
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let values = expression.values.as_deref().unwrap_or_default().join(",");
        let key = &expression.key;
        match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.clone(),
            "DoesNotExist" => format!("!{key}"),
            // No selector has this form, so the pool is shut, and its status has the reason.
            other => format!("{key} {other}"),
        }
    });
    labels.chain(expressions).collect::<Vec<_>>().join(",").into()
}
