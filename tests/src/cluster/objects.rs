//! Reads and writes the objects of a cluster that scenarios use.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    admin::{Kind, Object},
    install::ACCOUNT,
    node::NodeId,
    options::PATIENCE,
    running::Cluster,
    service::{ADDRESSES, Endpoint, ServiceSpec},
};
use crate::{frames::Family, kit::interrupt::poll};

/// Event, with the fields that scenarios use.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventNote {
    /// Kind and name of its object.
    pub regarding: String,
    pub reason: String,
    pub note: String,
}

impl Cluster {
    /// Returns a cell of a VIP's row in `kubectl get vip`.
    pub fn cell(&self, vip: impl Into<IpAddr>, column: &str) -> Result<String> {
        let vip = vip.into();
        let table = self.admin().table(Kind::VIRTUAL_IP)?;
        let (titles, rows) = table.split_first().context("a table has titles")?;
        let at = titles.iter().position(|title| title == column);
        let at = at.with_context(|| format!("no column {column}"))?;
        let row = rows.iter().find(|row| row.first().is_some_and(|name| *name == name_of_claim(vip)));
        let row = row.with_context(|| format!("no row of {vip}"))?;
        ensure!(at < row.len(), "the row of {vip} ends before {column}: {row:?}");
        Ok(row[at].clone())
    }

    /// Identifies the object of a Service. The Service `b/web` is in the namespace of the tenant
    /// `b`, and all functions take such names.
    pub fn service(&self, name: &str) -> Object {
        let (namespace, name) = self.place_of(name);
        Object::within(Kind::SERVICE, namespace, name)
    }

    /// Identifies the object of a VIP's claim.
    pub fn virtual_ip(&self, vip: impl Into<IpAddr>) -> Object {
        Object::cluster_scoped(Kind::VIRTUAL_IP, name_of_claim(vip.into()))
    }

    pub fn create_service(&self, service: &ServiceSpec) -> Result<()> {
        let (namespace, name) = self.place_of(&service.name);
        let manifest = json!({
            "apiVersion": Kind::SERVICE.api_version(),
            "kind": Kind::SERVICE.name(),
            "metadata": {"name": name, "namespace": namespace, "annotations": service.annotations},
            "spec": service.spec,
        });
        self.admin().create(&manifest).map(drop)
    }

    /// Applies a merge patch to a Service.
    pub fn patch_service(&self, name: &str, patch: &Value) -> Result<()> {
        self.admin().merge(&self.service(name), patch).map(drop)
    }

    /// Sets or removes an annotation of a Service.
    pub fn annotate_service(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        self.patch_service(name, &json!({"metadata": {"annotations": {key: value}}}))
    }

    /// Changes the VIP that a Service requests.
    pub fn set_address(&self, name: &str, vip: impl Into<IpAddr>) -> Result<()> {
        self.annotate_service(name, ADDRESSES, Some(&vip.into().to_string()))
    }

    /// Sets `externalTrafficPolicy`.
    pub fn set_policy(&self, name: &str, policy: &str) -> Result<()> {
        self.patch_service(name, &json!({"spec": {"externalTrafficPolicy": policy}}))
    }

    pub fn delete_service(&self, name: &str) -> Result<bool> {
        self.admin().delete(&self.service(name))
    }

    /// Writes a Service's status, as another controller does.
    pub fn set_ingress(&self, name: &str, manager: &str, vips: &[Ipv4Addr]) -> Result<()> {
        let ingress: Vec<_> = vips.iter().map(|vip| json!({"ip": vip.to_string()})).collect();
        // Controllers omit an empty list.
        let ingress = Some(ingress).filter(|ingress| !ingress.is_empty());
        let patch = json!({"status": {"loadBalancer": {"ingress": ingress}}});
        self.admin().merge_status(&self.service(name), manager, &patch).map(drop)
    }

    /// Returns the addresses in a Service's status.
    pub fn ingress(&self, name: &str) -> Result<Vec<String>> {
        let service = self.admin().get(&self.service(name))?;
        let ingress = service.map(|mut service| service["status"]["loadBalancer"]["ingress"].take());
        let ingress = ingress.and_then(|ingress| ingress.as_array().cloned()).unwrap_or_default();
        Ok(ingress.iter().filter_map(|entry| entry["ip"].as_str().map(str::to_owned)).collect())
    }

    /// Waits until a Service's status has this VIP and no other.
    pub fn wait_for_ingress(&self, name: &str, vip: impl Into<IpAddr>) -> Result<()> {
        self.wait_for_addresses(name, &[vip.into()])
    }

    /// Waits until a Service's status has these VIPs in this order and no others.
    pub fn wait_for_addresses(&self, name: &str, vips: &[IpAddr]) -> Result<()> {
        let vips: Vec<_> = vips.iter().map(IpAddr::to_string).collect();
        let what = format!("the status of Service {name} to be {vips:?}");
        poll(PATIENCE, &what, || Ok((self.ingress(name)? == vips).then_some(())))
    }

    /// Replaces the endpoints of a Service. Without endpoints, its `EndpointSlice` is empty.
    pub fn set_endpoints(&self, service: &str, endpoints: &[Endpoint]) -> Result<()> {
        let described = endpoints.iter().zip(1..).map(|(endpoint, number): (_, u8)| {
            let Endpoint { node, ready, serving, terminating } = endpoint;
            json!({
                "addresses": [Ipv4Addr::new(10, 0, node.0, number)],
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "nodeName": self.node_name(*node),
            })
        });
        let described: Vec<_> = described.collect();
        let (namespace, service) = self.place_of(service);
        let manifest = json!({
            "apiVersion": Kind::ENDPOINT_SLICE.api_version(),
            "kind": Kind::ENDPOINT_SLICE.name(),
            "metadata": {
                "name": slice_of(service),
                "namespace": namespace,
                "labels": {"kubernetes.io/service-name": service},
            },
            "addressType": "IPv4",
            "ports": [{"name": "port", "protocol": "TCP", "port": 8080}],
            "endpoints": described,
        });
        self.admin().put(&manifest).map(drop)
    }

    pub fn delete_endpoints(&self, service: &str) -> Result<bool> {
        let (namespace, service) = self.place_of(service);
        self.admin().delete(&Object::within(Kind::ENDPOINT_SLICE, namespace, slice_of(service)))
    }

    pub fn cordon(&self, id: NodeId) -> Result<()> {
        self.patch_node(id, &json!({"spec": {"unschedulable": true}}))
    }

    pub fn uncordon(&self, id: NodeId) -> Result<()> {
        self.patch_node(id, &json!({"spec": {"unschedulable": null}}))
    }

    /// Replaces a node's taints: key and effect of each.
    pub fn set_taints(&self, id: NodeId, taints: &[(&str, &str)]) -> Result<()> {
        let taints: Vec<_> =
            taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        self.patch_node(id, &json!({"spec": {"taints": taints}}))
    }

    /// Sets or removes a label of a node.
    pub fn label_node(&self, id: NodeId, key: &str, value: Option<&str>) -> Result<()> {
        self.patch_node(id, &json!({"metadata": {"labels": {key: value}}}))
    }

    pub fn set_conditions(&self, id: NodeId, ready: bool, network_unavailable: bool) -> Result<()> {
        let text = |is: bool| if is { "True" } else { "False" };
        let conditions = json!([
            {"type": "Ready", "status": text(ready), "reason": "Test", "message": ""},
            {"type": "NetworkUnavailable", "status": text(network_unavailable), "reason": "Test", "message": ""},
        ]);
        let patch = json!({"status": {"conditions": conditions}});
        self.admin().merge_status(&self.node_object(id), "kubelet", &patch).map(drop)
    }

    /// Applies a merge patch to a Node.
    pub fn patch_node(&self, id: NodeId, patch: &Value) -> Result<()> {
        self.admin().merge(&self.node_object(id), patch).map(drop)
    }

    pub fn virtual_ips(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::VIRTUAL_IP, None)
    }

    /// Returns all Leases in the agents' own namespace.
    pub fn leases(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::LEASE, Some(&self.installation.namespace))
    }

    /// Returns the Lease of a node's session, if there is one.
    pub fn lease_of(&self, id: NodeId) -> Result<Option<Object>> {
        let holder = format!("{}/", self.node_name(id));
        let of_node = |lease: &&Value| {
            lease["spec"]["holderIdentity"].as_str().is_some_and(|identity| identity.starts_with(&holder))
        };
        self.leases()?.iter().find(of_node).map(Object::of).transpose()
    }

    /// Returns the session in a node's Lease, unless it has ended.
    pub fn session(&self, id: NodeId) -> Result<Option<String>> {
        let Some(object) = self.lease_of(id)? else { return Ok(None) };
        let lease = self.admin().get(&object)?;
        Ok(lease.and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned)))
    }

    /// Returns the number of times that a VIP's claim has changed its holder.
    pub fn epoch(&self, vip: impl Into<IpAddr>) -> Result<Option<i64>> {
        let claim = self.admin().get(&self.virtual_ip(vip))?;
        Ok(claim.and_then(|claim| claim["spec"]["epoch"].as_i64()))
    }

    /// Returns the holder in a VIP's claim.
    pub fn holder(&self, vip: impl Into<IpAddr>) -> Result<Option<NodeId>> {
        let claim = self.admin().get(&self.virtual_ip(vip))?;
        let name = claim.as_ref().and_then(|claim| claim["spec"]["holder"].as_str());
        Ok(name.and_then(|name| self.members.iter().map(|m| m.id).find(|id| self.node_name(*id) == name)))
    }

    /// Returns holder and epoch of each VIP.
    pub fn places(&self, vips: &[IpAddr]) -> Result<Vec<(Option<NodeId>, Option<i64>)>> {
        vips.iter().map(|vip| Ok((self.holder(*vip)?, self.epoch(*vip)?))).collect()
    }

    /// Returns all Events, from the newer of their two API groups.
    pub(super) fn events(&self) -> Result<Vec<Value>> {
        self.admin().list(Kind::EVENT, None)
    }

    /// Returns the Events about an object of that name
    /// since this cluster exists, ordered by reason.
    pub fn events_about(&self, name: &str) -> Result<Vec<EventNote>> {
        let mut notes = Vec::new();
        let tenant = name.split_once('/').map(|(tenant, _)| self.namespace_of(tenant));
        let (_, name) = self.place_of(name);
        for event in self.events()? {
            let field = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let is_theirs =
                tenant.as_ref().is_none_or(|tenant| event["regarding"]["namespace"] == tenant.as_str());
            if event["regarding"]["name"] == name
                && is_theirs
                && !self.events_before.contains(&Object::of(&event)?)
            {
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

    /// Returns the Events about an object of that name with `part` in their note, as objects.
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

    /// Waits for an Event about an object of that name with all of `parts` in its note.
    pub fn wait_for_event(&self, name: &str, parts: &[&str]) -> Result<EventNote> {
        let mut last = Vec::new();
        let found = poll(PATIENCE, &format!("an Event about {name}: {parts:?}"), || {
            last = self.events_about(name)?;
            Ok(last.iter().find(|event| parts.iter().all(|part| event.note.contains(part))).cloned())
        });
        found.with_context(|| format!("its Events: {last:#?}"))
    }

    /// Returns the number of the agents' writes, except to Leases.
    /// Returns `None` for a real API server, which does not count them.
    pub fn writes_beside_leases(&mut self) -> Option<u64> {
        let stats = self.api_mut().in_this_process()?.stats();
        let of_agent = format!("{ACCOUNT}@");
        Some(stats.count(|kind| {
            kind.verb.is_write() && kind.resource != "leases" && kind.user.starts_with(&of_agent)
        }))
    }

    /// Deletes the `DaemonSet`, the first step of an uninstall and of a replacement. The test must
    /// end the agents.
    pub fn delete_daemon_set(&self) -> Result<bool> {
        self.admin().delete(&self.daemon_set())
    }

    fn daemon_set(&self) -> Object {
        Object::within(Kind::DAEMON_SET, &self.installation.namespace, ACCOUNT)
    }

    /// Deletes the Pod of a node's agent. The next start makes another, of the present `DaemonSet`.
    pub fn delete_pod(&self, id: NodeId) -> Result<bool> {
        self.admin().delete(&self.pod(id))
    }

    /// Deletes the Pod of a node's agent without Kubernetes' grace period. Tokens that are bound to it end.
    pub fn delete_pod_for_good(&self, id: NodeId) -> Result<()> {
        self.admin().delete_for_good(&self.pod(id))
    }

    pub(super) fn pod(&self, id: NodeId) -> Object {
        Object::within(Kind::POD, &self.installation.namespace, format!("{ACCOUNT}-{id}"))
    }

    /// Creates a `DaemonSet` that schedules nothing: the agents are processes of the test.
    pub fn make_daemon_set(&mut self) -> Result<()> {
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

    /// Creates the Pod of a node's agent, and returns its name.
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
        let pod = self.pod(id);
        let name = pod.name.clone();
        let mut spec = pod_spec();
        spec["nodeName"] = json!(self.node_name(id));
        if self.admin().get(&pod)?.is_none() {
            self.make(&json!({
                "apiVersion": Kind::POD.api_version(),
                "kind": Kind::POD.name(),
                "metadata": {
                    "name": name,
                    "namespace": self.installation.namespace,
                    "labels": {"app.kubernetes.io/name": ACCOUNT},
                    "ownerReferences": owners,
                },
                "spec": spec,
            }))?;
        }
        Ok(name)
    }

    /// Returns the Node object of a ready node.
    pub(super) fn make_node(&mut self, id: NodeId) -> Result<()> {
        let name = self.node_name(id);
        self.make(&json!({
            "apiVersion": Kind::NODE.api_version(),
            "kind": Kind::NODE.name(),
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        }))?;
        self.set_addresses(id, &[])?;
        self.set_conditions(id, true, false)
    }

    /// Sets the addresses in a Node's status: its own on the segment, and others.
    pub(super) fn set_addresses(&self, id: NodeId, others: &[IpAddr]) -> Result<()> {
        let own = [id.address_in(Family::V4), id.address_in(Family::V6)];
        let addresses = own.iter().chain(others);
        let addresses =
            addresses.map(|address| json!({"type": "InternalIP", "address": address.to_string()}));
        let name = json!({"type": "Hostname", "address": self.node_name(id)});
        let patch = json!({"status": {"addresses": addresses.chain([name]).collect::<Vec<_>>()}});
        self.admin().merge_status(&self.node_object(id), "kubelet", &patch).map(drop)
    }
}

/// Returns the name of a VIP's object: the address, of IPv6 with all digits and with hyphens.
fn name_of_claim(vip: IpAddr) -> String {
    match vip {
        IpAddr::V4(vip) => vip.to_string(),
        IpAddr::V6(vip) => {
            let groups = vip
                .octets()
                .chunks(2)
                .map(|pair| format!("{:02x}{:02x}", pair[0], pair[1]))
                .collect::<Vec<_>>();
            groups.join("-")
        }
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
