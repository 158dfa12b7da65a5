//! The built-in types of Kubernetes that the server knows, with their defaults.

use k8s_openapi::ByteString;
use k8s_openapi::api::{
    admissionregistration, apps, coordination, core, discovery, events, flowcontrol, networking, policy, rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{
    checks,
    columns::Column,
    resource::{Builtin, Resource, Resources, Rules},
};
use crate::apiserver::refusal::Fault;

type Normalise = fn(Value) -> Result<Value, serde_json::Error>;
type Check = fn(Option<&Value>, &Value) -> Vec<Fault>;

/// Group, plural, kind, the reading function, and the check.
type Row = (&'static str, &'static str, &'static str, Normalise, Check);

const ADMISSION: &str = "admissionregistration.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const ANYTHING: Check = |_, _| Vec::new();

const NAMESPACED: [Row; 15] = [
    ("", "configmaps", "ConfigMap", typed::<core::v1::ConfigMap>, ANYTHING),
    (
        "",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        typed::<core::v1::PersistentVolumeClaim>,
        ANYTHING,
    ),
    ("", "pods", "Pod", typed::<core::v1::Pod>, ANYTHING),
    ("", "secrets", "Secret", secret, checks::secret),
    ("", "serviceaccounts", "ServiceAccount", typed::<core::v1::ServiceAccount>, ANYTHING),
    ("", "services", "Service", service, ANYTHING),
    ("apps", "daemonsets", "DaemonSet", daemon_set, ANYTHING),
    ("apps", "deployments", "Deployment", deployment, ANYTHING),
    ("coordination.k8s.io", "leases", "Lease", lease, checks::lease),
    ("discovery.k8s.io", "endpointslices", "EndpointSlice", typed::<discovery::v1::EndpointSlice>, ANYTHING),
    ("events.k8s.io", "events", "Event", event, checks::event),
    (
        "networking.k8s.io",
        "networkpolicies",
        "NetworkPolicy",
        typed::<networking::v1::NetworkPolicy>,
        ANYTHING,
    ),
    (
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        typed::<policy::v1::PodDisruptionBudget>,
        ANYTHING,
    ),
    (RBAC, "roles", "Role", typed::<rbac::v1::Role>, ANYTHING),
    (RBAC, "rolebindings", "RoleBinding", typed::<rbac::v1::RoleBinding>, ANYTHING),
];

const CLUSTER_SCOPED: [Row; 10] = [
    ("", "namespaces", "Namespace", typed::<core::v1::Namespace>, ANYTHING),
    ("", "nodes", "Node", typed::<core::v1::Node>, ANYTHING),
    ("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", definition, ANYTHING),
    // They can be installed. Nothing evaluates them.
    (
        ADMISSION,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        typed::<admissionregistration::v1::ValidatingAdmissionPolicy>,
        ANYTHING,
    ),
    (
        ADMISSION,
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
        typed::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
        ANYTHING,
    ),
    (
        ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        typed::<admissionregistration::v1::ValidatingWebhookConfiguration>,
        ANYTHING,
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        "FlowSchema",
        typed::<flowcontrol::v1::FlowSchema>,
        ANYTHING,
    ),
    ("networking.k8s.io", "servicecidrs", "ServiceCIDR", typed::<networking::v1::ServiceCIDR>, ANYTHING),
    (RBAC, "clusterroles", "ClusterRole", typed::<rbac::v1::ClusterRole>, ANYTHING),
    (RBAC, "clusterrolebindings", "ClusterRoleBinding", typed::<rbac::v1::ClusterRoleBinding>, ANYTHING),
];

pub(crate) fn add_to(resources: &Resources) {
    let all = NAMESPACED.into_iter().map(|row| (row, true));
    let all = all.chain(CLUSTER_SCOPED.into_iter().map(|row| (row, false)));
    for ((group, plural, kind, normalise, check), namespaced) in all {
        resources.add(Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
            short_names: (plural == "customresourcedefinitions")
                .then(|| "crd".to_owned())
                .into_iter()
                .collect(),
            namespaced,
            has_status: ["services", "nodes"].contains(&plural),
            rules: Rules::Builtin(Builtin { normalise, check }),
            columns: Column::defaults(),
            table: resources.new_table(),
        });
    }
}

/// Returns true if Kubernetes itself may have a group of this name.
pub(crate) fn is_builtin_group(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Reads an object as its Go type, and writes it again.
fn typed<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

fn lease(value: Value) -> Result<Value, serde_json::Error> {
    checks::micro_times(&value)?;
    typed::<coordination::v1::Lease>(value)
}

/// Moves `stringData`, which is never read back, into `data`.
fn secret(value: Value) -> Result<Value, serde_json::Error> {
    let mut secret: core::v1::Secret = serde_json::from_value(value)?;
    let written = secret.string_data.take().unwrap_or_default();
    if !written.is_empty() {
        let written = written.into_iter().map(|(name, text)| (name, ByteString(text.into_bytes())));
        secret.data.get_or_insert_default().extend(written);
    }
    secret.type_.get_or_insert_with(|| "Opaque".to_owned());
    serde_json::to_value(secret)
}

fn event(value: Value) -> Result<Value, serde_json::Error> {
    checks::micro_times(&value)?;
    typed::<events::v1::Event>(value)
}

fn definition(value: Value) -> Result<Value, serde_json::Error> {
    typed::<apiextensions::v1::CustomResourceDefinition>(value)
}

/// Fills in the defaults that clients rely on. No cluster address or node port is allocated.
fn service(value: Value) -> Result<Value, serde_json::Error> {
    let mut service = typed::<core::v1::Service>(value)?;
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        default(spec, "type", "ClusterIP");
        default(spec, "sessionAffinity", "None");
        default(spec, "internalTrafficPolicy", "Cluster");
        if spec["type"] == "LoadBalancer" {
            default(spec, "externalTrafficPolicy", "Cluster");
            default(spec, "allocateLoadBalancerNodePorts", true);
        }
        for port in items(spec.get_mut("ports")) {
            default(port, "protocol", "TCP");
            if let Some(number) = port.get("port").cloned() {
                default(port, "targetPort", number);
            }
        }
    }
    if service["status"]["loadBalancer"].is_null() {
        service["status"]["loadBalancer"] = json!({});
    }
    let ingress = service.pointer_mut("/status/loadBalancer/ingress");
    for entry in items(ingress).filter(|entry| entry.contains_key("ip")) {
        default(entry, "ipMode", "VIP");
    }
    Ok(service)
}

fn daemon_set(value: Value) -> Result<Value, serde_json::Error> {
    let mut set: apps::v1::DaemonSet = serde_json::from_value(value)?;
    let strategy = set.spec.get_or_insert_default().update_strategy.get_or_insert_default();
    strategy.type_.get_or_insert_with(|| "RollingUpdate".to_owned());
    serde_json::to_value(set)
}

/// Reports all replicas as available.
fn deployment(value: Value) -> Result<Value, serde_json::Error> {
    let mut deployment: apps::v1::Deployment = serde_json::from_value(value)?;
    let replicas = *deployment.spec.get_or_insert_default().replicas.get_or_insert(1);
    let status = deployment.status.get_or_insert_default();
    for count in [
        &mut status.replicas,
        &mut status.updated_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
    ] {
        *count = Some(replicas);
    }
    serde_json::to_value(deployment)
}

fn items(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.and_then(Value::as_array_mut).into_iter().flatten().filter_map(Value::as_object_mut)
}

fn default(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    map.entry(name).or_insert_with(|| value.into());
}
