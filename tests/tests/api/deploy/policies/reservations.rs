//! Writes of claims by the controller.

use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Row, check,
    engine::{CONTROLLER, Write},
    patched,
};

const WHO: Option<&str> = Some("changes nothing of who has a VIP");

fn claim(spec: &Value) -> Value {
    let claim = json!({
        "apiVersion": "vipward.io/v1alpha1", "kind": "VirtualIP",
        "metadata": {
            "name": "192.0.2.10", "labels": {"app.kubernetes.io/managed-by": "vipward"},
            "finalizers": ["vipward.io/claim"],
        },
        "spec": {"address": "192.0.2.10", "epoch": 0, "reservation": {"service": "apps/web", "pool": "lan"}},
    });
    patched(&claim, &json!({"spec": spec}))
}

fn released() -> Value {
    claim(&json!({"released": true}))
}

fn held() -> Value {
    claim(&json!({
        "holder": "b", "session": "0000000000000001", "mac": "02:00:00:00:01:01", "interface": "eth0", "epoch": 3,
    }))
}

fn write(before: Option<Value>, after: Option<Value>) -> Write {
    Write { user: CONTROLLER, ..Write::new("vipward.io", "virtualips", before, after) }
}

fn change(before: &Value, patch: &Value) -> Write {
    write(Some(before.clone()), Some(patched(before, patch)))
}

#[test]
fn the_controller_reserves_and_frees_and_moves_nothing() -> Result<()> {
    let kept = json!({"spec": {"reservation": {"keptUntil": "forever"}}});
    let freed = json!({"spec": {"reservation": null}});
    let offer = json!({"spec": {"offeredBy": {"node": "b", "session": "0000000000000002"}, "holder": "c"}});
    let rows: [Row; 12] = [
        ("an address is reserved", write(None, Some(released())), None),
        ("it is kept", change(&released(), &kept), None),
        ("a held VIP's reservation is kept", change(&held(), &kept), None),
        ("a held VIP's reservation is freed", change(&held(), &freed), None),
        ("a VIP is created as held", write(None, Some(held())), WHO),
        (
            "a VIP is created in a later epoch",
            write(None, Some(claim(&json!({"released": true, "epoch": 1})))),
            WHO,
        ),
        ("a blank claim is created", write(None, Some(claim(&json!({})))), WHO),
        ("a VIP gets a holder", write(Some(released()), Some(held())), WHO),
        ("a VIP is released", write(Some(held()), Some(claim(&json!({"released": true, "epoch": 3})))), WHO),
        ("a VIP is offered", change(&held(), &offer), WHO),
        ("a MAC is changed", change(&held(), &json!({"spec": {"mac": "02:00:00:00:00:66"}})), WHO),
        ("an epoch is used up", change(&released(), &json!({"spec": {"epoch": 9}})), WHO),
    ];
    check(&rows)
}

#[test]
fn the_controller_deletes_what_names_no_node_and_makes_no_wishes() -> Result<()> {
    const NODE: Option<&str> = Some("deletes no claim that names a node");
    const WISH: Option<&str> = Some("neither vipward.io/force nor vipward.io/move-to");
    let lets_go = json!({"metadata": {"finalizers": []}});
    let wish = |name: &str, value: Value| json!({"metadata": {"annotations": {name: value}}});
    let wished = patched(&held(), &wish("vipward.io/force", json!("true")));
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "u"});
    let owner = json!({"metadata": {"ownerReferences": [owner]}});
    let rows: [Row; 11] = [
        ("its finalizer is removed", change(&released(), &lets_go), None),
        ("it is deleted", write(Some(patched(&released(), &lets_go)), None), None),
        ("the finalizer of a held VIP is removed", change(&held(), &lets_go), NODE),
        ("a held VIP is deleted", write(Some(held()), None), NODE),
        ("a wish stays", change(&wished, &json!({"spec": {"reservation": null}})), None),
        ("force is set", change(&held(), &wish("vipward.io/force", json!("true"))), WISH),
        ("force is removed", change(&wished, &wish("vipward.io/force", Value::Null)), WISH),
        ("move-to is set", change(&held(), &wish("vipward.io/move-to", json!("c"))), WISH),
        ("another annotation is set", change(&held(), &wish("example.com/x", json!("y"))), None),
        (
            "another finalizer is added",
            change(&held(), &json!({"metadata": {"finalizers": ["vipward.io/claim", "example.com/x"]}})),
            Some("no finalizer of a claim but vipward.io/claim"),
        ),
        ("an owner is given, who does not exist", change(&held(), &owner), Some("gives a claim no owner")),
    ];
    check(&rows)
}

#[test]
fn of_a_service_the_controller_changes_only_the_addresses_in_the_status() -> Result<()> {
    let before = json!({"metadata": {"name": "web", "namespace": "apps"}, "status": {"loadBalancer": {}}});
    let status = |patch: Value| Write {
        user: CONTROLLER,
        ..Write::new("", "services/status", Some(before.clone()), Some(patched(&before, &patch)))
    };
    let rows: [Row; 2] = [
        (
            "an address",
            status(json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}})),
            None,
        ),
        (
            "an annotation",
            status(json!({"metadata": {"annotations": {"vipward.io/addresses": "192.0.2.66"}}})),
            Some("so not its metadata"),
        ),
    ];
    check(&rows)
}

#[test]
fn the_controller_creates_the_secret_of_wire_failover_alone() -> Result<()> {
    const ALONE: Option<&str> = Some("creates the Secret vipward-wire alone");
    let secret = |name: &str, kind: Option<&str>| {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind});
        let secret = if kind.is_some() { secret } else { patched(&secret, &json!({"type": null})) };
        Write { user: CONTROLLER, ..Write::new("", "secrets", None, Some(secret)) }
    };
    let token = "kubernetes.io/service-account-token";
    let rows: [Row; 4] = [
        ("the key of wire failover", secret("vipward-wire", Some("Opaque")), None),
        ("another Secret", secret("vipward-wires", Some("Opaque")), ALONE),
        ("a token under its name", secret("vipward-wire", Some(token)), ALONE),
        ("a Secret of no type", secret("vipward-wire", None), ALONE),
    ];
    check(&rows)
}
