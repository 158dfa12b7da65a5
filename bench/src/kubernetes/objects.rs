//! The Services of the cluster and their `EndpointSlices`, as large as those of real clusters.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// The field manager of another product that assigns addresses.
pub(super) const ADDRESS_MANAGER: &str = "address-manager";

/// Source of a Service's VIP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// An address manager has written it into the status.
    Status,
    /// Vipward's annotation. The VIP's holder writes the status.
    Annotation,
}

impl Source {
    /// Returns the source of a Service's VIP. Half of the Services have each.
    pub(super) fn of(number: u32) -> Self {
        if number.is_multiple_of(2) { Self::Status } else { Self::Annotation }
    }
}

pub(super) fn name(number: u32) -> String {
    format!("shop-frontend-{number:05}")
}

/// Returns a Service that names a VIP.
pub(super) fn service(number: u32, namespace: &str, vip: Ipv4Addr) -> Value {
    let mut service = service_without_vip(number, namespace);
    match Source::of(number) {
        Source::Status => service["status"] = status(vip),
        Source::Annotation => {
            service["metadata"]["annotations"]["vipward.io/addresses"] = json!(vip.to_string());
        }
    }
    service
}

/// Returns a Service as a package manager installs it. Its managed
/// fields are those that the API server keeps of this writer.
pub(super) fn service_without_vip(number: u32, namespace: &str) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/name": "shop-frontend",
                "app.kubernetes.io/instance": name,
                "app.kubernetes.io/version": "4.17.2",
                "app.kubernetes.io/component": "frontend",
                "app.kubernetes.io/part-of": "shop",
                "app.kubernetes.io/managed-by": "package-manager",
                "charts.example.com/chart": "shop-frontend-4.17.2",
                "team.example.com/owner": "storefront",
                "team.example.com/cost-centre": format!("cc-{:04}", number % 1_000),
            },
            "annotations": {
                "charts.example.com/release-name": name,
                "charts.example.com/release-namespace": namespace,
                "monitoring.example.com/scrape": "true",
                "monitoring.example.com/path": "/metrics",
                "monitoring.example.com/port": "9090",
                "docs.example.com/runbook": format!("https://runbooks.example.com/storefront/{name}#what-to-do"),
            },
        },
        "spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Cluster",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "allocateLoadBalancerNodePorts": false,
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "selector": {"app.kubernetes.io/name": "shop-frontend", "app.kubernetes.io/instance": name},
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "targetPort": "http"},
                {"name": "https", "protocol": "TCP", "port": 443, "targetPort": "https"},
                {"name": "metrics", "protocol": "TCP", "port": 9_090, "targetPort": "metrics"},
            ],
        },
    })
}

/// Returns a status that names one VIP.
pub(super) fn status(vip: Ipv4Addr) -> Value {
    json!({"loadBalancer": {"ingress": [{"ip": vip.to_string()}]}})
}

/// Returns a slice with two endpoints of a Service, on two of these nodes.
pub(super) fn slice(number: u32, namespace: &str, nodes: &[String]) -> Value {
    let service = name(number);
    let endpoints = [0, 1].map(|replica: u32| {
        let [_, a, b, c] = (2 * number + replica).to_be_bytes();
        let node = &nodes[usize::from(c) % nodes.len()];
        json!({
            "addresses": [Ipv4Addr::new(172, 16 | (a & 0x0f), b, c).to_string()],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": node,
            "targetRef": {
                "kind": "Pod",
                "namespace": namespace,
                "name": format!("{service}-6f7d8c9b5d-{replica:05}"),
                "uid": format!("00000000-0000-4000-8000-{:012}", 2 * number + replica),
            },
            "zone": "zone-a",
        })
    });
    let port = |name: &str, port: u16| json!({"name": name, "protocol": "TCP", "port": port});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-x7k2p"),
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                "app.kubernetes.io/name": "shop-frontend",
                "app.kubernetes.io/instance": service,
            },
        },
        "addressType": "IPv4",
        "ports": [port("http", 8_080), port("https", 8_443), port("metrics", 9_090)],
        "endpoints": endpoints,
    })
}
