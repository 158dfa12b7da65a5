use std::net::IpAddr;

use serde_json::{Value, json};
use vipward_core::{
    records::{Labels as _, ServiceLabels},
    services::StatusOwner,
};

use super::*;
use crate::shell::kube::testing;

fn parsed(resource: Resource, object: &Value, reading: Reading) -> Parsed {
    parse(resource, &object.to_string(), &testing::kube(), reading).expect("an object")
}

fn service_of(object: &Value) -> ServiceRecord {
    match parsed(Resource::Services, object, Reading::default()).seen {
        Seen::Service(record) => *record,
        other => panic!("no Service: {other:?}"),
    }
}

fn slice_of(object: &Value) -> EndpointsRecord {
    match parsed(Resource::EndpointSlices, object, Reading::default()).seen {
        Seen::Slice(record) => record,
        other => panic!("no EndpointSlice: {other:?}"),
    }
}

fn node_of(object: &Value) -> NodeRecord {
    match parsed(Resource::Nodes, object, Reading::default()).seen {
        Seen::Node { record, .. } => record,
        other => panic!("no Node: {other:?}"),
    }
}

fn names(nodes: &BTreeSet<NodeName>) -> Vec<&str> {
    nodes.iter().map(NodeName::as_str).collect()
}

#[test]
fn a_service_is_read_as_far_as_it_is_used() {
    let object = json!({
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u-1", "resourceVersion": "12",
            "labels": {"app": "web"}, "creationTimestamp": "2026-11-23T14:24:32Z",
            "annotations": {
                "vipward.io/addresses": "192.0.2.10", "vipward.io/adresses": "192.0.2.11",
                "example.com/long": "x",
            },
        },
        "spec": {
            "type": "LoadBalancer", "loadBalancerClass": "vipward.io/l2", "loadBalancerIP": "192.0.2.9",
            "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00:96::a"],
            "externalIPs": ["198.51.100.7", "nonsense"], "externalTrafficPolicy": "Local",
            "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "QUIC"}],
            "selector": {"app": "web"},
        },
        "status": {"loadBalancer": {"ingress": [
            {"ip": "192.0.2.10"}, {"ip": "192.0.2.11", "ipMode": "VIP"}, {"ip": "192.0.2.12", "ipMode": "Proxy"},
            {"hostname": "web.example.com"},
        ]}},
    });
    let record = service_of(&object);
    assert_eq!(record.name.to_string(), "shop/web");
    assert_eq!((&*record.uid, record.version.as_str()), ("u-1", "12"));
    assert_eq!(
        (record.created, record.cluster_ips),
        (1_795_443_872, vec![IpAddr::from([10, 96, 0, 10]), "fd00:96::a".parse().expect("an address")])
    );
    assert!(record.load_balancer && record.local && !record.deleting);
    assert_eq!(record.class.as_deref(), Some("vipward.io/l2"));
    assert_eq!(record.load_balancer_ip.as_deref(), Some("192.0.2.9"));
    assert_eq!(record.external_ips, ["198.51.100.7".parse::<IpAddr>().expect("an address")]);
    assert_eq!(record.annotations.addresses.as_deref(), Some("192.0.2.10"));
    assert_eq!(record.annotations.ineffective, ["vipward.io/adresses".into()]);
    let ingress = |ip: Option<&str>, mode| Ingress { ip: ip.map(|ip| ip.parse().expect("an address")), mode };
    assert_eq!(
        record.ingress,
        [
            ingress(Some("192.0.2.10"), IpMode::Vip),
            ingress(Some("192.0.2.11"), IpMode::Vip),
            ingress(Some("192.0.2.12"), IpMode::Proxy),
            ingress(None, IpMode::Vip),
        ]
    );
    assert_eq!(
        record.ports,
        [Port { port: 80, protocol: Protocol::Tcp }, Port { port: 53, protocol: Protocol::Udp }]
    );
    assert_eq!(record.labels, ServiceLabels::default(), "labels were not asked for");

    let reading = Reading { service_labels: true, ..Reading::default() };
    let Seen::Service(record) = parsed(Resource::Services, &object, reading).seen else {
        panic!("no Service")
    };
    assert_eq!(record.labels.value("app"), Some("web"));
}

#[test]
fn a_service_of_unknown_age_is_the_youngest_and_a_headless_one_has_no_address() {
    for created in [json!(null), json!("yesterday")] {
        let record = service_of(&json!({
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": created},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"]},
        }));
        assert_eq!((record.created, record.cluster_ips), (i64::MAX, Vec::new()));
    }
}

#[test]
fn a_service_without_ip_families_has_those_of_its_cluster_ips_and_does_not_name_them() {
    let (four, six) = (Family::V4, Family::V6);
    let table = [
        (json!(["IPv6"]), json!(["fd00:96::a"]), vec![six], true),
        (json!(["IPv6", "IPv4"]), json!(["fd00:96::a", "10.96.0.10"]), vec![six, four], true),
        (json!(null), json!(["fd00:96::a"]), vec![six], false),
        (json!([]), json!(["None"]), vec![four], false),
        (json!(["IPv9"]), json!(null), vec![four], false),
    ];
    for (families, cluster_ips, expected, are_named) in table {
        let record = service_of(&json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"ipFamilies": families, "clusterIPs": cluster_ips},
        }));
        assert_eq!((record.families, record.family_policy.names), (expected, are_named), "{families}");
    }
}

#[test]
fn who_has_written_the_addresses_is_read_from_the_managed_fields() {
    let ingress = json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}});
    let conditions = json!({"f:status": {"f:conditions": {}}});
    let no_addresses = json!({"f:status": {"f:loadBalancer": {}}});
    let by = |manager: &str, fields: &Value| json!({"manager": manager, "fieldsV1": fields});
    let [ours, metallb, f5] = ["vipward", "metallb", "f5"].map(|manager| by(manager, &ingress));
    let rows = [
        (json!(null), None, false, "no managed fields"),
        (json!([by("kubectl", &json!({"f:spec": {"f:type": {}}}))]), None, false, "another field"),
        (json!([by("x", &conditions)]), None, false, "another part of the status"),
        (json!([by("x", &no_addresses)]), None, false, "no addresses"),
        (json!([{"manager": "x"}, ours]), Some("vipward"), false, "us"),
        (json!([metallb]), Some("metallb"), false, "another"),
        (json!([ours, metallb]), Some("metallb"), true, "both"),
        (json!([metallb, f5, ours]), Some("metallb"), true, "three"),
        (json!([{"fieldsV1": ingress}]), None, false, "a manager without a name"),
    ];
    for (managed_fields, expected, shared, description) in rows {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "managedFields": managed_fields}});
        let record = service_of(&object);
        assert_eq!(
            (record.status_manager.as_deref(), record.status_shared),
            (expected, shared),
            "{description}"
        );
    }
}

#[test]
fn the_time_of_the_last_write_and_a_cloud_controllers_mark_are_read() {
    let entry = |manager: &str, time: Value| {
        let fields = json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}});
        json!({"manager": manager, "time": time, "fieldsV1": fields})
    };
    let time = json!("2026-11-23T14:24:32Z");
    let rows = [
        (json!([entry("k3s", time.clone())]), Some(1_795_443_872)),
        (json!([entry("vipward", json!(null)), entry("k3s", time.clone())]), Some(1_795_443_872)),
        (json!([entry("vipward", time), entry("k3s", json!("yesterday"))]), None),
        (json!(null), None),
    ];
    for (managed_fields, since) in rows {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "managedFields": managed_fields}});
        assert_eq!(service_of(&object).status_since, since, "{managed_fields}");
    }
    for (finalizer, is_clouds) in [("service.kubernetes.io/load-balancer-cleanup", true), ("x/y", false)] {
        let object = json!({"metadata": {"name": "web", "namespace": "shop", "finalizers": [finalizer]}});
        assert_eq!(service_of(&object).has_cloud_balancer, is_clouds);
    }
}

#[test]
fn managed_fields_that_are_malformed_say_nothing_and_lose_no_service() {
    let rows = [
        ("no list", json!("vipward")),
        ("no objects in it", json!([7])),
        ("no name", json!([{"manager": 7, "fieldsV1": {"f:status": {}}}])),
        ("no fields", json!([{"manager": "x", "fieldsV1": null}])),
        ("a list for fields", json!([{"manager": "x", "fieldsV1": [["f:status"]]}])),
        ("no status", json!([{"manager": "x", "fieldsV1": {"f:status": null}}])),
        ("a number inside", json!([{"manager": "x", "fieldsV1": {"f:status": {"f:loadBalancer": 3}}}])),
    ];
    for (description, managed_fields) in rows {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "managedFields": managed_fields},
            "spec": {"type": "LoadBalancer"},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}},
        });
        let record = service_of(&object);
        assert!(record.load_balancer, "{description}");
        assert_eq!(record.status_owner(), StatusOwner::Other(None), "{description}");
    }
}

#[test]
fn our_own_name_as_the_writer_is_kept_once() {
    let ingress = json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}});
    let writer = |name: &str| {
        let fields = json!([{"manager": "vipward", "fieldsV1": ingress}]);
        let object = json!({"metadata": {"name": name, "namespace": "shop", "managedFields": fields}});
        service_of(&object).status_manager.expect("a writer")
    };
    assert!(Arc::ptr_eq(&writer("a"), &writer("b")));
}

#[test]
fn the_controller_that_annotations_name_is_read() {
    let rows = [
        (json!(null), None),
        (json!({"metallb.io/ip-allocated-from-pool": "a", "lbipam.cilium.io/ips": "192.0.2.1"}), None),
        (json!({"cis.f5.com/ip": "192.0.2.1"}), Some(OtherController::F5Address)),
        (json!({"cis.f5.com/ipamLabel": "Test"}), Some(OtherController::F5Range)),
        (json!({"purelb.io/allocated-by": "PureLB", "a": "b"}), Some(OtherController::PureLb)),
    ];
    for (annotations, expected) in rows {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "annotations": annotations.clone()}});
        assert_eq!(service_of(&object).other_controller, expected, "{annotations}");
    }
}

#[test]
fn a_service_of_another_type_is_read_as_such() {
    let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"type": "ClusterIP"}});
    assert!(!service_of(&object).load_balancer);
    let finalizers = ["service.kubernetes.io/load-balancer-cleanup", "example.com/lb"];
    let mut object = json!({"metadata": {"name": "web", "namespace": "shop", "finalizers": finalizers}});
    assert_eq!(service_of(&object).finalizers, None);
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let record = service_of(&object);
    assert_eq!((record.deleting, record.finalizers), (true, Some(finalizers.join(", ").into())));
}

#[test]
fn endpoints_count_by_their_conditions() {
    let endpoint = |node: Option<&str>, conditions: Value| -> Value {
        json!({"addresses": ["10.0.0.1"], "nodeName": node, "conditions": conditions})
    };
    let ending = |node, serving: bool| {
        endpoint(node, json!({"ready": false, "serving": serving, "terminating": true}))
    };
    let serving = json!({"ready": false, "serving": true});
    let rows = [
        (endpoint(Some("a"), json!({})), (vec!["a"], vec![], false), "no conditions: ready"),
        (endpoint(Some("a"), json!({"ready": true})), (vec!["a"], vec![], false), "ready"),
        (endpoint(Some("a"), json!({"ready": false})), (vec![], vec![], false), "not ready"),
        (ending(Some("a"), true), (vec![], vec!["a"], false), "serving while it ends"),
        (ending(Some("a"), false), (vec![], vec![], false), "ending, and not serving"),
        (endpoint(Some("a"), serving), (vec![], vec![], false), "serving, not ready, not ending"),
        (endpoint(None, json!({"ready": true})), (vec![], vec![], true), "ready on no node"),
        (json!({"addresses": ["192.192.192.192"]}), (vec![], vec![], true), "a Gateway's placeholder"),
        (ending(None, true), (vec![], vec![], false), "ending on no node"),
    ];
    for (endpoint, (ready, terminating, elsewhere), description) in rows {
        let record = slice_of(&json!({
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "endpoints": [endpoint],
        }));
        assert_eq!(names(&record.ready), ready, "{description}");
        assert_eq!(names(&record.serving_terminating), terminating, "{description}");
        assert_eq!(record.ready_elsewhere, elsewhere, "{description}");
        assert_eq!(record.service.to_string(), "shop/web");
    }
}

#[test]
fn slices_that_say_nothing_about_endpoints_of_a_service_are_not_used() {
    let slice = |kind: &str, labels: Value| {
        let metadata = json!({"name": "web-1", "namespace": "shop", "labels": labels});
        json!({"metadata": metadata, "addressType": kind, "endpoints": null})
    };
    let of_web = json!({"kubernetes.io/service-name": "web"});
    for (object, expected) in [
        (slice("IPv4", of_web.clone()), true),
        (slice("IPv6", of_web.clone()), true),
        (slice("FQDN", of_web), false),
        (slice("IPv4", json!({})), false),
    ] {
        assert_eq!(
            parsed(Resource::EndpointSlices, &object, Reading::default()).is_used,
            expected,
            "{object}"
        );
    }
}

#[test]
fn annotations_without_effect_are_faults_of_namespaces_pools_and_claims() {
    type Row = (Resource, &'static str, &'static str, Option<(&'static str, &'static str)>);
    let unknown = "it is unknown; the nearest known one is vipward.io/share-with";
    let rows: [Row; 11] = [
        (Resource::VipPools, "lan", "vipward.io/sharing", Some(("VIPPool", "it is unknown; remove it"))),
        (
            Resource::Namespaces,
            "shop",
            "vipward.io/ips",
            Some(("Namespace", "take one of vipward.io/share-with")),
        ),
        (Resource::Namespaces, "shop", "vipward.io/sharewith", Some(("Namespace", unknown))),
        (Resource::Namespaces, "shop", "vipward.io/share-with", None),
        (Resource::Namespaces, "shop", "vipward.io/pool", Some(("Namespace", "it is for Services"))),
        (Resource::Namespaces, "shop", "metallb.io/address-pool", None),
        (Resource::VipPools, "lan", "vipward.io/release", Some(("VIPPool", "it is for the VirtualIP"))),
        (Resource::VipPools, "lan", "vipward.io/quux", Some(("VIPPool", "it is unknown; remove it"))),
        (Resource::VirtualIps, "192.0.2.7", "vipward.io/move", Some(("VirtualIP", "is vipward.io/move-to"))),
        (Resource::VirtualIps, "192.0.2.7", "vipward.io/force", None),
        (Resource::VirtualIps, "192.0.2.7", "example.com/note", None),
    ];
    for (resource, name, annotation, expected) in rows {
        let spec = json!({"addresses": ["192.0.2.0/24"], "address": name});
        let metadata =
            json!({"name": name, "resourceVersion": "1", "uid": "u", "annotations": {annotation: "x"}});
        let parsed = parsed(
            resource,
            &json!({"metadata": metadata, "spec": spec, "status": {}}),
            Reading { is_controllers: true, ..Reading::default() },
        );
        let fault = parsed.fault.map(|(object, fault)| (object.kind, object.name, fault.words));
        match (&fault, expected) {
            (None, None) => {}
            (Some((kind, of, words)), Some((expected, why))) => {
                assert_eq!((*kind, &**of), (expected, name));
                let about = format!("annotation {annotation} has no effect on a {kind}");
                assert!(words.starts_with(&about) && words.contains(why), "{words}");
            }
            _ => panic!("{resource} with {annotation}: {fault:?}"),
        }
    }
}

#[test]
fn the_api_servers_are_the_endpoints_of_the_service_kubernetes_only() {
    let slice = |service: &str| {
        json!({
            "metadata": {"name": "its-1", "namespace": "default", "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "endpoints": [
                {"addresses": ["192.0.2.1"]},
                {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
            ],
        })
    };
    let Parsed { seen, is_used, .. } = parsed(Resource::ApiServers, &slice("kubernetes"), Reading::default());
    let Seen::ApiServers { slice: name, addresses } = seen else { panic!("{seen:?}") };
    let expected = ["192.0.2.1", "192.0.2.2"].map(|address| address.parse::<IpAddr>().expect("an address"));
    assert_eq!(
        (&*name, &*addresses),
        ("its-1", &expected[..]),
        "one that is not ready now is one all the same"
    );
    assert!(is_used);
    let Parsed { seen, is_used, .. } = parsed(Resource::ApiServers, &slice("web"), Reading::default());
    let Seen::ApiServers { addresses, .. } = seen else { panic!("{seen:?}") };
    assert_eq!((is_used, &*addresses), (false, &[][..]), "it may have been a slice of that Service before");
}

#[test]
fn a_node_is_what_its_conditions_and_taints_say() {
    type Fact = fn(&NodeRecord) -> bool;
    let condition =
        |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
    let taint = |key: &str| json!({"spec": {"taints": [{"key": key, "effect": "NoExecute"}]}});
    let out_of_service = "node.kubernetes.io/out-of-service";
    let rows: [(Value, Fact, &str); 8] = [
        (condition("Ready", "True"), |node| node.ready, "ready"),
        (condition("Ready", "Unknown"), |node| !node.ready, "unknown"),
        (json!({}), |node| !node.ready && !node.cordoned, "new"),
        (condition("NetworkUnavailable", "True"), |node| node.network_unavailable, "no network"),
        (condition("NetworkUnavailable", "False"), |node| !node.network_unavailable, "network"),
        (json!({"spec": {"unschedulable": true}}), |node| node.cordoned, "cordoned"),
        (taint(out_of_service), |node| node.out_of_service, "dead"),
        (taint("example.com/x"), |node| !node.out_of_service, "tainted"),
    ];
    for (mut object, expected, description) in rows {
        object["metadata"] = json!({"name": "a", "labels": {"zone": "1"}});
        let record = node_of(&object);
        assert!(expected(&record), "{description}: {record:?}");
        assert_eq!((record.name.as_str(), &*record.labels["zone"]), ("a", "1"));
    }
}

#[test]
fn a_nodes_addresses_are_those_that_are_addresses() {
    let object = json!({
        "metadata": {"name": "a"},
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "2001:db8::/64", "nonsense"]},
        "status": {"addresses": [
            {"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "192.0.2.11"},
            {"type": "InternalIP", "address": "2001:db8::1"},
        ]},
    });
    let seen = parsed(Resource::Nodes, &object, Reading::default()).seen;
    let Seen::Node { addresses, pod_cidrs, .. } = seen else { panic!("no Node") };
    assert_eq!(pod_cidrs, ["10.244.0.0/24", "2001:db8::/64"].map(net));
    assert_eq!(
        addresses,
        ["192.0.2.11", "2001:db8::1"].map(|address| address.parse::<IpAddr>().expect("one"))
    );
}

fn net(text: &str) -> IpNet {
    text.parse().expect("a network")
}

#[test]
fn a_service_cidr_has_its_networks_until_it_is_gone() {
    let object =
        json!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/12", "2001:db8::/108"]}});
    let Seen::ServiceCidr { name, nets } = parsed(Resource::ServiceCidrs, &object, Reading::default()).seen
    else {
        panic!("no ServiceCIDR")
    };
    assert_eq!((&*name, nets), ("kubernetes", ["10.96.0.0/12", "2001:db8::/108"].map(net).to_vec()));
    let gone = gone(Resource::ServiceCidrs, "kubernetes", &testing::kube());
    assert!(matches!(gone, Some(Seen::ServiceCidr { nets, .. }) if nets.is_empty()));
}

#[test]
fn a_namespace_lists_those_with_which_it_shares() {
    let table: [(Value, &[&str]); 4] = [
        (json!(null), &[]),
        (json!({"vipward.io/share-with": ""}), &[]),
        (json!({"vipward.io/share-with": "b"}), &["b"]),
        (json!({"vipward.io/share-with": " c , b,, "}), &["b", "c"]),
    ];
    for (annotations, expected) in table {
        let object = json!({"metadata": {"name": "a", "annotations": annotations}});
        let Seen::Namespace { share_with, .. } =
            parsed(Resource::Namespaces, &object, Reading::default()).seen
        else {
            panic!("no Namespace")
        };
        assert_eq!(share_with.iter().map(|name| &**name).collect::<Vec<_>>(), expected, "{annotations}");
    }
}

#[test]
fn an_object_that_is_gone_has_the_name_that_it_was_reported_by() {
    let kube = testing::kube();
    let labels = json!({"kubernetes.io/service-name": "web"});
    let rows = [
        (Resource::Services, json!({"name": "web", "namespace": "shop"})),
        (Resource::EndpointSlices, json!({"name": "web-1", "namespace": "shop", "labels": labels})),
        (Resource::ApiServers, json!({"name": "kubernetes", "namespace": "default"})),
        (Resource::Nodes, json!({"name": "a"})),
        (Resource::Namespaces, json!({"name": "shop"})),
        (Resource::VirtualIps, json!({"name": "192.0.2.10"})),
        (Resource::Leases, json!({"name": "a", "namespace": "vipward-system"})),
    ];
    for (resource, metadata) in rows {
        let object = json!({"metadata": metadata});
        let name = parsed(resource, &object, Reading::default()).identity.name;
        assert_eq!(identity(&object.to_string()).expect("an object").name, name, "{resource}");
        let gone = gone(resource, &name, &kube).expect("a name that was reported");
        let as_expected = match gone {
            Seen::ServiceGone(service) => service.to_string() == "shop/web",
            Seen::SliceGone { namespace, slice } => (&*namespace, &*slice) == ("shop", "web-1"),
            Seen::ApiServers { slice, addresses } => *slice == *"kubernetes" && addresses.is_empty(),
            Seen::NodeGone(node) | Seen::LeaseGone(node) => node.as_str() == "a",
            Seen::NamespaceGone(name) => *name == *"shop",
            Seen::ClaimGone(vip) => vip.to_string() == "192.0.2.10",
            other => panic!("{resource}: {other:?}"),
        };
        assert!(as_expected, "{resource}");
    }
}

#[test]
fn the_controllers_lease_is_no_nodes_and_shows_whether_one_leads() {
    let lease = |holder: &str| {
        let metadata = json!({"name": leases::LEADER, "namespace": "vipward-system", "resourceVersion": "7"});
        json!({"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})
    };
    for (about, holder, version) in [("it leads", "pod_0a", Some("7")), ("it was given back", "", None)] {
        let Parsed { seen, is_used, .. } = parsed(Resource::Leases, &lease(holder), Reading::default());
        assert!(is_used, "{about}");
        let Seen::Leader(leader) = seen else { panic!("{about}: {seen:?}") };
        assert_eq!(leader, version.map(Version::from), "{about}");
    }
    let name = "vipward-system/vipward-controller";
    assert!(matches!(gone(Resource::Leases, name, &testing::kube()), Some(Seen::Leader(None))));
}

#[test]
fn what_is_no_object_is_an_error() {
    for resource in Resource::OF_CONTROLLER.iter().copied() {
        for text in ["", "{", "[]", "5", r#"{"metadata": 5}"#] {
            assert!(
                parse(resource, text, &testing::kube(), Reading::default()).is_err(),
                "{resource}: {text}"
            );
        }
    }
}
