//! The statuses of Services, Events, and whose requests the policies are about.

use anyhow::Result;
use serde_json::{Value, json};

use super::{Row, check, engine::Write, patched};

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "apps", "labels": {"x": "y"}},
        "spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {}},
    })
}

fn status(before: &Value, patch: &Value) -> Write {
    Write::new("", "services/status", Some(before.clone()), Some(patched(before, patch)))
}

fn event(reporter: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "apps"},
        "reportingController": "vipward.io/agent", "reportingInstance": reporter, "reason": "Held",
    })
}

fn create_event(event: Value) -> Write {
    Write::new("events.k8s.io", "events", None, Some(event))
}

#[test]
fn of_a_service_only_the_addresses_in_the_status_change() -> Result<()> {
    const METADATA: Option<&str> = Some("so not its metadata");
    let ingress = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}});
    let metadata = |patch: Value| status(&service(), &json!({"metadata": patch}));
    let condition = json!({"status": {"conditions": [{"type": "x", "status": "True"}]}});
    let rows: [Row; 9] = [
        ("addresses", status(&service(), &ingress), None),
        (
            "no addresses any more",
            status(&patched(&service(), &ingress), &json!({"status": {"loadBalancer": null}})),
            None,
        ),
        (
            "managed fields",
            metadata(json!({"managedFields": [{"manager": "vipward"}], "resourceVersion": "7"})),
            None,
        ),
        ("a label", metadata(json!({"labels": {"x": "z"}})), METADATA),
        ("no label any more", metadata(json!({"labels": null})), METADATA),
        ("an annotation", metadata(json!({"annotations": {"vipward.io/addresses": "192.0.2.66"}})), METADATA),
        ("a finalizer", metadata(json!({"finalizers": ["example.com/x"]})), METADATA),
        ("an owner that does not exist", metadata(json!({"ownerReferences": [{"uid": "u-9"}]})), METADATA),
        ("a condition", status(&service(), &condition), Some("so not status.conditions")),
    ];
    check(&rows)
}

#[test]
fn an_event_names_the_node_that_writes_it() -> Result<()> {
    const OWN: &str = "in the name of its own node, and only counts those of others";
    let long = |length| "n".repeat(length);
    let of_long = |reporter: String| Write { node: Some(long(253)), ..create_event(event(&reporter)) };
    let other = patched(&event("a"), &json!({"reportingController": "kubelet"}));
    let counted = patched(&event("a"), &json!({"series": {"count": 2}}));
    let others_counted = Some(patched(&event("b"), &json!({"series": {"count": 2}})));
    let rows: [Row; 8] = [
        ("its own", create_event(event("a")), None),
        ("its own again", Write { before: Some(event("a")), ..create_event(counted) }, None),
        ("another node's", create_event(event("b")), Some(OWN)),
        (
            "another node's, counted",
            Write { before: Some(event("b")), after: others_counted, ..create_event(Value::Null) },
            None,
        ),
        (
            "its own becomes another's",
            Write { before: Some(event("a")), ..create_event(event("b")) },
            Some(OWN),
        ),
        ("another component's", create_event(other), Some("as vipward.io/agent only")),
        ("an Event of a node with a long name", of_long(long(128)), None),
        ("an Event of one with a shorter name", of_long(long(127)), Some(OWN)),
    ];
    check(&rows)
}

#[test]
fn a_token_that_names_no_node_writes_nothing_and_other_users_are_left_alone() -> Result<()> {
    let labels = json!({"app.kubernetes.io/managed-by": "vipward"});
    let claim = json!({
        "metadata": {"name": "192.0.2.10", "labels": labels},
        "spec": {"address": "192.0.2.10", "holder": "", "released": true},
    });
    let annotations = json!({"vipward.io/ended": "00000000000000e1"});
    let lease = json!({"metadata": {"name": "", "labels": labels, "annotations": annotations}, "spec": {}});
    let writes = [
        ("a Lease", Write::new("coordination.k8s.io", "leases", None, Some(lease))),
        ("a claim", Write::new("vipward.io", "virtualips", None, Some(claim.clone()))),
        ("the deletion of one", Write::new("vipward.io", "virtualips", Some(claim), None)),
        ("a status", status(&service(), &json!({}))),
        ("an Event", create_event(event(""))),
    ];
    for (description, write) in writes {
        check(&[
            (description, Write { node: None, ..write.clone() }, Some("the token names no node")),
            // kustomize's `namespace:` changes no expression.
            (
                description,
                Write { node: None, user: "system:serviceaccount:vips:vipward", ..write.clone() },
                Some("the token names no node"),
            ),
            (description, Write { node: None, user: "system:serviceaccount:vipward:other", ..write }, None),
        ])?;
    }
    let theirs = Write::new("vipward.io", "virtualips", None, Some(json!({"spec": {"holder": "b"}})));
    check(&[("an operator", Write { user: "operator", ..theirs }, None)])
}
