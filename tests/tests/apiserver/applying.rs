//! Server-side apply: owners, conflicts, and what goes when it is applied no more.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use vipward_tests::apiserver::ApiServer;

use super::{WIDGETS, admin, config_maps, put, refusal, server, widget, widgets};

fn data(values: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": values})
}

async fn apply(api: &Api<ConfigMap>, manager: &str, values: &Value) -> kube::Result<ConfigMap> {
    api.patch("a", &PatchParams::apply(manager), &Patch::Apply(&data(values))).await
}

fn owners(object: &ConfigMap) -> Result<Vec<(String, Value)>> {
    let entries = object.metadata.managed_fields.iter().flatten();
    entries
        .map(|entry| {
            let fields = serde_json::to_value(entry.fields_v1.as_ref().context("it has fields")?)?;
            Ok((entry.manager.clone().unwrap_or_default(), fields))
        })
        .collect()
}

#[tokio::test]
async fn who_applies_owns_just_what_was_applied() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    apply(&api, "one", &json!({"x": "1"})).await?;
    let object = apply(&api, "two", &json!({"y": "2"})).await?;
    assert_eq!(
        owners(&object)?,
        [
            ("one".to_owned(), json!({"f:data": {"f:x": {}}})),
            ("two".to_owned(), json!({"f:data": {"f:y": {}}})),
        ]
    );
    Ok(())
}

#[tokio::test]
async fn another_owners_field_is_a_conflict_that_names_the_owner() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    apply(&api, "one", &json!({"x": "1", "y": "1"})).await?;
    let status = refusal(apply(&api, "two", &json!({"x": "2"})).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(status.message, "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let causes = status.details.map(|details| details.causes).unwrap_or_default();
    assert_eq!((causes[0].reason.as_str(), causes[0].field.as_str()), ("FieldManagerConflict", ".data.x"));
    let status = refusal(apply(&api, "two", &json!({"x": "2", "y": "2"})).await)?;
    assert_eq!(
        status.message,
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.x\n- .data.y"
    );
    Ok(())
}

#[tokio::test]
async fn the_same_value_is_no_conflict_and_force_takes_the_field() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    apply(&api, "one", &json!({"x": "1"})).await?;
    let shared = apply(&api, "two", &json!({"x": "1"})).await?;
    assert_eq!(owners(&shared)?.len(), 2);
    let force = PatchParams::apply("two").force();
    let taken = api.patch("a", &force, &Patch::Apply(&data(&json!({"x": "2"})))).await?;
    assert_eq!(owners(&taken)?, [("two".to_owned(), json!({"f:data": {"f:x": {}}}))]);
    Ok(())
}

#[tokio::test]
async fn what_is_applied_no_more_goes_unless_another_owns_it() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    apply(&api, "one", &json!({"x": "1", "y": "1", "z": "1"})).await?;
    apply(&api, "two", &json!({"y": "1"})).await?;
    let object = apply(&api, "one", &json!({"z": "1"})).await?;
    let left: Vec<_> = object.data.unwrap_or_default().into_keys().collect();
    assert_eq!(left, ["y", "z"]);
    Ok(())
}

#[tokio::test]
async fn updates_own_what_they_change_and_applies_see_it() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let params = PostParams { field_manager: Some("editor".into()), ..PostParams::default() };
    api.create(&params, &super::config_map("a", "first")?).await?;
    let status = refusal(apply(&api, "one", &json!({"key": "other"})).await)?;
    assert!(
        status.message.starts_with("Apply failed with 1 conflict: conflict with \"editor\" using v1 at "),
        "{}",
        status.message
    );
    assert!(status.message.ends_with(": .data.key"), "{}", status.message);

    // An update that changes a field takes it from whoever applied it.
    apply(&api, "one", &json!({"mine": "1"})).await?;
    let params = PatchParams { field_manager: Some("editor".into()), ..PatchParams::default() };
    let object = api.patch("a", &params, &Patch::Merge(json!({"data": {"mine": "2"}}))).await?;
    let owned: Vec<_> = owners(&object)?.into_iter().map(|(manager, _)| manager).collect();
    assert_eq!(owned, ["editor"]);
    Ok(())
}

#[tokio::test]
async fn without_a_field_manager_the_user_agent_is_the_owner() -> Result<()> {
    let server = server()?;
    let request = hyper::Request::post("/api/v1/namespaces/default/configmaps")
        .header("user-agent", "vip-tool/v1.2 (linux)")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&super::config_map("a", "first")?)?)?;
    let object: ConfigMap = admin(&server)?.request(request).await?;
    assert_eq!(owners(&object)?[0].0, "vip-tool");
    let nobody = api_patch_without_manager(&server).await?;
    assert_eq!(nobody, 422);
    Ok(())
}

/// The code with which an apply without a manager is refused.
async fn api_patch_without_manager(server: &ApiServer) -> Result<u16> {
    let request = hyper::Request::patch("/api/v1/namespaces/default/configmaps/a")
        .header("content-type", "application/apply-patch+yaml")
        .body(serde_json::to_vec(&data(&json!({"x": "1"})))?)?;
    Ok(refusal(admin(server)?.request::<ConfigMap>(request).await)?.code)
}

#[tokio::test]
async fn applying_the_same_again_writes_nothing() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let first = apply(&api, "one", &json!({"x": "1"})).await?;
    let second = apply(&api, "one", &json!({"x": "1"})).await?;
    assert_eq!(first.metadata, second.metadata);
    Ok(())
}

#[tokio::test]
async fn the_ingress_of_a_service_is_one_field_that_goes_when_its_owner_lets_go() -> Result<()> {
    let server = server()?;
    server
        .load_manifest("{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer}}")?;
    let api: Api<Service> = Api::namespaced(admin(&server)?, "default");
    let status = |status: &Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "status": status});
    let ours = status(&json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"ip": "192.0.2.2"}]}}));
    let written = api.patch_status("s", &PatchParams::apply("ours"), &Patch::Apply(&ours)).await?;
    let entry = written
        .metadata
        .managed_fields
        .iter()
        .flatten()
        .find(|entry| entry.manager.as_deref() == Some("ours"))
        .context("the applier is an owner")?;
    assert_eq!(entry.subresource.as_deref(), Some("status"));
    assert_eq!(
        serde_json::to_value(&entry.fields_v1)?,
        json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}})
    );

    let theirs = status(&json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.9"}]}}));
    let refused = api.patch_status("s", &PatchParams::apply("theirs"), &Patch::Apply(&theirs)).await;
    assert_eq!(
        refusal(refused)?.message,
        "Apply failed with 1 conflict: conflict with \"ours\" with subresource \"status\": .status.loadBalancer.ingress"
    );

    let nothing = status(&json!({}));
    let cleared = api.patch_status("s", &PatchParams::apply("ours"), &Patch::Apply(&nothing)).await?;
    let ingress =
        cleared.status.and_then(|status| status.load_balancer).and_then(|balancer| balancer.ingress);
    assert_eq!(ingress, None);
    Ok(())
}

#[tokio::test]
async fn the_items_of_a_keyed_list_have_owners_of_their_own() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    let api = widgets(&server)?;
    let parts = |manager: &'static str, parts: Value| {
        let api = api.clone();
        async move {
            let config = widget(&json!({
                "metadata": {"name": "w"}, "spec": {"size": "small", "parts": parts},
            }))?;
            anyhow::Ok(api.patch("w", &PatchParams::apply(manager), &Patch::Apply(&config)).await?)
        }
    };
    parts("one", json!([{"name": "a", "weight": 1}, {"name": "b"}])).await?;
    parts("two", json!([{"name": "b"}, {"name": "c", "weight": 3}])).await?;
    let after: DynamicObject = parts("one", json!([{"name": "a", "weight": 2}])).await?;
    assert_eq!(
        after.data["spec"]["parts"],
        json!([{"name": "a", "weight": 2}, {"name": "b"}, {"name": "c", "weight": 3}])
    );
    let after = parts("two", json!([])).await?;
    assert_eq!(after.data["spec"]["parts"], json!([{"name": "a", "weight": 2}]));
    Ok(())
}

#[tokio::test]
async fn an_apply_with_a_version_is_a_condition() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let mut config = data(&json!({"x": "1"}));
    config["metadata"]["resourceVersion"] = json!("1");
    let status = refusal(api.patch("a", &PatchParams::apply("one"), &Patch::Apply(&config)).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(status.message.contains("the object has been modified"), "{}", status.message);
    Ok(())
}
