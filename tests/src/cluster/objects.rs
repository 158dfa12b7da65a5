//! The objects of a cluster that scenarios are about, in the words of scenarios.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::admin::{Kind, Object};
use super::install::ACCOUNT;
use super::{Cluster, NodeId, PATIENCE, poll};

/// The annotation that names a Service's VIPs.
const ADDRESSES: &str = "vipward.io/addresses";

/// A Service of type `LoadBalancer` without a selector: its endpoints are what [`Cluster::set_endpoints`] says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServiceSpec {
    name: String,
    annotations: BTreeMap<String, String>,
    spec: Value,
}

impl ServiceSpec {
    /// A Service that asks for a VIP by our annotation; policy Cluster, port 80, no class.
    pub fn new(name: &str, vip: Ipv4Addr) -> Self {
        Self::without_address(name).annotation(ADDRESSES, &vip.to_string())
    }

    /// A Service that asks for no address: somebody writes one into its status.
    pub fn without_address(name: &str) -> Self {
        let spec = json!({
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Cluster",
            "ports": [{"name": "port", "protocol": "TCP", "port": 80}],
        });
        Self { name: name.to_owned(), annotations: BTreeMap::new(), spec }
    }

    /// The same with an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// The same with `externalTrafficPolicy: Local`.
    #[must_use]
    pub fn local(self) -> Self {
        self.field("externalTrafficPolicy", &json!("Local"))
    }

    /// The same of a class.
    #[must_use]
    pub fn class(self, class: &str) -> Self {
        self.field("loadBalancerClass", &json!(class))
    }

    /// The same on another TCP port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        self.field("ports", &json!([{"name": "port", "protocol": "TCP", "port": port}]))
    }

    /// The same with any field of its `spec` set.
    #[must_use]
    pub fn field(mut self, key: &str, value: &Value) -> Self {
        self.spec[key] = value.clone();
        self
    }
}

/// An endpoint of a Service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Endpoint {
    node: NodeId,
    ready: bool,
    serving: bool,
    terminating: bool,
}

impl Endpoint {
    /// A pod that is ready.
    pub fn ready(node: NodeId) -> Self {
        Self { node, ready: true, serving: true, terminating: false }
    }

    /// A pod that is not ready.
    pub fn not_ready(node: NodeId) -> Self {
        Self { node, ready: false, serving: false, terminating: false }
    }

    /// A pod that is being deleted and still serves.
    pub fn terminating(node: NodeId) -> Self {
        Self { node, ready: false, serving: true, terminating: true }
    }
}

/// An Event, as much of it as scenarios ask for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventNote {
    /// Whom it is about: kind and name.
    pub regarding: String,
    /// Its reason.
    pub reason: String,
    /// Its text.
    pub note: String,
}

impl Cluster {
    /// The object of a Service.
    pub fn service(&self, name: &str) -> Object {
        Object::within(Kind::SERVICE, &self.namespace, name)
    }

    /// The object that holds a VIP's claim.
    pub fn virtual_ip(&self, vip: Ipv4Addr) -> Object {
        Object::cluster_scoped(Kind::VIRTUAL_IP, vip.to_string())
    }

    /// Creates a Service.
    pub fn create_service(&self, service: &ServiceSpec) -> Result<()> {
        let manifest = json!({
            "apiVersion": Kind::SERVICE.api_version(),
            "kind": Kind::SERVICE.name(),
            "metadata": {"name": service.name, "namespace": self.namespace, "annotations": service.annotations},
            "spec": service.spec,
        });
        self.admin().create(&manifest).map(drop)
    }

    /// A merge patch of a Service.
    pub fn patch_service(&self, name: &str, patch: &Value) -> Result<()> {
        self.admin().merge(&self.service(name), patch).map(drop)
    }

    /// Sets an annotation of a Service, or takes it away.
    pub fn annotate_service(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        self.patch_service(name, &json!({"metadata": {"annotations": {key: value}}}))
    }

    /// Changes the VIP that a Service asks for.
    pub fn set_address(&self, name: &str, vip: Ipv4Addr) -> Result<()> {
        self.annotate_service(name, ADDRESSES, Some(&vip.to_string()))
    }

    /// Sets `externalTrafficPolicy`.
    pub fn set_policy(&self, name: &str, policy: &str) -> Result<()> {
        self.patch_service(name, &json!({"spec": {"externalTrafficPolicy": policy}}))
    }

    /// Deletes a Service.
    pub fn delete_service(&self, name: &str) -> Result<bool> {
        self.admin().delete(&self.service(name))
    }

    /// Writes a Service's status as another controller does.
    pub fn set_ingress(&self, name: &str, manager: &str, vips: &[Ipv4Addr]) -> Result<()> {
        let ingress: Vec<_> = vips.iter().map(|vip| json!({"ip": vip.to_string()})).collect();
        // Controllers leave an empty list out.
        let ingress = Some(ingress).filter(|ingress| !ingress.is_empty());
        let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        self.admin().merge_status(&self.service(name), manager, &patch).map(drop)
    }

    /// The addresses in a Service's status.
    pub fn ingress(&self, name: &str) -> Result<Vec<String>> {
        let service = self.admin().get(&self.service(name))?;
        let ingress = service.map(|mut service| service["status"]["loadBalancer"]["ingress"].take());
        let ingress = ingress.and_then(|ingress| ingress.as_array().cloned()).unwrap_or_default();
        Ok(ingress.iter().filter_map(|entry| entry["ip"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until a Service's status has just this VIP.
    pub fn wait_for_ingress(&self, name: &str, vip: Ipv4Addr) -> Result<()> {
        let what = format!("the status of Service {name} to be {vip}");
        poll(PATIENCE, &what, || Ok((self.ingress(name)? == [vip.to_string()]).then_some(())))
    }

    /// Replaces the endpoints of a Service; none leaves it an empty `EndpointSlice`.
    pub fn set_endpoints(&self, service: &str, endpoints: &[Endpoint]) -> Result<()> {
        let described = endpoints.iter().zip(1..).map(|(endpoint, number): (_, u8)| {
            let Endpoint { node, ready, serving, terminating } = endpoint;
            json!({
                "addresses": [Ipv4Addr::new(10, 0, node.0, number).to_string()],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "nodeName": self.node_name(*node),
            })
        });
        let described: Vec<_> = described.collect();
        let manifest = json!({
            "apiVersion": Kind::ENDPOINT_SLICE.api_version(),
            "kind": Kind::ENDPOINT_SLICE.name(),
            "metadata": {
                "name": slice_of(service),
                "namespace": self.namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "port", "protocol": "TCP", "port": 8080}],
            "endpoints": described,
        });
        self.admin().put(&manifest).map(drop)
    }

    /// Deletes a Service's `EndpointSlice`.
    pub fn delete_endpoints(&self, service: &str) -> Result<bool> {
        self.admin().delete(&Object::within(Kind::ENDPOINT_SLICE, &self.namespace, slice_of(service)))
    }

    /// Cordons a node.
    pub fn cordon(&self, id: NodeId) -> Result<()> {
        self.patch_node(id, &json!({"spec": {"unschedulable": true}}))
    }

    /// Uncordons a node.
    pub fn uncordon(&self, id: NodeId) -> Result<()> {
        self.patch_node(id, &json!({"spec": {"unschedulable": null}}))
    }

    /// Replaces a node's taints: key and effect of each.
    pub fn set_taints(&self, id: NodeId, taints: &[(&str, &str)]) -> Result<()> {
        let taints: Vec<_> =
            taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        self.patch_node(id, &json!({"spec": {"taints": taints}}))
    }

    /// Sets a label of a node, or takes it away.
    pub fn label_node(&self, id: NodeId, key: &str, value: Option<&str>) -> Result<()> {
        self.patch_node(id, &json!({"metadata": {"labels": {key: value}}}))
    }

    /// Sets whether a node's conditions Ready and `NetworkUnavailable` are true.
    pub fn set_conditions(&self, id: NodeId, ready: bool, network_unavailable: bool) -> Result<()> {
        let text = |is: bool| if is { "True" } else { "False" };
        let conditions = json!([
            {"type": "Ready", "status": text(ready), "reason": "Test", "message": ""},
            {"type": "NetworkUnavailable", "status": text(network_unavailable), "reason": "Test", "message": ""},
        ]);
        let patch = json!({"status": {"conditions": conditions}});
        self.admin().merge_status(&self.node_object(id), "kubelet", &patch).map(drop)
    }

    /// A merge patch of a node's Node.
    pub fn patch_node(&self, id: NodeId, patch: &Value) -> Result<()> {
        self.admin().merge(&self.node_object(id), patch).map(drop)
    }

    /// All `VirtualIP` objects.
    pub fn virtual_ips(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::VIRTUAL_IP, None)
    }

    /// All Leases in the agents' own namespace.
    pub fn leases(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::LEASE, Some(&self.installation.namespace))
    }

    /// The Lease of a node; none when none of those there is of a session of it.
    pub fn lease_of(&self, id: NodeId) -> Result<Option<Object>> {
        let holder = format!("{}/", self.node_name(id));
        let of_node = |lease: &&Value| {
            lease["spec"]["holderIdentity"].as_str().is_some_and(|identity| identity.starts_with(&holder))
        };
        self.leases()?.iter().find(of_node).map(Object::of).transpose()
    }

    /// The session that a node's Lease carries; none when it was ended, or there is no Lease.
    pub fn session(&self, id: NodeId) -> Result<Option<String>> {
        let Some(object) = self.lease_of(id)? else { return Ok(None) };
        let lease = self.admin().get(&object)?;
        Ok(lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)))
    }

    /// How often a VIP's claim has changed its holder.
    pub fn epoch(&self, vip: Ipv4Addr) -> Result<Option<i64>> {
        let claim = self.admin().get(&self.virtual_ip(vip))?;
        Ok(claim.and_then(|claim| claim["spec"]["epoch"].as_i64()))
    }

    /// Whom a VIP's claim names.
    pub fn holder(&self, vip: Ipv4Addr) -> Result<Option<NodeId>> {
        let claim = self.admin().get(&self.virtual_ip(vip))?;
        let name = claim.as_ref().and_then(|claim| claim["spec"]["holder"].as_str());
        Ok(name.and_then(|name| self.members.iter().map(|m| m.id).find(|id| self.node_name(*id) == name)))
    }

    /// All Events, by the newer of the two groups that have them.
    pub(super) fn events(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::EVENT, None)
    }

    /// The Events that are about an object of that name and are not from before this cluster, in the order of their
    /// reasons.
    pub fn events_about(&self, name: &str) -> Result<Vec<EventNote>> {
        let mut notes = Vec::new();
        for event in self.events()? {
            let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            if event["regarding"]["name"] == name && !self.events_before.contains(&Object::of(&event)?) {
                let regarding = format!("{} {name}", field(&event["regarding"]["kind"]));
                notes.push(EventNote {
                    regarding,
                    reason: field(&event["reason"]),
                    note: field(&event["note"]),
                });
            }
        }
        notes.sort();
        notes.dedup();
        Ok(notes)
    }

    /// The objects of the Events that are about an object of that name and have `part` in their note.
    pub fn event_objects_about(&self, name: &str, part: &str) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for event in self.admin().list(Kind::EVENT, None)? {
            let says_so = event["note"].as_str().is_some_and(|note| note.contains(part));
            if event["regarding"]["name"] == name
                && says_so
                && !self.events_before.contains(&Object::of(&event)?)
            {
                found.push(event);
            }
        }
        Ok(found)
    }

    /// Waits for an Event about an object of that name whose note has all of `parts` in it.
    pub fn wait_for_event(&self, name: &str, parts: &[&str]) -> Result<EventNote> {
        let mut last = Vec::new();
        let found = poll(PATIENCE, &format!("an Event about {name}: {parts:?}"), || {
            last = self.events_about(name)?;
            Ok(last.iter().find(|event| parts.iter().all(|part| event.note.contains(part))).cloned())
        });
        found.with_context(|| format!("its Events: {last:#?}"))
    }

    /// How many writes the agents have asked for, those of Leases aside; none when that is not counted: a real API
    /// server is used.
    pub fn writes_beside_leases(&mut self) -> Option<u64> {
        let stats = self.api_mut().in_this_process()?.stats();
        let of_agent = format!("{ACCOUNT}@");
        Some(stats.count(|kind| {
            kind.verb.is_write() && kind.resource != "leases" && kind.user.starts_with(&of_agent)
        }))
    }

    /// Deletes the `DaemonSet`, as an uninstall begins. The agents' processes are the test's to end.
    pub fn delete_daemon_set(&self) -> Result<bool> {
        self.admin().delete(&self.daemon_set())
    }

    fn daemon_set(&self) -> Object {
        Object::within(Kind::DAEMON_SET, &self.installation.namespace, ACCOUNT)
    }

    /// A `DaemonSet` that schedules nothing: the agents are processes of the test.
    pub(super) fn make_daemon_set(&mut self) -> Result<()> {
        let labels = json!({"app.kubernetes.io/name": ACCOUNT});
        let mut pod = pod_spec();
        pod["nodeSelector"] = json!({"vipward.io/nowhere": "true"});
        let manifest = json!({
            "apiVersion": Kind::DAEMON_SET.api_version(),
            "kind": Kind::DAEMON_SET.name(),
            "metadata": {"name": ACCOUNT, "namespace": self.installation.namespace},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        self.make(&manifest)
    }

    /// The Pod that a node's agent believes to be in; returns its name.
    pub(super) fn make_pod(&mut self, id: NodeId) -> Result<String> {
        let owner = self.admin().get(&self.daemon_set())?;
        let owners: Vec<_> = owner
            .iter()
            .map(|owner| {
                json!({
                    "apiVersion": Kind::DAEMON_SET.api_version(),
                    "kind": Kind::DAEMON_SET.name(),
                    "name": ACCOUNT,
                    "uid": owner["metadata"]["uid"],
                    "controller": true,
                })
            })
            .collect();
        let name = format!("{ACCOUNT}-{id}");
        let mut spec = pod_spec();
        spec["nodeName"] = json!(self.node_name(id));
        let pod = Object::within(Kind::POD, &self.installation.namespace, &name);
        if self.admin().get(&pod)?.is_none() {
            self.make(&json!({
                "apiVersion": Kind::POD.api_version(),
                "kind": Kind::POD.name(),
                "metadata": {"name": name, "namespace": self.installation.namespace, "ownerReferences": owners},
                "spec": spec,
            }))?;
        }
        Ok(name)
    }

    /// The Node object of a node that is ready.
    pub(super) fn make_node(&mut self, id: NodeId) -> Result<()> {
        let name = self.node_name(id);
        self.make(&json!({
            "apiVersion": Kind::NODE.api_version(),
            "kind": Kind::NODE.name(),
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }))?;
        let addresses = json!([
            {"type": "InternalIP", "address": id.address().to_string()},
            {"type": "Hostname", "address": name},
        ]);
        let patch = json!({"status": {"addresses": addresses}});
        self.admin().merge_status(&self.node_object(id), "kubelet", &patch)?;
        self.set_conditions(id, true, false)
    }
}

fn slice_of(service: &str) -> String {
    format!("{service}-1")
}

fn pod_spec() -> Value {
    json!({
        "serviceAccountName": ACCOUNT,
        "automountServiceAccountToken": false,
        "containers": [{"name": ACCOUNT, "image": "vipward"}],
    })
}
