//! Namespaces besides the Services' own, and networks of `ClusterIP`s.

use anyhow::Result;
use serde_json::json;

use super::{
    admin::{Kind, Object},
    running::Cluster,
};

impl Cluster {
    pub fn add_tenant(&mut self, tenant: &str) -> Result<()> {
        let name = self.namespace_of(tenant);
        self.make(&json!({
            "apiVersion": Kind::NAMESPACE.api_version(),
            "kind": Kind::NAMESPACE.name(),
            "metadata": {"name": name},
        }))
    }

    /// Creates a network of `ClusterIP`s.
    pub fn add_service_cidr(&mut self, net: &str) -> Result<()> {
        let name = format!("{}-{}", self.namespace, net.replace('/', "-"));
        self.make(&json!({
            "apiVersion": Kind::SERVICE_CIDR.api_version(),
            "kind": Kind::SERVICE_CIDR.name(),
            "metadata": {"name": name},
            "spec": {"cidrs": [net]},
        }))
    }

    pub fn namespace_of(&self, tenant: &str) -> String {
        format!("{}-{tenant}", self.namespace)
    }

    /// Returns the namespace of a Service and its name there.
    pub(super) fn place_of<'a>(&self, name: &'a str) -> (String, &'a str) {
        match name.split_once('/') {
            Some((tenant, name)) => (self.namespace_of(tenant), name),
            None => (self.namespace.clone(), name),
        }
    }

    /// Returns the full name of a Service, as in messages and claims.
    pub fn full_name(&self, name: &str) -> String {
        let (namespace, name) = self.place_of(name);
        format!("{namespace}/{name}")
    }

    /// Sets or removes an annotation of the Services' own namespace.
    pub fn annotate_namespace(&self, key: &str, value: Option<&str>) -> Result<()> {
        let namespace = Object::cluster_scoped(Kind::NAMESPACE, &self.namespace);
        self.admin().merge(&namespace, &json!({"metadata": {"annotations": {key: value}}})).map(drop)
    }
}
