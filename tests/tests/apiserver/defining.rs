//! Custom resources: they are there when they are defined, and must look as their definition says.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{WIDGETS, admin, refusal, server, widget, widgets};

#[tokio::test]
async fn a_resource_that_nobody_defined_is_no_path() -> Result<()> {
    let server = server()?;
    let Err(kube::Error::Api(status)) = widgets(&server)?.list(&ListParams::default()).await else {
        panic!("it was not refused")
    };
    assert_eq!(status.code, 404);
    assert!(status.message.contains("404 page not found"), "{status:?}");
    Ok(())
}

#[tokio::test]
async fn a_definition_is_established_and_ends_with_its_objects() -> Result<()> {
    let server = server()?;
    let definitions: Api<CustomResourceDefinition> = Api::all(admin(&server)?);
    server.load_manifest(WIDGETS)?;
    let conditions =
        definitions.get("widgets.example.org").await?.status.and_then(|status| status.conditions);
    let established = conditions.into_iter().flatten().find(|condition| condition.type_ == "Established");
    assert_eq!(established.map(|condition| condition.status).as_deref(), Some("True"));

    let api = widgets(&server)?;
    let small = widget(&json!({"metadata": {"name": "w"}, "spec": {"size": "small"}}))?;
    api.create(&PostParams::default(), &small).await?;
    // A definition that changes keeps its objects.
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    definitions.patch("widgets.example.org", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), 1);

    definitions.delete("widgets.example.org", &DeleteParams::default()).await?;
    assert_eq!(refusal(api.list(&ListParams::default()).await)?.code, 404);
    server.load_manifest(WIDGETS)?;
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), 0);
    Ok(())
}

#[tokio::test]
async fn unknown_fields_are_dropped_and_defaults_filled_in() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    let api = widgets(&server)?;
    let wanted =
        widget(&json!({"metadata": {"name": "w"}, "spec": {"size": "small", "colour": "red"}, "x": 1}))?;
    let created = api.create(&PostParams::default(), &wanted).await?;
    assert_eq!(created.data["spec"], json!({"size": "small", "count": 1}));
    assert_eq!(created.data.get("x"), None);

    let wanted =
        widget(&json!({"metadata": {"name": "v"}, "spec": {"size": "small", "colour": "red"}, "x": 1}))?;
    let strict =
        hyper::Request::post("/apis/example.org/v1/namespaces/default/widgets?fieldValidation=Strict")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&wanted)?)?;
    let status = refusal(admin(&server)?.request::<kube::api::DynamicObject>(strict).await)?;
    assert_eq!(status.code, 400);
    assert_eq!(status.message, "strict decoding error: unknown field \"spec.colour\", unknown field \"x\"");
    Ok(())
}

#[tokio::test]
async fn what_the_schema_forbids_is_refused_with_the_field() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    let api = widgets(&server)?;
    let table = [
        (json!({}), "spec: Required value"),
        (json!({"spec": {}}), "spec.size: Required value"),
        (
            json!({"spec": {"size": "huge"}}),
            "spec.size: Unsupported value: \"huge\": supported values: \"small\", \"large\"",
        ),
        (
            json!({"spec": {"size": "small", "count": "two"}}),
            "spec.count: Invalid value: \"two\": must be of type integer: \"string\"",
        ),
        (
            json!({"spec": {"size": "small", "count": 0}}),
            "spec.count: Invalid value: 0: should be greater than or equal to 1",
        ),
        (
            json!({"spec": {"size": "small", "code": "A1"}}),
            "spec.code: Invalid value: \"A1\": should match '^[a-z]+$'",
        ),
        (json!({"spec": {"size": "small", "parts": [{"weight": 1}]}}), "spec.parts[0].name: Required value"),
    ];
    for (mut object, expected) in table {
        object["metadata"] = json!({"name": "w"});
        let status = refusal(api.create(&PostParams::default(), &widget(&object)?).await)?;
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"), "{object}");
        assert_eq!(status.message, format!("Widget.example.org \"w\" is invalid: {expected}"), "{object}");
    }
    Ok(())
}

#[tokio::test]
async fn the_generation_counts_changes_outside_metadata_and_status() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    let api = widgets(&server)?;
    let small =
        widget(&json!({"metadata": {"name": "w"}, "spec": {"size": "small"}, "status": {"phase": "x"}}))?;
    let created = api.create(&PostParams::default(), &small).await?;
    assert_eq!((created.metadata.generation, created.data.get("status")), (Some(1), None));
    let with = PatchParams::default();
    let merge = |value| Patch::Merge(value);
    let labelled = api.patch("w", &with, &merge(json!({"metadata": {"labels": {"a": "b"}}}))).await?;
    assert_eq!(labelled.metadata.generation, Some(1));
    let reported = api.patch_status("w", &with, &merge(json!({"status": {"phase": "Ready"}}))).await?;
    assert_eq!((reported.metadata.generation, &reported.data["status"]["phase"]), (Some(1), &json!("Ready")));
    let changed = api.patch("w", &with, &merge(json!({"spec": {"size": "large"}}))).await?;
    assert_eq!((changed.metadata.generation, &changed.data["status"]["phase"]), (Some(2), &json!("Ready")));
    let status = refusal(api.patch("w", &with, &Patch::Strategic(json!({"spec": {"size": "small"}}))).await)?;
    assert_eq!(status.code, 415);
    Ok(())
}

#[tokio::test]
async fn get_shows_the_columns_of_the_definition() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    server.load_manifest(
        "{apiVersion: example.org/v1, kind: Widget, metadata: {name: w}, spec: {size: large}, \
         status: {conditions: [{type: Other, status: x}, {type: Ready, status: 'True'}]}}",
    )?;
    let request = hyper::Request::get("/apis/example.org/v1/namespaces/default/widgets")
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
        .body(Vec::new())?;
    let table: serde_json::Value = admin(&server)?.request(request).await?;
    let columns: Vec<_> =
        table["columnDefinitions"].as_array().into_iter().flatten().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Size", "Ready"]);
    assert_eq!(table["rows"][0]["cells"], json!(["w", "large", "True"]));
    Ok(())
}

#[tokio::test]
async fn discovery_names_every_resource_and_its_short_names() -> Result<()> {
    let server = server()?;
    server.load_manifest(WIDGETS)?;
    let client = admin(&server)?;
    let groups = client.list_api_groups().await?;
    assert!(groups.groups.iter().any(|group| group.name == "example.org"));
    let core = client.list_core_api_resources("v1").await?;
    assert!(core.resources.iter().any(|resource| resource.name == "services/status"));
    let ours = client.list_api_group_resources("example.org/v1").await?;
    let widget = &ours.resources[0];
    assert_eq!(
        (widget.name.as_str(), widget.short_names.as_deref()),
        ("widgets", Some(&["wd".to_owned()][..]))
    );
    assert_eq!(client.apiserver_version().await?.minor, "33");
    Ok(())
}
