//! What a Service says when it says nothing: the defaults that clients rely on.
//!
//! No cluster address or node port is allocated.

use serde_json::{Map, Value, json};

/// Fills in the defaults.
pub(super) fn fill_in(service: &mut Value) {
    let Some(service) = service.as_object_mut() else { return };
    if let Some(spec) = service.get_mut("spec").and_then(Value::as_object_mut) {
        fill_in_spec(spec);
    }
    let status = service.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let balancer = status.entry("loadBalancer").or_insert_with(|| json!({}));
    let ingress = balancer.get_mut("ingress").and_then(Value::as_array_mut);
    for entry in ingress.into_iter().flatten().filter_map(Value::as_object_mut) {
        if entry.contains_key("ip") {
            default(entry, "ipMode", "VIP");
        }
    }
}

fn fill_in_spec(spec: &mut Map<String, Value>) {
    default(spec, "type", "ClusterIP");
    default(spec, "sessionAffinity", "None");
    let kind = spec.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind != "ExternalName" {
        default(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" || kind == "NodePort" {
        default(spec, "externalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        default(spec, "allocateLoadBalancerNodePorts", true);
    }
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        default(port, "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "targetPort", number);
        }
    }
}

fn default(map: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    map.entry(name).or_insert_with(|| value.into());
}
