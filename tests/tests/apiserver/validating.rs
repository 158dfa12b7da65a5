//! Validation: what a real API server refuses of what agents write, whoever has it from a client that is laxer.

use anyhow::Result;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use vipward_tests::apiserver::ApiServer;

use super::{WIDGETS, admin, refusal, server, widget, widgets};

fn api(server: &ApiServer, group: &str, kind: &str) -> Result<Api<DynamicObject>> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Ok(Api::namespaced_with(admin(server)?, "default", &resource))
}

/// `base` with the value at a JSON pointer replaced.
fn with(base: &Value, path: &str, value: Value) -> Result<DynamicObject> {
    let mut object = base.clone();
    let (parent, name) = path.rsplit_once('/').unwrap_or_default();
    if let Some(parent) = object.pointer_mut(parent) {
        parent[name] = value;
    }
    Ok(serde_json::from_value(object)?)
}

fn lease() -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"generateName": "lease-"},
        "spec": {
            "holderIdentity": "a/1",
            "leaseDurationSeconds": 4,
            "leaseTransitions": 0,
            "renewTime": "2026-11-21T13:00:00.000000Z",
        },
    })
}

fn event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "event-"},
        "eventTime": "2026-11-21T13:00:00.000000Z",
        "type": "Normal",
        "reason": "Announced",
        "action": "Announced",
        "note": "it is announced",
        "regarding": {"apiVersion": "v1", "kind": "Service", "namespace": "default", "name": "web"},
        "reportingController": "vipward.io/agent",
        "reportingInstance": "a",
    })
}

#[tokio::test]
async fn a_lease_has_numbers_in_range_and_times_with_microseconds() -> Result<()> {
    let server = server()?;
    let api = api(&server, "coordination.k8s.io", "Lease")?;
    let rows = [
        ("/spec/leaseDurationSeconds", json!(1), None),
        ("/spec/leaseDurationSeconds", json!(0), Some((422, "must be greater than 0"))),
        ("/spec/leaseTransitions", json!(-1), Some((422, "must be greater than or equal to 0"))),
        ("/spec/leaseTransitions", json!(2_147_483_647), None),
        ("/spec/leaseTransitions", json!(2_147_483_648_u64), Some((400, "Lease"))),
        ("/spec/renewTime", json!("2026-11-21T13:00:00Z"), Some((400, "parsing time"))),
        ("/spec/renewTime", json!("2026-11-21T13:00:00.123Z"), Some((400, "parsing time"))),
        ("/spec/acquireTime", json!("2026-11-21T13:00:00.123456789Z"), Some((400, "parsing time"))),
        ("/spec/acquireTime", json!("2026-11-21T13:00:00.123456+01:00"), None),
    ];
    for (path, value, refused) in rows {
        let created = api.create(&PostParams::default(), &with(&lease(), path, value.clone())?).await;
        let Some((code, words)) = refused else {
            assert!(created.is_ok(), "{path} {value}: {created:?}");
            continue;
        };
        let status = refusal(created)?;
        assert_eq!(status.code, code, "{path} {value}: {status:?}");
        assert!(status.message.contains(words), "{path} {value}: {status:?}");
    }
    Ok(())
}

/// What is longer is refused as a whole; the limits are in bytes, whatever the words say.
#[tokio::test]
async fn an_event_says_who_what_and_when_and_is_short() -> Result<()> {
    let server = server()?;
    let api = api(&server, "events.k8s.io", "Event")?;
    let rows = [
        ("/note", json!("a".repeat(1_024)), None),
        (
            "/note",
            json!("a".repeat(1_025)),
            Some("message: Invalid value: \"\": can have at most 1024 characters"),
        ),
        ("/note", json!("ä".repeat(600)), Some("can have at most 1024 characters")),
        ("/note", json!(""), None),
        ("/reportingInstance", json!("n".repeat(128)), None),
        ("/reportingInstance", json!("n".repeat(129)), Some("can have at most 128 characters")),
        ("/reason", json!("r".repeat(129)), Some("can have at most 128 characters")),
        ("/reason", json!(""), Some("reason: Required value")),
        ("/action", Value::Null, Some("action: Required value")),
        ("/reportingController", json!(""), Some("reportingController: Required value")),
        ("/eventTime", Value::Null, Some("eventTime")),
        ("/type", json!("Odd"), Some("has invalid value: Odd")),
        (
            "/series",
            json!({"count": 1, "lastObservedTime": "2026-11-21T13:00:00.000000Z"}),
            Some("series.count: Invalid value: \"\": should be at least 2"),
        ),
    ];
    for (path, value, refused) in rows {
        let created = api.create(&PostParams::default(), &with(&event(), path, value.clone())?).await;
        let Some(words) = refused else {
            assert!(created.is_ok(), "{path} {value}: {created:?}");
            continue;
        };
        let status = refusal(created)?;
        assert!(status.message.contains(words), "{path} {value}: {status:?}");
    }
    Ok(())
}

#[tokio::test]
async fn of_an_event_only_its_count_can_be_changed() -> Result<()> {
    let server = server()?;
    let api = api(&server, "events.k8s.io", "Event")?;
    let made = api.create(&PostParams::default(), &serde_json::from_value(event())?).await?;
    let name = made.metadata.name.unwrap_or_default();
    let counted = json!({"series": {"count": 2, "lastObservedTime": "2026-11-21T13:10:00.000000Z"}});
    let params = PatchParams::default();
    api.patch(&name, &params, &Patch::Merge(&counted)).await?;
    for (path, change) in [
        ("message", json!({"note": "it is not"})),
        ("involvedObject", json!({"regarding": {"name": "mail"}})),
        ("related", json!({"related": {"name": "mail"}})),
        ("reason", json!({"reason": "Moved"})),
        ("reportingInstance", json!({"reportingInstance": "b"})),
        ("type", json!({"type": "Warning"})),
    ] {
        let status = refusal(api.patch(&name, &params, &Patch::Merge(&change)).await)?;
        assert_eq!(status.code, 422, "{path}");
        assert!(
            status.message.contains(&format!("{path}: ")) && status.message.ends_with("field is immutable"),
            "{status:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_rule_that_two_fields_are_equal_is_kept() -> Result<()> {
    let server = server()?;
    let rule = "          x-kubernetes-validations:\n            - rule: self.metadata.name == self.spec.size\n              message: a widget is called by its size\n";
    let top = "          type: object\n          required: [spec]\n";
    assert!(WIDGETS.contains(top), "the definition has changed");
    server.load_manifest(&WIDGETS.replacen(top, &format!("{rule}{top}"), 1))?;
    let api = widgets(&server)?;
    let of = |name: &str| widget(&json!({"metadata": {"name": name}, "spec": {"size": "small"}}));
    let status = refusal(api.create(&PostParams::default(), &of("large")?).await)?;
    assert_eq!(status.code, 422);
    assert!(
        status.message.ends_with(r#"<nil>: Invalid value: "object": a widget is called by its size"#),
        "{status:?}"
    );
    api.create(&PostParams::default(), &of("small")?).await?;
    let patch = json!({"spec": {"size": "large"}});
    let changed = api.patch("small", &PatchParams::default(), &Patch::Merge(&patch)).await;
    assert_eq!(refusal(changed)?.code, 422);
    Ok(())
}
