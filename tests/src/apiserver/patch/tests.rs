//! Strategic merge patches of the kinds that tools send.

use serde_json::json;

use super::strategic;

#[test]
fn a_strategic_patch_merges_maps_and_the_lists_that_have_keys() {
    let node = json!({
        "metadata": {"finalizers": ["a"]},
        "spec": {"taints": [{"key": "old"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "ok"}, {"type": "Other"}]},
    });
    let table = [
        (json!({"spec": {"unschedulable": true}}), "/spec/unschedulable", json!(true)),
        (json!({"spec": {"taints": [{"key": "new"}]}}), "/spec/taints", json!([{"key": "new"}])),
        (json!({"spec": {"taints": null}}), "/spec", json!({})),
        (
            json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
            "/status/conditions/0",
            json!({"type": "Ready", "status": "False", "reason": "ok"}),
        ),
        (
            json!({"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}),
            "/status/conditions",
            json!([{"type": "Other"}]),
        ),
        (json!({"metadata": {"finalizers": ["b"]}}), "/metadata/finalizers", json!(["a", "b"])),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            "/metadata/finalizers",
            json!([]),
        ),
        (json!({"metadata": {"$patch": "replace", "x": 1}}), "/metadata", json!({"x": 1})),
    ];
    for (patch, pointer, expected) in table {
        let patched = strategic(node.clone(), &patch).expect("a good patch");
        assert_eq!(patched.pointer(pointer), Some(&expected), "{patch}");
    }
    assert!(strategic(node, &json!({"$unheard": 1})).is_err());
}
