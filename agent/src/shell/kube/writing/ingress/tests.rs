use super::*;

fn service() -> ServiceName {
    ServiceName { namespace: "shop".into(), name: "web".into() }
}

fn body(call: &Call) -> serde_json::Value {
    serde_json::from_slice(call.request.body()).expect("JSON")
}

#[test]
fn addresses_are_applied_in_order_and_not_by_force() {
    let addresses = [IpAddr::from([192, 0, 2, 11]), IpAddr::from([192, 0, 2, 10])];
    let call = call(&service(), Some(&addresses), None);
    let path = "/api/v1/namespaces/shop/services/web/status?&fieldManager=vipward";
    assert_eq!(call.request.uri(), path);
    assert_eq!(call.request.headers()["content-type"], "application/apply-patch+yaml");
    assert_eq!(
        body(&call)["status"],
        json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.11"}, {"ip": "192.0.2.10"}]}})
    );
}

#[test]
fn another_managers_addresses_are_overwritten_in_one_version_only() {
    let call = call(&service(), Some(&[IpAddr::from([192, 0, 2, 11])]), Some(&Version::from("7")));
    let path = "/api/v1/namespaces/shop/services/web/status?&force=true&fieldManager=vipward";
    assert_eq!(call.request.uri(), path);
    assert_eq!(body(&call)["metadata"]["resourceVersion"], "7");
}

#[test]
fn taking_back_applies_nothing() {
    assert_eq!(body(&call(&service(), None, None))["status"], serde_json::Value::Null);
}

#[test]
fn a_conflict_names_the_other_field_managers() {
    let conflict = |causes: &[&str]| {
        let causes: Vec<_> = causes.iter().map(|cause| json!({"message": cause})).collect();
        let details = json!({"causes": causes});
        let status =
            json!({"code": 409, "reason": "Conflict", "message": "Apply failed", "details": details});
        let status = serde_json::from_value(status).expect("a Status");
        IngressError::of(RequestError::Refused { status, retry_after: None }, &service()).to_string()
    };
    assert_eq!(
        conflict(&[r#"conflict with "metallb" with subresource "status" using v1 at 2026-01-01T00:00:00Z"#]),
        "the status of Service shop/web is written by metallb; nothing was changed"
    );
    assert_eq!(
        conflict(&[r#"conflict with "a" using v1"#, r#"conflict with "b" using v1"#]),
        "the status of Service shop/web is written by a and b; nothing was changed"
    );
    for odd in [&[][..], &["?"], &["conflict with \"unclosed"]] {
        assert!(conflict(odd).contains("by another field manager"), "{odd:?}");
    }
}
