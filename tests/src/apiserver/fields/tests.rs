//! Sets of fields, against what a real server writes into `managedFields`.

use serde_json::json;

use super::super::shape::Shape;
use super::{Difference, FieldSet};

fn service() -> Shape {
    Shape::Open.with("spec.ports", Shape::ports("port")).with("status.loadBalancer.ingress", Shape::Whole)
}

#[test]
fn an_applied_object_owns_its_leaves_and_the_items_of_its_lists() {
    let object = json!({
        "metadata": {"name": "s", "labels": {"a": "b"}},
        "spec": {"ports": [{"port": 80, "name": "http"}], "selector": {}},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    });
    let mut set = FieldSet::applied(&object, &service());
    set.leave_out_system();
    let expected = json!({
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {
            "f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}}},
            "f:selector": {},
        },
        "f:status": {"f:loadBalancer": {"f:ingress": {}}},
    });
    assert_eq!(set.to_value(), expected);
    assert_eq!(FieldSet::from_value(&expected), set);
}

#[test]
fn what_an_update_adds_is_owned_with_the_map_that_it_made() {
    let before = json!({"spec": {"ports": [{"port": 80}]}});
    let after =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"ports": [{"port": 80, "name": "http"}]}});
    let mut difference = Difference::between(Some(&before), Some(&after), &service());
    difference.changed.leave_out_system();
    assert_eq!(
        difference.changed.to_value(),
        json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {"f:name": {}}}},
        })
    );
    assert!(difference.removed.is_empty());
}

#[test]
fn a_list_that_is_one_value_changes_as_one() {
    let before = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let after = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]}}});
    let difference = Difference::between(Some(&before), Some(&after), &service());
    assert_eq!(difference.changed.to_value(), json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}}));
}

#[test]
fn paths_read_as_in_conflicts() {
    let object = json!({"spec": {"ports": [{"port": 80, "name": "http"}]}});
    let set = FieldSet::applied(&object, &service());
    assert_eq!(
        set.common_paths(&set),
        [
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=80,protocol=\"TCP\"].name",
            ".spec.ports[port=80,protocol=\"TCP\"].port",
        ]
    );
}
