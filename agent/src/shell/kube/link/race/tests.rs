use serde_json::json;

use super::*;
use crate::shell::kube::{Resource, testing::refused};

fn patch(body: &Value) -> Call {
    Resource::Leases.collection("vipward-system").merge("b", body)
}

#[test]
fn an_object_is_as_it_was_written_if_it_has_each_field_of_the_write() {
    let written = json!({
        "metadata": {"resourceVersion": "7", "annotations": {"vipward.io/ended": "b1", "vipward.io/wire": null}},
        "spec": {"holderIdentity": null, "renewTime": "2026-11-28T21:00:00.000001Z"},
    });
    let stored = json!({
        "metadata": {"name": "b", "resourceVersion": "8", "annotations": {"vipward.io/ended": "b1", "x": "y"}},
        "spec": {"renewTime": "2026-11-28T21:00:00.000001Z", "leaseDurationSeconds": 4},
    });
    assert!(patch(&written).has_written(&stored.to_string()));
    let rows = [
        ("/metadata/annotations/vipward.io~1ended", "another session"),
        ("/spec/renewTime", "a later renewal"),
    ];
    for (field, what) in rows {
        let mut other = stored.clone();
        *other.pointer_mut(field).expect("a field") = json!("other");
        assert!(!patch(&written).has_written(&other.to_string()), "{what}");
    }
    let mut other = stored.clone();
    other["spec"]["holderIdentity"] = json!("b");
    assert!(!patch(&written).has_written(&other.to_string()), "a field that was removed is there");
    let mut other = stored;
    other["spec"].as_object_mut().expect("a spec").remove("renewTime");
    assert!(!patch(&written).has_written(&other.to_string()), "a field that was written is not there");
    assert!(!patch(&written).has_written("{"), "no object");
}

#[test]
fn the_object_of_a_write_is_read_by_its_name() {
    let leases = Resource::Leases.collection("vipward-system");
    let path = "/apis/coordination.k8s.io/v1/namespaces/vipward-system/leases/b";
    let written = [leases.merge("b", &json!({})), leases.create(&json!({"metadata": {"name": "b"}}))];
    for call in written {
        let read = call.read_back().expect("it writes an object");
        assert_eq!(
            (read.verb, read.request.method(), read.request.uri().path()),
            ("get", &Method::GET, path)
        );
    }
    assert!(leases.get("b").read_back().is_none(), "it writes none");
}

#[test]
fn an_answer_counts_unless_it_leaves_open_what_was_done() {
    for (code, expected) in [(400, false), (404, false), (409, false), (408, true), (429, true), (500, true)]
    {
        assert_eq!(is_open::<()>(&Err(refused(code, "", ""))), expected, "{code}");
    }
    assert!(!is_open(&Ok(())));
    assert!(is_open::<()>(&Err(RequestError::TooLong { limit_bytes: 1 })));
}
