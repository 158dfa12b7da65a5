//! The `VirtualIP` type: the form of a claim in the API server, and its definition there.

#![expect(unreachable_pub, reason = "the derived schema has a copy of its type inside a function")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt as _, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{condition::Condition, meta, vip_pool};

#[cfg(test)]
mod tests;

/// The finalizer that builds before this one gave to claims.
pub const FINALIZER: &str = "vipward.io/claim";
/// The annotation by which an operator requests that a VIP moves to a node.
pub const MOVE_TO: &str = "vipward.io/move-to";
/// The annotation by which an operator has a VIP taken even if its address is in use.
pub const FORCE: &str = "vipward.io/force";
/// The annotation by which an operator has the reservation of an address released.
pub const RELEASE: &str = "vipward.io/release";

/// The `keptUntil` of an address that is kept for ever.
pub const FOREVER: &str = "forever";

/// What the nodes agree on about a VIP: its claim.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
#[kube(
    group = "vipward.io",
    version = "v1alpha1",
    kind = "VirtualIP",
    plural = "virtualips",
    singular = "virtualip",
    shortname = "vip",
    status = "VirtualIpStatus",
    derive = "PartialEq",
    doc = "Which node holds a virtual IP address (VIP), since when, and why. The object's name is the \
           address, of IPv6 with all eight groups of four digits, joined by a hyphen. Vipward's agents \
           write it, and repair it after edits by hand. To move a VIP, annotate it with \
           vipward.io/move-to: NODE. To have one taken although another host uses its address, annotate \
           it with vipward.io/force: true. To have the controller give up the reservation of its \
           address, annotate it with vipward.io/release: true.",
    label("app.kubernetes.io/name", "vipward"),
    label("app.kubernetes.io/component", "agent"),
    printcolumn(
        name = "ADDRESS",
        type_ = "string",
        json_path = ".spec.address",
        description = "The virtual IP address"
    ),
    printcolumn(
        name = "HOLDER",
        type_ = "string",
        json_path = ".spec.holder",
        description = "The node that its claim names"
    ),
    printcolumn(
        name = "STATE",
        type_ = "string",
        json_path = ".status.state",
        description = "held, handing over, not answered, session ended, released, or unheld"
    ),
    printcolumn(
        name = "MAC",
        type_ = "string",
        json_path = ".spec.mac",
        description = "The MAC that it is answered with"
    ),
    printcolumn(
        name = "INTERFACE",
        type_ = "string",
        json_path = ".spec.interface",
        description = "The holder's interface"
    ),
    printcolumn(
        name = "EPOCH",
        type_ = "integer",
        json_path = ".spec.epoch",
        description = "How many times its holder has changed"
    ),
    printcolumn(
        name = "SERVICES",
        type_ = "string",
        json_path = ".spec.services",
        description = "The Services that have it"
    ),
    printcolumn(
        name = "CONFLICT",
        type_ = "string",
        json_path = ".status.conflict",
        description = "Other hosts that claim it on the segment"
    ),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "SINCE",
        type_ = "date",
        json_path = ".spec.since",
        description = "How long its holder has had it",
        priority = 1
    ),
    printcolumn(
        name = "CAUSE",
        type_ = "string",
        json_path = ".spec.cause",
        description = "Why it is where it is",
        priority = 1
    ),
    printcolumn(
        name = "TROUBLE",
        type_ = "string",
        json_path = ".status.trouble",
        description = "Why it is not where it is wanted, node by node",
        priority = 1
    ),
    printcolumn(
        name = "UNANSWERED",
        type_ = "string",
        json_path = ".status.unanswered",
        description = "Why no node answers for it, though its claim names one",
        priority = 1
    ),
    validation = Rule::new(
        "self.spec.address.contains(':') \
         ? self.metadata.name.matches('^([0-9a-f]{4}-){7}[0-9a-f]{4}$') \
         : self.metadata.name == self.spec.address"
    )
    .message("the object's name must be its address; of IPv6, all eight groups with four digits, joined by -")
)]
// An agent writes the whole claim. The API server would follow each field's manager at a third of
// the cost of a creation.
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
#[serde(rename_all = "camelCase")]
pub struct VirtualIpSpec {
    /// The virtual IP address: in dotted form, or of IPv6 as RFC 5952 has it.
    #[schemars(
        regex(
            pattern = r"^(((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(\.|$)){4}|[0-9a-f]*:[0-9a-f]*:[0-9a-f:]*)$"
        ),
        length(max = 39)
    )]
    pub address: String,
    /// How many times its holder has changed; it only grows.
    #[schemars(range(min = 0))]
    #[serde(default)]
    pub epoch: i64,
    /// The node that holds it, or that is to have it while `offeredBy` is set.
    #[schemars(length(min = 1, max = 253))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The holder's session, as its Lease carries it: the claim is good while it does.
    #[schemars(regex(pattern = r"^[0-9a-f]{16}$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The MAC that it is answered with.
    #[schemars(regex(pattern = r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The name of the holder's interface.
    #[schemars(length(min = 1, max = 15))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Set when its last holder released it, or no node has held it yet: any candidate may take it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<bool>,
    /// The node that hands it over: set until the successor, which `holder` names, has taken it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_by: Option<OfferedBy>,
    /// When its holder last changed, by the clock of the node that wrote it. No decision uses it.
    #[schemars(with = "Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    #[doc = " The Services that have it: `namespace/name`, separated by commas. The first one is its \
             owner. They keep their order: it decides who may share it, and who has a port."]
    #[serde(default)]
    pub services: String,
    /// Why it is where it is.
    #[serde(default)]
    pub cause: String,
    /// The Service that its address is reserved for. The controller writes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<ReservationSpec>,
}

/// The Service that an address is reserved for.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "camelCase")]
pub struct ReservationSpec {
    /// The Service: `namespace/name`.
    #[schemars(regex(pattern = r"^[^/]+/[^/]+$"), length(max = 317))]
    pub service: String,
    #[doc = " The `VIPPool`, or `IPAddressPool/NAME`, that the address is from. Without one, the \
             Service requested an address of no pool."]
    #[schemars(length(min = 1, max = 267))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Set when the Service is gone: until when the address is kept for another one of its name, or `forever`.
    #[schemars(length(min = 1, max = 64))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<String>,
}

/// The node that hands a VIP over.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
pub struct OfferedBy {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub node: String,
    /// Its session.
    #[schemars(regex(pattern = r"^[0-9a-f]{16}$"))]
    pub session: String,
}

/// What is wrong with a VIP, if anything. It is a plain part of the object, since a claim is one object and one write.
#[derive(Serialize, Deserialize, JsonSchema, Clone, PartialEq, Eq, Debug, Default)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct VirtualIpStatus {
    /// Its state: `held`, `handing over`, `not answered`, `session ended`, `released` or `unheld`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Why no node answers for it, though its claim names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// Other hosts that claim it on the segment, as the holder observes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<String>,
    /// Why it is not where it is wanted, or nowhere: node by node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The same for programs: `Held`, `Trouble` and `Conflict`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Returns the definition of the type, for the API server.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = meta::kept(VirtualIP::crd());
    for version in &mut definition.spec.versions {
        // With the subresource, a claim would be two writes that no compare-and-swap covers.
        version.subresources = None;
    }
    definition
}

/// Returns the definitions of all types as YAML, ready for `kubectl apply -f`. The text is the same
/// for the same types.
pub fn crd_yaml() -> String {
    let yaml = |definition: &CustomResourceDefinition| {
        serde_saphyr::to_string(definition).expect("invariant: nothing in a definition is beyond YAML")
    };
    format!("{}---\n{}", yaml(&definition()), yaml(&vip_pool::definition()))
}
