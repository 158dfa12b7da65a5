//! Kinds of objects, and the identity of an object.

use std::fmt;

use anyhow::{Context, Result};
use kube::core::ApiResource;
use serde_json::{Value, json};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    pub(super) name: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespaced: bool,
}

impl Kind {
    pub const NAMESPACE: Self = Self::new("", "v1", "Namespace", "namespaces", false);
    pub const NODE: Self = Self::new("", "v1", "Node", "nodes", false);
    pub const POD: Self = Self::new("", "v1", "Pod", "pods", true);
    pub const SERVICE: Self = Self::new("", "v1", "Service", "services", true);
    pub const SERVICE_ACCOUNT: Self = Self::new("", "v1", "ServiceAccount", "serviceaccounts", true);
    pub const SERVICE_CIDR: Self = Self::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false);
    pub const EVENT: Self = Self::new("events.k8s.io", "v1", "Event", "events", true);
    pub const ENDPOINT_SLICE: Self =
        Self::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true);
    pub const LEASE: Self = Self::new("coordination.k8s.io", "v1", "Lease", "leases", true);
    pub const SECRET: Self = Self::new("", "v1", "Secret", "secrets", true);
    pub const DAEMON_SET: Self = Self::new("apps", "v1", "DaemonSet", "daemonsets", true);
    pub const DEFINITION: Self = Self::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    );
    pub const CLUSTER_ROLE: Self = Self::rbac("ClusterRole", "clusterroles", false);
    pub const CLUSTER_ROLE_BINDING: Self = Self::rbac("ClusterRoleBinding", "clusterrolebindings", false);
    pub const ROLE: Self = Self::rbac("Role", "roles", true);
    pub const ROLE_BINDING: Self = Self::rbac("RoleBinding", "rolebindings", true);
    pub const ADMISSION_POLICY: Self =
        Self::admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies");
    pub const ADMISSION_BINDING: Self =
        Self::admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
    pub const VIRTUAL_IP: Self = Self::new("vipward.io", "v1alpha1", "VirtualIP", "virtualips", false);
    pub const POOL: Self = Self::new("vipward.io", "v1alpha1", "VIPPool", "vippools", false);

    pub const METALLB_POOL: Self = Self::metallb("v1beta1", "IPAddressPool", "ipaddresspools");
    pub const L2_ADVERTISEMENT: Self = Self::metallb("v1beta1", "L2Advertisement", "l2advertisements");
    pub const BGP_PEER: Self = Self::metallb("v1beta2", "BGPPeer", "bgppeers");
    pub const L2_STATUS: Self = Self::metallb("v1beta1", "ServiceL2Status", "servicel2statuses");

    const ALL: [Self; 24] = [
        Self::NAMESPACE,
        Self::NODE,
        Self::POD,
        Self::SERVICE,
        Self::SERVICE_ACCOUNT,
        Self::SERVICE_CIDR,
        Self::EVENT,
        Self::ENDPOINT_SLICE,
        Self::LEASE,
        Self::SECRET,
        Self::DAEMON_SET,
        Self::DEFINITION,
        Self::CLUSTER_ROLE,
        Self::CLUSTER_ROLE_BINDING,
        Self::ROLE,
        Self::ROLE_BINDING,
        Self::ADMISSION_POLICY,
        Self::ADMISSION_BINDING,
        Self::VIRTUAL_IP,
        Self::POOL,
        Self::METALLB_POOL,
        Self::L2_ADVERTISEMENT,
        Self::BGP_PEER,
        Self::L2_STATUS,
    ];

    const fn new(
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self { group, version, name, plural, namespaced }
    }

    const fn metallb(version: &'static str, name: &'static str, plural: &'static str) -> Self {
        Self::new("metallb.io", version, name, plural, true)
    }

    const fn rbac(name: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self::new("rbac.authorization.k8s.io", "v1", name, plural, namespaced)
    }

    const fn admission(name: &'static str, plural: &'static str) -> Self {
        Self::new("admissionregistration.k8s.io", "v1", name, plural, false)
    }

    pub fn of(manifest: &Value) -> Result<Self> {
        let (version, kind) = (&manifest["apiVersion"], &manifest["kind"]);
        let found =
            Self::ALL.into_iter().find(|known| *version == known.api_version() && *kind == known.name);
        found.with_context(|| format!("{version} {kind} is not a kind that the tests know"))
    }

    /// Returns the definition of a type of `MetalLB`'s, with the fields that the tests use.
    pub fn definition(self) -> Value {
        let Self { group, version, name, plural, namespaced } = self;
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let requirement = json!({"type": "object", "properties": {
            "key": {"type": "string"}, "operator": {"type": "string"}, "values": texts,
        }});
        let selectors = json!({"type": "array", "items": {"type": "object", "properties": {
            "matchLabels": labels, "matchExpressions": {"type": "array", "items": requirement},
        }}});
        let allocation = json!({"type": "object", "properties": {
            "priority": {"type": "integer"}, "namespaces": texts, "serviceSelectors": selectors,
        }});
        let spec = json!({"type": "object", "properties": {
            "addresses": texts, "autoAssign": {"type": "boolean", "default": true},
            "serviceAllocation": allocation, "ipAddressPools": texts, "nodeSelectors": selectors, "interfaces": texts,
            "peerAddress": {"type": "string"},
        }});
        let numbers = ["assignedIPv4", "assignedIPv6", "availableIPv4", "availableIPv6"];
        let numbers = numbers.map(|name| (name.to_owned(), json!({"type": "integer"})));
        let mut status = json!({"type": "object", "properties": serde_json::Map::from_iter(numbers)});
        for name in ["node", "serviceName", "serviceNamespace"] {
            status["properties"][name] = json!({"type": "string"});
        }
        let interface = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        status["properties"]["interfaces"] = json!({"type": "array", "items": interface});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
        json!({
            "apiVersion": Self::DEFINITION.api_version(),
            "kind": Self::DEFINITION.name,
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "kind": name, "listKind": format!("{name}List"),
                    "plural": plural, "singular": name.to_lowercase(),
                },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
                }],
            },
        })
    }

    /// Returns its name, as in a manifest.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns group and version, as in a manifest.
    pub fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Object {
    pub kind: Kind,
    pub namespace: Option<String>,
    pub name: String,
}

impl Object {
    pub fn cluster_scoped(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }

    pub fn within(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: Some(namespace.into()), name: name.into() }
    }

    pub fn of(manifest: &Value) -> Result<Self> {
        let text = |key: &str| manifest["metadata"][key].as_str().map(str::to_owned);
        let name = text("name").with_context(|| format!("a manifest without a name: {manifest}"))?;
        Ok(Self { kind: Kind::of(manifest)?, namespace: text("namespace"), name })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}
