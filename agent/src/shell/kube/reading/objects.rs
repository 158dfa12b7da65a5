//! Objects parsed into the core's records. The parser skips the other fields.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::{Arc, LazyLock},
};

use ipnet::IpNet;
use k8s_openapi::api::{
    core::v1::{LoadBalancerIngress, LoadBalancerStatus, NodeAddress, NodeCondition, ServicePort, Taint},
    discovery::v1::{EndpointConditions, EndpointPort},
};
use serde::Deserialize;
use thiserror::Error;
use vipward_core::{
    pools::{Family, PoolRecord},
    records::{NodeName, NodeRecord, PoolKind, ServiceName, Version, object_name, vip_named},
    reports::outbox::{ApiObject, ObjectFault},
    services::{
        Annotations, EndpointsRecord, FIELD_MANAGER, FamilyPolicy, Ingress, IpMode, OtherController, Port,
        ProblemReason, Protocol, ServiceRecord, Writer, oversights_on,
    },
};

use super::{read_error::ReadError, seen::Seen, shared::Kube};
use crate::shell::{
    kernel::liveness::Keys,
    kube::kinds::{
        claims::{self, ClaimError},
        leases,
        meta::{Bare, Meta, VERSION},
        metallb::{self, MetalLb},
        resource::Resource,
        secret,
        vip_pool::{self, VipPoolSpec},
        virtual_ip::{FORCE, MOVE_TO, RELEASE},
    },
};

#[cfg(test)]
mod tests;

/// The label that names the Service of an `EndpointSlice`.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The slice that the API servers write themselves.
const API_SERVERS: &str = "kubernetes";
/// The annotation of a Namespace whose Services may share their VIPs with those of others.
const SHARE_WITH: &str = "vipward.io/share-with";
/// The taint of a node that an operator has declared dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Optional readings, besides those that are always done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// The labels of Services.
    pub service_labels: bool,
    /// The statuses that are from `MetalLB`, and the former names of its annotations.
    pub metallb: bool,
    /// True for a controller. It needs the pools, without which no list ends: the reader tries again while the
    /// API server refuses to list them, or does not know `VIPPool` yet. And it reports the faults of objects.
    pub is_controllers: bool,
}

impl Reading {
    /// Returns true if a list that fails with this error is over: nothing is known of the type, and
    /// nothing waits for it.
    pub(crate) fn does_without(self, resource: Resource, error: &ReadError) -> bool {
        // Without MetalLB's types there are no pools of MetalLB. Pools that this process may not list
        // can have addresses, which must not be freed.
        let is_refused_pool = resource == Resource::MetalLb(MetalLb::IpAddressPools) && error.is_forbidden();
        let is_needed = self.is_controllers && (resource == Resource::VipPools || is_refused_pool);
        resource.is_optional() && error.is_lasting() && !is_needed
    }
}

#[derive(Debug, Error)]
pub(crate) enum ObjectError {
    #[error("it is not of the form that its type has")]
    Json(#[from] serde_json::Error),
    #[error("it has no name")]
    Nameless,
    #[error("it is no claim")]
    Claim(#[from] ClaimError),
}

pub(crate) struct Parsed {
    pub(crate) identity: Identity,
    pub(crate) seen: Seen,
    /// True if the agent uses the object. An unused object is passed on only if it was used before.
    pub(crate) is_used: bool,
    /// The object and its annotations that have no effect, if there are any.
    pub(crate) fault: Option<(ApiObject, ObjectFault)>,
}

#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// `namespace/name`, or the name of an object without a namespace.
    pub(crate) name: Box<str>,
    pub(crate) version: String,
}

pub(crate) fn identity(object: &str) -> Result<Identity, serde_json::Error> {
    let Bare { metadata } = serde_json::from_str(object)?;
    Ok(Identity { name: full_name(&metadata), version: metadata.resource_version })
}

fn full_name(metadata: &Meta) -> Box<str> {
    match &metadata.namespace {
        Some(namespace) => format!("{namespace}/{}", metadata.name).into(),
        None => metadata.name.as_str().into(),
    }
}

fn namespace_of(metadata: &Meta) -> Arc<str> {
    metadata.namespace.as_deref().unwrap_or_default().into()
}

/// Reads an object, and records the fields that a later write needs.
pub(crate) fn parse(
    resource: Resource,
    object: &str,
    kube: &Kube,
    reading: Reading,
) -> Result<Parsed, ObjectError> {
    let parsed = match resource {
        Resource::Services => {
            let record = service(serde_json::from_str(object)?, reading);
            let (name, version) = (record.name.to_string().into(), record.version.to_string());
            Parsed::new(name, version, Seen::Service(Box::new(record)))
        }
        Resource::EndpointSlices => slice(serde_json::from_str(object)?),
        Resource::ApiServers => api_servers(serde_json::from_str(object)?, kube),
        Resource::Nodes => node(serde_json::from_str(object)?, kube),
        Resource::Namespaces => namespace(serde_json::from_str(object)?, reading),
        Resource::ServiceCidrs => service_cidr(serde_json::from_str(object)?),
        Resource::VirtualIps => {
            let (record, known, metadata) = claims::read_with_metadata(object)?;
            kube.claims.learn(record.vip, known);
            let version = record.version.to_string();
            let fault = reading.fault(&metadata, (VERSION, "VirtualIP"), &[FORCE, MOVE_TO, RELEASE]);
            Parsed { fault, ..Parsed::new(object_name(record.vip).into(), version, Seen::Claim(record)) }
        }
        Resource::VipPools => pool(serde_json::from_str(object)?, reading),
        Resource::MetalLb(of) => of_metallb(of, object)?,
        Resource::WireSecret => {
            let secret::Read { version, keys, faults } = secret::read(object)?;
            let name = format!("{}/{}", kube.namespace, secret::SECRET).into();
            Parsed::new(name, version, Seen::WireKeys { keys, faults })
        }
        Resource::Leases => {
            let leases::Read { record, known, is_ours, leads } = leases::read(object)?;
            if is_ours {
                kube.leases.learn(&record.node, known);
            }
            let name = format!("{}/{}", kube.namespace, record.node).into();
            let version = record.version.to_string();
            if record.node.as_str() == leases::LEADER {
                let leader = Seen::Leader(leads.then_some(record.version));
                return Ok(Parsed::new(name, version, leader));
            }
            Parsed { is_used: is_ours, ..Parsed::new(name, version, Seen::Lease(record)) }
        }
    };
    let name = &parsed.identity.name;
    let is_nameless = name.is_empty() || name.ends_with('/');
    if is_nameless { Err(ObjectError::Nameless) } else { Ok(parsed) }
}

pub(crate) fn gone(resource: Resource, name: &str, kube: &Kube) -> Option<Seen> {
    let in_namespace = || name.split_once('/');
    Some(match resource {
        Resource::Services => {
            let (namespace, name) = in_namespace()?;
            Seen::ServiceGone(ServiceName { namespace: namespace.into(), name: name.into() })
        }
        Resource::EndpointSlices => {
            let (namespace, slice) = in_namespace()?;
            Seen::SliceGone { namespace: namespace.into(), slice: slice.into() }
        }
        Resource::ApiServers => {
            let (_, slice) = in_namespace()?;
            if slice == API_SERVERS {
                kube.server.servers().set_endpoints(Vec::new());
            }
            Seen::ApiServers { slice: slice.into(), addresses: Vec::new() }
        }
        Resource::Nodes => {
            kube.server.servers().set_node(name.into(), Vec::new());
            Seen::NodeGone(name.into())
        }
        Resource::Namespaces => Seen::NamespaceGone(name.into()),
        Resource::ServiceCidrs => Seen::ServiceCidr { name: name.into(), nets: Vec::new() },
        Resource::VirtualIps => {
            let vip = vip_named(name)?;
            kube.claims.forget(vip);
            Seen::ClaimGone(vip)
        }
        Resource::VipPools => Seen::PoolGone(name.into()),
        Resource::MetalLb(MetalLb::IpAddressPools) => {
            Seen::PoolGone(PoolKind::IpAddressPool.key(in_namespace()?.1))
        }
        Resource::MetalLb(MetalLb::L2Advertisements) => Seen::L2AdvertisementGone(in_namespace()?.1.into()),
        Resource::MetalLb(
            of @ (MetalLb::BgpAdvertisements
            | MetalLb::BgpPeers
            | MetalLb::BfdProfiles
            | MetalLb::Communities),
        ) => Seen::UnservedGone { of, name: in_namespace()?.1.into() },
        Resource::WireSecret => Seen::WireKeys { keys: Keys::default(), faults: Vec::new() },
        Resource::Leases => {
            let name = in_namespace()?.1;
            if name == leases::LEADER {
                return Some(Seen::Leader(None));
            }
            let node = NodeName::from(name);
            kube.leases.forget(&node);
            Seen::LeaseGone(node)
        }
    })
}

impl Reading {
    /// Returns an object that is no Service, with its annotations that have no effect. `known` has those that have
    /// one.
    fn fault(
        self,
        metadata: &Meta,
        (version, kind): (&'static str, &'static str),
        known: &'static [&'static str],
    ) -> Option<(ApiObject, ObjectFault)> {
        let names = metadata.annotation_names().filter(|_| self.is_controllers);
        let words = oversights_on(kind, names, known);
        let reason = ProblemReason::UnknownAnnotation;
        let fault = (!words.is_empty()).then_some(ObjectFault { reason, words })?;
        let (name, uid) = (metadata.name.as_str().into(), metadata.uid.as_deref().unwrap_or_default().into());
        Some((ApiObject { version, kind, namespace: namespace_of(metadata), name, uid }, fault))
    }
}

impl Parsed {
    fn new(name: Box<str>, version: String, seen: Seen) -> Self {
        Self { identity: Identity { name, version }, seen, is_used: true, fault: None }
    }
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: ServiceSpec,
    #[serde(default)]
    status: ServiceStatus,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    load_balancer_class: Option<Box<str>>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<Box<str>>,
    #[serde(rename = "externalIPs")]
    external_ips: Option<Vec<String>>,
    external_traffic_policy: Option<String>,
    #[serde(default)]
    health_check_node_port: Option<u16>,
    ip_families: Option<Vec<String>>,
    ip_family_policy: Option<String>,
    ports: Option<Vec<ServicePort>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancerStatus,
}

/// The finalizer of a Service for which a cloud controller has made a load balancer.
const CLOUD_FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

pub(crate) fn read_service(object: &str) -> Result<ServiceRecord, serde_json::Error> {
    Ok(service(serde_json::from_str(object)?, Reading::default()))
}

fn service(Service { metadata, spec, status }: Service, reading: Reading) -> ServiceRecord {
    let name = ServiceName { namespace: namespace_of(&metadata), name: metadata.name.as_str().into() };
    let (Writer { manager: status_manager, since: status_since }, status_shared) = status_manager(&metadata);
    let is_from_metallb = |name: &str| reading.metallb && metallb::is_from_metallb(name, &metadata);
    let status_from_metallb = status_manager.as_deref().is_some_and(is_from_metallb);
    let annotation = |name: &str| {
        if reading.metallb { metallb::annotation(&metadata, name) } else { metadata.annotation(name) }
    };
    let (families, names_families) = families(
        spec.ip_families.as_deref().unwrap_or_default(),
        spec.cluster_ips.as_deref().unwrap_or_default(),
    );
    let mut ingress: Vec<_> = status.load_balancer.ingress.iter().flatten().map(ingress).collect();
    ingress.shrink_to_fit();
    ServiceRecord {
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        version: Version::from(metadata.resource_version.as_str()),
        created: metadata.created(),
        annotations: Annotations::read(
            annotation,
            metadata.annotation_names(),
            if reading.metallb { metallb::overridden(&metadata) } else { Vec::new() },
        ),
        cluster_ips: spec.cluster_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
        load_balancer: spec.kind == "LoadBalancer",
        class: spec.load_balancer_class.map(Into::into),
        families,
        family_policy: FamilyPolicy {
            names: names_families,
            needs_all: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
        },
        load_balancer_ip: spec.load_balancer_ip.filter(|ip| !ip.is_empty()),
        external_ips: spec.external_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect(),
        ingress,
        status_manager,
        status_shared,
        status_since,
        status_from_metallb,
        has_cloud_balancer: metadata.finalizers.iter().flatten().any(|it| it == CLOUD_FINALIZER),
        other_controller: OtherController::read(|name| metadata.annotation(name).is_some()),
        local: spec.external_traffic_policy.as_deref() == Some("Local"),
        health_check_port: spec.health_check_node_port.filter(|port| *port > 0),
        ports: spec.ports.iter().flatten().filter_map(port).collect(),
        deleting: metadata.is_deleting(),
        finalizers: metadata
            .finalizers
            .as_ref()
            .filter(|all| metadata.is_deleting() && !all.is_empty())
            .map(|all| all.join(", ").into()),
        name,
        labels: metadata
            .labels
            .as_ref()
            .filter(|_| reading.service_labels)
            .map(Into::into)
            .unwrap_or_default(),
    }
}

pub(crate) fn read_pool(object: &str) -> Result<PoolRecord, serde_json::Error> {
    let Pool { metadata, spec } = serde_json::from_str(object)?;
    Ok(vip_pool::record(&metadata, spec))
}

pub(crate) fn read_metallb_pool(object: &str) -> Result<PoolRecord, serde_json::Error> {
    let Foreign { metadata, spec } = serde_json::from_str(object)?;
    Ok(metallb::pool(&metadata, spec))
}

/// Returns the families of a Service, and true if it names them. Without `spec.ipFamilies` it has the
/// families of the cluster IPs; without any, it has IPv4.
fn families(named: &[String], cluster_ips: &[String]) -> (Vec<Family>, bool) {
    let mut families: Vec<Family> = named
        .iter()
        .filter_map(|name| [Family::V4, Family::V6].into_iter().find(|family| family.name() == name))
        .collect();
    let are_named = !families.is_empty();
    if !are_named {
        let addresses = cluster_ips.iter().filter_map(|ip| ip.parse().ok());
        families.extend(addresses.map(Family::of));
    }
    families.dedup();
    (if families.is_empty() { vec![Family::V4] } else { families }, are_named)
}

/// Returns the manager that has written the addresses, and true if the agents have written some
/// too. If there are several managers, returns one other than the agents.
fn status_manager(metadata: &Meta) -> (Writer, bool) {
    /// The shared text of the agents' name, since most Services have it.
    static OURS: LazyLock<Arc<str>> = LazyLock::new(|| FIELD_MANAGER.into());
    let entries = metadata.managed_fields.iter().flatten().filter(|entry| entry.has_written_ingress());
    let (ours, others): (Vec<_>, Vec<_>) = entries
        .filter_map(|entry| Some((entry.manager.as_deref()?, entry.time())))
        .partition(|(manager, _)| *manager == FIELD_MANAGER);
    match (others.first(), ours.first()) {
        (Some((other, since)), ours) => {
            (Writer { manager: Some((*other).into()), since: *since }, ours.is_some())
        }
        (None, Some((_, since))) => (Writer { manager: Some(Arc::clone(&OURS)), since: *since }, false),
        (None, None) => (Writer { manager: None, since: None }, false),
    }
}

fn ingress(LoadBalancerIngress { ip, ip_mode, .. }: &LoadBalancerIngress) -> Ingress {
    let mode = match ip_mode.as_deref() {
        None | Some("VIP" | "") => IpMode::Vip,
        Some(_) => IpMode::Proxy,
    };
    Ingress { ip: ip.as_deref().and_then(|ip| ip.parse().ok()), mode }
}

fn port(ServicePort { port, protocol, .. }: &ServicePort) -> Option<Port> {
    let protocol = match protocol.as_deref() {
        None | Some("TCP") => Protocol::Tcp,
        Some("UDP") => Protocol::Udp,
        Some("SCTP") => Protocol::Sctp,
        Some(_) => return None,
    };
    Some(Port { port: u16::try_from(*port).ok()?, protocol })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EndpointSlice {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    address_type: String,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
    #[serde(default)]
    ports: Option<Vec<EndpointPort>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
    #[serde(default)]
    node_name: Option<String>,
    #[serde(default)]
    conditions: EndpointConditions,
}

fn slice(EndpointSlice { metadata, address_type, endpoints, .. }: EndpointSlice) -> Parsed {
    let full_name = full_name(&metadata);
    let of = metadata.label(SERVICE_NAME).unwrap_or_default();
    let is_ipv6 = address_type == "IPv6";
    let is_used = (is_ipv6 || address_type == "IPv4") && !of.is_empty();
    let service = ServiceName { namespace: namespace_of(&metadata), name: of.into() };
    let mut record = EndpointsRecord {
        slice: metadata.name.as_str().into(),
        service,
        ready: BTreeSet::new(),
        serving_terminating: BTreeSet::new(),
        ready_elsewhere: false,
        is_ipv6,
    };
    for Endpoint { node_name, conditions, .. } in endpoints.unwrap_or_default() {
        // The API defines absent conditions so: ready, and serving if ready.
        let ready = conditions.ready.unwrap_or(true);
        let lingers = conditions.terminating.unwrap_or(false) && conditions.serving.unwrap_or(ready);
        match node_name {
            Some(node) if ready => drop(record.ready.insert(node.as_str().into())),
            Some(node) if lingers => drop(record.serving_terminating.insert(node.as_str().into())),
            None if ready => record.ready_elsewhere = true,
            Some(_) | None => {}
        }
    }
    Parsed { is_used, ..Parsed::new(full_name, metadata.resource_version, Seen::Slice(record)) }
}

/// Reads a slice in the namespace `default`.
fn api_servers(EndpointSlice { metadata, endpoints, ports, .. }: EndpointSlice, kube: &Kube) -> Parsed {
    let is_used = metadata.label(SERVICE_NAME) == Some("kubernetes");
    let endpoints = endpoints.filter(|_| is_used).unwrap_or_default();
    let of = |endpoint: &Endpoint| -> Vec<IpAddr> {
        endpoint.addresses.iter().filter_map(|address| address.parse().ok()).collect()
    };
    let ready = endpoints.iter().filter(|endpoint| endpoint.conditions.ready != Some(false)).flat_map(of);
    let port = ports.unwrap_or_default().first().and_then(|port| u16::try_from(port.port?).ok());
    let sockets = ready.filter_map(|address| Some(SocketAddr::new(address, port?))).collect();
    if metadata.name == API_SERVERS {
        kube.server.servers().set_endpoints(sockets);
    }
    let addresses = endpoints.iter().flat_map(of).collect();
    let seen = Seen::ApiServers { slice: metadata.name.as_str().into(), addresses };
    Parsed { is_used, ..Parsed::new(full_name(&metadata), metadata.resource_version, seen) }
}

#[derive(Deserialize)]
struct Node {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: NodeSpec,
    #[serde(default)]
    status: NodeStatus,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeSpec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Taint>>,
    #[serde(rename = "podCIDRs")]
    pod_cidrs: Option<Vec<String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeStatus {
    conditions: Option<Vec<NodeCondition>>,
    addresses: Option<Vec<NodeAddress>>,
}

fn node(Node { metadata, spec, status }: Node, kube: &Kube) -> Parsed {
    let conditions = status.conditions.unwrap_or_default();
    let is_true =
        |kind: &str| conditions.iter().any(|condition| condition.type_ == kind && condition.status == "True");
    let record = NodeRecord {
        name: metadata.name.as_str().into(),
        labels: metadata.labels.unwrap_or_default(),
        cordoned: spec.unschedulable.unwrap_or(false),
        ready: is_true("Ready"),
        network_unavailable: is_true("NetworkUnavailable"),
        out_of_service: spec.taints.iter().flatten().any(|taint| taint.key == OUT_OF_SERVICE),
    };
    let addresses = status.addresses.iter().flatten().filter_map(|entry| entry.address.parse().ok());
    let addresses: Vec<IpAddr> = addresses.collect();
    kube.server.servers().set_node(record.name.clone(), addresses.clone());
    let seen = Seen::Node { record, addresses, pod_cidrs: nets(spec.pod_cidrs.as_deref()) };
    Parsed::new(metadata.name.into(), metadata.resource_version, seen)
}

fn namespace(Bare { metadata }: Bare, reading: Reading) -> Parsed {
    let name: Arc<str> = metadata.name.as_str().into();
    let listed = metadata.annotation(SHARE_WITH).unwrap_or_default().split(',').map(str::trim);
    let share_with = listed.filter(|name| !name.is_empty()).map(Into::into).collect();
    let fault = reading.fault(&metadata, ("v1", "Namespace"), &[SHARE_WITH]);
    let seen = Seen::Namespace { name, labels: metadata.labels.unwrap_or_default(), share_with };
    Parsed { fault, ..Parsed::new(metadata.name.into(), metadata.resource_version, seen) }
}

#[derive(Deserialize)]
struct Pool {
    metadata: Meta,
    spec: VipPoolSpec,
}

fn pool(Pool { metadata, spec }: Pool, reading: Reading) -> Parsed {
    let fault = reading.fault(&metadata, (VERSION, "VIPPool"), &[]);
    let record = vip_pool::record(&metadata, spec);
    let seen = Seen::Pool(Box::new(record));
    Parsed { fault, ..Parsed::new(metadata.name.into(), metadata.resource_version, seen) }
}

/// An object with a spec that another program defines.
#[derive(Deserialize)]
struct Foreign<T> {
    metadata: Meta,
    spec: T,
}

fn of_metallb(of: MetalLb, object: &str) -> Result<Parsed, serde_json::Error> {
    let (metadata, seen) = match of {
        MetalLb::IpAddressPools => {
            let Foreign { metadata, spec } = serde_json::from_str(object)?;
            let record = metallb::pool(&metadata, spec);
            (metadata, Seen::Pool(Box::new(record)))
        }
        MetalLb::L2Advertisements => {
            let Foreign { metadata, spec } = serde_json::from_str(object)?;
            let record = metallb::advertisement(&metadata, spec);
            let object = of.object_of(&metadata);
            (metadata, Seen::L2Advertisement(Box::new(record), object))
        }
        MetalLb::BgpAdvertisements | MetalLb::BgpPeers | MetalLb::BfdProfiles | MetalLb::Communities => {
            let Bare { metadata } = serde_json::from_str(object)?;
            let object = of.object_of(&metadata);
            (metadata, Seen::Unserved(object))
        }
    };
    Ok(Parsed::new(full_name(&metadata), metadata.resource_version, seen))
}

#[derive(Deserialize)]
struct ServiceCidr {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: ServiceCidrSpec,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ServiceCidrSpec {
    cidrs: Option<Vec<String>>,
}

fn service_cidr(ServiceCidr { metadata, spec }: ServiceCidr) -> Parsed {
    let seen = Seen::ServiceCidr { name: metadata.name.as_str().into(), nets: nets(spec.cidrs.as_deref()) };
    Parsed::new(metadata.name.into(), metadata.resource_version, seen)
}

fn nets(texts: Option<&[String]>) -> Vec<IpNet> {
    texts.into_iter().flatten().filter_map(|net| net.parse().ok()).collect()
}
