//! Services and their endpoints, as scenarios describe them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::node::NodeId;
use crate::frames::Family;

/// Annotation that names a Service's VIPs.
pub(super) const ADDRESSES: &str = "vipward.io/addresses";
/// Service of type `LoadBalancer` without a selector.
/// [`Cluster::set_endpoints`](super::Cluster::set_endpoints) sets its endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSpec {
    pub(super) name: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) spec: Value,
}

impl ServiceSpec {
    /// Returns a Service that requests a VIP with the
    /// annotation; policy Cluster, port 80, no class.
    pub fn new(name: &str, vip: impl Into<IpAddr>) -> Self {
        Self::with_addresses(name, &[vip.into()])
    }

    /// Returns a dual-stack Service that requests the VIP of most tests in both families.
    pub fn dual_stack(name: &str) -> Self {
        Self::with_addresses(name, &Family::vips())
    }

    /// Returns a Service that requests several VIPs with the annotation. It is dual-stack if one of
    /// them is IPv6.
    pub fn with_addresses(name: &str, vips: &[IpAddr]) -> Self {
        let requested: Vec<_> = vips.iter().map(IpAddr::to_string).collect();
        let spec = Self::without_address(name).annotation(ADDRESSES, &requested.join(","));
        if vips.iter().any(IpAddr::is_ipv6) {
            spec.field("ipFamilyPolicy", &json!("PreferDualStack"))
        } else {
            spec
        }
    }

    /// Returns a Service without the annotation, for an address in its status.
    pub fn without_address(name: &str) -> Self {
        let spec = json!({
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Cluster",
            "ports": [{"name": "port", "protocol": "TCP", "port": 80}],
        });
        Self { name: name.to_owned(), annotations: BTreeMap::new(), spec }
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets `externalTrafficPolicy: Local`.
    #[must_use]
    pub fn local(self) -> Self {
        self.field("externalTrafficPolicy", &json!("Local"))
    }

    #[must_use]
    pub fn class(self, class: &str) -> Self {
        self.field("loadBalancerClass", &json!(class))
    }

    /// Sets the TCP port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.field("ports", &json!([{"name": "port", "protocol": "TCP", "port": port}]))
    }

    #[must_use]
    pub fn field(mut self, key: &str, value: &Value) -> Self {
        self.spec[key] = value.clone();
        self
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub(super) node: NodeId,
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
}

impl Endpoint {
    pub fn ready(node: NodeId) -> Self {
        Self { node, ready: true, serving: true, terminating: false }
    }

    pub fn not_ready(node: NodeId) -> Self {
        Self { node, ready: false, serving: false, terminating: false }
    }

    /// Returns the endpoint of a pod that is being deleted and still serves.
    pub fn terminating(node: NodeId) -> Self {
        Self { node, ready: false, serving: true, terminating: true }
    }
}
