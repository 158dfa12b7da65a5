//! Refusals: permissions, the form of objects, and unserved requests.

use anyhow::Result;
use hyper::{Method, Request};
use kube::api::{Api, DeleteParams, DynamicObject};
use serde_json::{Value, json};
use vipward::shell::kube::crd_yaml;
use vipward_tests::apiserver::ApiServer;

use super::{client, create, merge, objects, refusal, server, service};

const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
  - {apiGroups: [''], resources: [services], verbs: [get]}
  - {apiGroups: [''], resources: [services/status], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{kind: User, name: agent}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases, namespace: kube-system}
rules: [{apiGroups: [coordination.k8s.io], resources: ['*'], verbs: ['*']}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leases, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leases}
subjects: [{kind: User, name: agent}]
";

/// Returns the code and the message of the answer to a request.
async fn ask(
    server: &ApiServer,
    token: &str,
    method: Method,
    path: &str,
    content: &str,
) -> Result<(u16, String)> {
    let request = Request::builder().method(method).uri(path).header("content-type", content);
    match client(server, token)?.request::<Value>(request.body(b"{}".to_vec())?).await {
        Ok(_) => Ok((200, String::new())),
        Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
        Err(other) => Err(other.into()),
    }
}

#[tokio::test]
async fn roles_allow_what_they_say_and_no_more() -> Result<()> {
    const MERGE: &str = "application/merge-patch+json";
    let server = server()?;
    server.load_manifest(ROLES)?;
    server.load_object(service("s"))?;
    server.add_user("token", "agent");
    let path = "/api/v1/namespaces/default/services/s";
    let leases = |namespace: &str| format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let rows = [
        ("wrong", Method::GET, path.to_owned(), 401),
        ("", Method::GET, path.to_owned(), 401),
        ("token", Method::GET, path.to_owned(), 200),
        ("token", Method::PATCH, path.to_owned(), 403),
        ("token", Method::PATCH, format!("{path}/status"), 200),
        ("token", Method::GET, leases("kube-system"), 200),
        ("token", Method::GET, leases("default"), 403),
    ];
    for (token, method, path, code) in rows {
        let (found, words) = ask(&server, token, method.clone(), &path, MERGE).await?;
        assert_eq!(found, code, "{token} {method} {path}: {words}");
    }
    let (_, words) = ask(&server, "token", Method::GET, &leases("default"), MERGE).await?;
    assert_eq!(
        words,
        "leases.coordination.k8s.io is forbidden: User \"agent\" cannot list resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\""
    );
    // A client without a token has the empty one, if a user has that.
    server.add_user("", "agent");
    let anonymous = kube::Client::try_from(kube::Config::new(server.url().parse()?))?;
    Api::<k8s_openapi::api::core::v1::Service>::namespaced(anonymous, "default").get("s").await?;
    Ok(())
}

#[tokio::test]
async fn what_is_not_served_is_named() -> Result<()> {
    let server = server()?;
    server.load_manifest(&crd_yaml())?;
    server.load_object(service("s"))?;
    let json = "application/json";
    let path = "/api/v1/namespaces/default/services";
    let rows = [
        (Method::GET, "/api/v1/limitranges".to_owned(), json, "this resource"),
        (Method::GET, "/healthz".to_owned(), json, "this path"),
        (Method::GET, format!("{path}/s/scale"), json, "this path"),
        (Method::PUT, format!("{path}/s"), json, "this method"),
        (Method::DELETE, path.to_owned(), json, "this method"),
        (Method::POST, path.to_owned(), json, "a creation without metadata.name"),
        (Method::GET, format!("{path}?labelSelector=a%21%3Db"), json, "the selector a!=b"),
        (Method::GET, format!("{path}?resourceVersion=1"), json, "a list at a version"),
        (Method::GET, format!("{path}?watch=true"), json, "a watch without the version of a list"),
        (Method::PATCH, format!("{path}/s"), "application/json-patch+json", "application/json-patch+json"),
        (Method::PATCH, format!("{path}/s"), "application/apply-patch+yaml", "server-side apply"),
    ];
    for (method, path, content, what) in rows {
        let (code, words) = ask(&server, "admin", method.clone(), &path, content).await?;
        assert_eq!(code, 501, "{method} {path}: {words}");
        assert!(words.starts_with(&format!("{method} {path}: ")) && words.contains(what), "{words}");
    }
    Ok(())
}

pub(super) fn claims(server: &ApiServer) -> Result<Api<DynamicObject>> {
    objects(server, &claim(), false)
}

pub(super) fn claim() -> Value {
    json!({
        "apiVersion": "vipward.io/v1alpha1", "kind": "VirtualIP", "metadata": {"name": "192.0.2.1"},
        "spec": {"address": "192.0.2.1", "holder": null, "unknown": 1, "mac": "02:00:00:00:00:0a"},
    })
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lease"},
        "spec": {"leaseDurationSeconds": 4, "renewTime": "2026-11-21T13:00:00.000000Z"},
    })
}

fn event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "event"},
        "eventTime": "2026-11-21T13:00:00.000000Z",
        "type": "Normal", "reason": "Announced", "action": "Announced", "note": "it is announced",
        "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "web"},
        "reportingController": "vipward.io/agent", "reportingInstance": "a",
    })
}

fn counted(count: u32) -> Value {
    json!({"count": count, "lastObservedTime": "2026-11-21T13:10:00.000000Z"})
}

/// Creates `base` with the value at a JSON pointer replaced, and deletes it again.
async fn create_with(api: &Api<DynamicObject>, base: &Value, path: &str, value: Value) -> kube::Result<()> {
    let mut object = base.clone();
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    if let Some(parent) = object.pointer_mut(parent) {
        parent[name] = value;
    }
    let made = create(api, &object).await?;
    api.delete(&made.metadata.name.unwrap_or_default(), &DeleteParams::default()).await.map(drop)
}

#[tokio::test]
async fn objects_must_look_as_their_types_and_definitions_say() -> Result<()> {
    let server = server()?;
    server.load_manifest(&crd_yaml())?;
    let long = |length: usize| json!("a".repeat(length));
    let rows = [
        (lease(), "/spec/leaseDurationSeconds", json!(1), ""),
        (lease(), "/spec/leaseDurationSeconds", json!(0), "must be greater than 0"),
        (lease(), "/spec/leaseTransitions", json!(-1), "must be greater than or equal to 0"),
        (lease(), "/spec/leaseTransitions", json!(2_147_483_648_u64), "must be of type Lease"),
        (lease(), "/spec/renewTime", json!("2026-11-21T13:00:00Z"), "parsing time"),
        (lease(), "/spec/acquireTime", json!("2026-11-21T13:00:00.123456789Z"), "parsing time"),
        (lease(), "/spec/acquireTime", json!("2026-11-21T13:00:00.123456+01:00"), ""),
        (lease(), "/metadata/name", json!("A_b"), "a lowercase RFC 1123 subdomain"),
        (event(), "/note", long(1_024), ""),
        (event(), "/note", long(1_025), "message: Invalid value: \"\": can have at most 1024 characters"),
        (event(), "/note", json!("ä".repeat(600)), "can have at most 1024 characters"),
        (event(), "/reportingInstance", long(129), "can have at most 128 characters"),
        (event(), "/reason", json!(""), "reason: Required value"),
        (event(), "/type", json!("Odd"), "has invalid value: Odd"),
        (event(), "/series", counted(1), "series.count: Invalid value: \"\": should be at least 2"),
        (claim(), "/spec/mac", json!(null), ""),
        (claim(), "/spec", json!({}), "spec.address: Required value"),
        (
            claim(),
            "/spec/epoch",
            json!(-1),
            "spec.epoch: Invalid value: -1: should be greater than or equal to 0",
        ),
        (claim(), "/spec/epoch", json!("1"), "spec.epoch: Invalid value: \"1\": must be of type integer"),
        (claim(), "/spec/mac", json!("02"), "spec.mac: Invalid value: \"02\": should match '^"),
        (claim(), "/spec/interface", long(16), "may not be more than 15 bytes"),
        (claim(), "/spec/holder", json!(""), "should be at least 1 chars long"),
        (claim(), "/spec/offeredBy", json!({"node": "a"}), "spec.offeredBy.session: Required value"),
        (
            claim(),
            "/status",
            json!({"conditions": [{"status": "Odd"}]}),
            "supported values: \"True\", \"False\"",
        ),
        (
            claim(),
            "/metadata/name",
            json!("192.0.2.2"),
            "<nil>: Invalid value: \"object\": the object's name",
        ),
    ];
    for (base, path, value, refused) in rows {
        let api = objects(&server, &base, base["kind"] != "VirtualIP")?;
        let created = create_with(&api, &base, path, value.clone()).await;
        if refused.is_empty() {
            assert!(created.is_ok(), "{path} {value}: {created:?}");
        } else {
            let status = refusal(created)?;
            assert!([400, 422].contains(&status.code), "{path} {value}: {status:?}");
            assert!(status.message.contains(refused), "{path} {value}: {status:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn of_an_event_only_its_count_can_be_changed() -> Result<()> {
    let server = server()?;
    let api = objects(&server, &event(), true)?;
    create(&api, &event()).await?;
    merge(&api, "event", json!({"series": counted(2)})).await?;
    for (path, change) in [
        ("message", json!({"note": "it is not"})),
        ("involvedObject", json!({"regarding": {"name": "mail"}})),
        ("reportingInstance", json!({"reportingInstance": "b"})),
    ] {
        let status = refusal(merge(&api, "event", change).await)?;
        assert_eq!(status.code, 422, "{path}");
        assert!(status.message.contains(&format!("{path}: ")), "{status:?}");
        assert!(status.message.ends_with("field is immutable"), "{status:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_definition_is_established_drops_what_it_does_not_know_and_ends_with_its_objects() -> Result<()> {
    let server = server()?;
    // Clients recognise an unknown type by plain text.
    let (code, words) =
        ask(&server, "admin", Method::GET, "/apis/vipward.io/v1alpha1/virtualips", "application/json")
            .await?;
    assert!(code == 404 && words.contains("404 page not found"), "{words}");

    server.load_manifest(&crd_yaml())?;
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"});
    let definitions = objects(&server, &definition, false)?;
    let made = definitions.get("virtualips.vipward.io").await?;
    assert_eq!(made.data["status"]["conditions"][1]["type"], "Established");
    let object = create(&claims(&server)?, &claim()).await?;
    let spec = json!({
        "address": "192.0.2.1", "holder": null, "mac": "02:00:00:00:00:0a", "epoch": 0, "cause": "", "services": "",
    });
    assert_eq!(object.data["spec"], spec, "nulls stay where they may be, and defaults are filled in");

    // A changed definition keeps its objects. A definition that is created again has none.
    merge(&definitions, "virtualips.vipward.io", json!({"metadata": {"labels": {"a": "b"}}})).await?;
    claims(&server)?.get("192.0.2.1").await?;
    for name in ["virtualips.vipward.io", "vippools.vipward.io"] {
        definitions.delete(name, &DeleteParams::default()).await?;
    }
    server.load_manifest(&crd_yaml())?;
    assert_eq!(refusal(claims(&server)?.get("192.0.2.1").await)?.code, 404);
    let unknown =
        json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "number"}}}]}});
    let status = refusal(merge(&definitions, "virtualips.vipward.io", unknown).await)?;
    assert_eq!(status.code, 501, "{status:?}");
    Ok(())
}
