//! Writes: who comes too late, what a version is, and how objects end.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::{admin, config_map, config_maps, put, refusal, server, widget, widgets};

#[tokio::test]
async fn a_new_object_gets_its_metadata_from_the_server() -> Result<()> {
    let server = server()?;
    let created = put(&config_maps(&server)?, "a").await?;
    let metadata = created.metadata;
    assert_eq!(metadata.uid.as_ref().map(String::len), Some(36));
    assert!(metadata.creation_timestamp.is_some() && metadata.resource_version.is_some());
    assert_eq!(metadata.namespace.as_deref(), Some("default"));
    assert_eq!(metadata.managed_fields.map(|owners| owners.len()), Some(1));
    Ok(())
}

#[tokio::test]
async fn creating_what_exists_is_refused() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let status = refusal(api.create(&PostParams::default(), &config_map("a", "again")?).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "configmaps \"a\" already exists");
    Ok(())
}

#[tokio::test]
async fn the_server_makes_a_name_from_generate_name() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let nameless: ConfigMap = serde_json::from_value(json!({"metadata": {"generateName": "event-"}}))?;
    let mut names = Vec::new();
    for _ in 0..3 {
        names.extend(api.create(&PostParams::default(), &nameless).await?.metadata.name);
    }
    assert!(names.iter().all(|name| name.starts_with("event-") && name.len() == 11), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
    Ok(())
}

#[tokio::test]
async fn of_two_writers_who_read_the_same_version_one_is_too_late() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let read = put(&api, "a").await?;
    let mut mine = config_map("a", "mine")?;
    mine.metadata.resource_version.clone_from(&read.metadata.resource_version);
    let mut theirs = config_map("a", "theirs")?;
    theirs.metadata.resource_version.clone_from(&read.metadata.resource_version);

    api.replace("a", &PostParams::default(), &mine).await?;
    let status = refusal(api.replace("a", &PostParams::default(), &theirs).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert_eq!(
        status.message,
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes \
         to the latest version and try again"
    );
    assert_eq!(
        status.details.map(|details| (details.name, details.kind)),
        Some(("a".into(), "configmaps".into()))
    );
    assert_eq!(api.get("a").await?.data.unwrap_or_default()["key"], "mine");
    Ok(())
}

#[tokio::test]
async fn a_put_without_a_version_overwrites_a_config_map_and_not_a_lease_or_a_custom_resource() -> Result<()>
{
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    api.replace("a", &PostParams::default(), &config_map("a", "second")?).await?;
    assert_eq!(api.get("a").await?.data.unwrap_or_default()["key"], "second");

    let leases: Api<Lease> = Api::namespaced(admin(&server)?, "default");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}))?;
    leases.create(&PostParams::default(), &lease).await?;
    let status = refusal(leases.replace("l", &PostParams::default(), &lease).await)?;
    assert_eq!(status.code, 422);
    assert!(status.message.contains("metadata.resourceVersion: Invalid value: 0x0"), "{}", status.message);

    server.load_manifest(super::WIDGETS)?;
    let wanted = widget(&json!({"metadata": {"name": "w"}, "spec": {"size": "small"}}))?;
    widgets(&server)?.create(&PostParams::default(), &wanted).await?;
    assert_eq!(refusal(widgets(&server)?.replace("w", &PostParams::default(), &wanted).await)?.code, 422);
    Ok(())
}

#[tokio::test]
async fn a_put_of_a_lease_that_was_deleted_creates_it_unless_it_names_the_old_one() -> Result<()> {
    let server = server()?;
    let leases: Api<Lease> = Api::namespaced(admin(&server)?, "default");
    let lease: Lease =
        serde_json::from_value(json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}))?;
    let created = leases.replace("l", &PostParams::default(), &lease).await?;
    leases.delete("l", &DeleteParams::default()).await?;
    let status = refusal(leases.replace("l", &PostParams::default(), &created).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(leases.get_opt("l").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_new_version() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let first = put(&api, "a").await?;
    let again = api.replace("a", &PostParams::default(), &first).await?;
    assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
    let patch = json!({"data": {"key": "first"}});
    let patched = api.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await?;
    assert_eq!(patched.metadata.resource_version, first.metadata.resource_version);
    Ok(())
}

#[tokio::test]
async fn patches_of_every_kind_change_what_they_say() -> Result<()> {
    let server = server()?;
    server.load_manifest(
        "{apiVersion: v1, kind: Service, metadata: {name: s, labels: {a: b}}, \
         spec: {ports: [{port: 80, name: http}, {port: 443, name: https}]}}",
    )?;
    let api: Api<Service> = Api::namespaced(admin(&server)?, "default");
    let with = PatchParams::default();

    let merge = json!({"metadata": {"labels": {"a": null, "c": "d"}}});
    let patched = api.patch("s", &with, &Patch::Merge(&merge)).await?;
    let labels = patched.metadata.labels.unwrap_or_default();
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), [("c".to_owned(), "d".to_owned())]);

    let strategic = json!({"spec": {"ports": [{"port": 443, "name": "tls"}]}});
    let patched = api.patch("s", &with, &Patch::Strategic(&strategic)).await?;
    let ports = patched.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let ports: Vec<_> = ports.iter().map(|port| (port.port, port.name.as_deref())).collect();
    assert_eq!(ports, [(80, Some("http")), (443, Some("tls"))]);

    let json = |operations| serde_json::from_value::<json_patch::Patch>(operations);
    let good = json(json!([
        {"op": "test", "path": "/metadata/labels/c", "value": "d"},
        {"op": "replace", "path": "/metadata/labels/c", "value": "e"},
    ]))?;
    let patched = api.patch("s", &with, &Patch::<()>::Json(good.clone())).await?;
    assert_eq!(patched.metadata.labels.unwrap_or_default()["c"], "e");
    let status = refusal(api.patch("s", &with, &Patch::<()>::Json(good)).await)?;
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    Ok(())
}

#[tokio::test]
async fn a_version_in_a_patch_is_a_condition() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let old = put(&api, "a").await?.metadata.resource_version;
    let patch = |value: &str| json!({"metadata": {"resourceVersion": old}, "data": {"key": value}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(patch("second"))).await?;
    let status = refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(patch("third"))).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    Ok(())
}

#[tokio::test]
async fn the_status_is_written_through_its_subresource_only() -> Result<()> {
    let server = server()?;
    server
        .load_manifest("{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {type: LoadBalancer}}")?;
    let api: Api<Service> = Api::namespaced(admin(&server)?, "default");
    let both = json!({
        "spec": {"sessionAffinity": "ClientIP"},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
    });
    let ips = |service: &Service| {
        let ingress = service.status.as_ref()?.load_balancer.as_ref()?.ingress.as_ref()?;
        ingress.first()?.ip.clone()
    };
    let affinity = |service: &Service| service.spec.as_ref()?.session_affinity.clone();

    let after = api.patch_status("s", &PatchParams::default(), &Patch::Merge(&both)).await?;
    assert_eq!((ips(&after).as_deref(), affinity(&after).as_deref()), (Some("192.0.2.1"), Some("None")));
    let none = json!({"spec": {"sessionAffinity": "ClientIP"}, "status": null});
    let after = api.patch("s", &PatchParams::default(), &Patch::Merge(&none)).await?;
    assert_eq!((ips(&after).as_deref(), affinity(&after).as_deref()), (Some("192.0.2.1"), Some("ClientIP")));
    Ok(())
}

#[tokio::test]
async fn an_object_with_finalizers_is_there_until_they_are_gone() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let mut object = config_map("a", "first")?;
    object.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    api.create(&PostParams::default(), &object).await?;
    api.delete("a", &DeleteParams::default()).await?;
    let ending = api.get("a").await?;
    assert!(ending.metadata.deletion_timestamp.is_some());

    let more = json!({"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}});
    let status = refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(&more)).await)?;
    assert_eq!(status.code, 422);
    assert!(status.message.contains("no new finalizers can be added"), "{}", status.message);

    let none = json!({"metadata": {"finalizers": null}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(&none)).await?;
    assert!(api.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_delete_can_say_which_object_and_which_version_it_means() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let metadata = put(&api, "a").await?.metadata;
    let only = |uid: Option<&str>, version: Option<&str>| DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: version.map(str::to_owned),
        }),
        ..DeleteParams::default()
    };
    assert_eq!(refusal(api.delete("a", &only(Some("other"), None)).await)?.code, 409);
    assert_eq!(refusal(api.delete("a", &only(None, Some("1"))).await)?.code, 409);
    api.delete("a", &only(metadata.uid.as_deref(), metadata.resource_version.as_deref())).await?;
    assert_eq!(
        refusal(api.delete("a", &DeleteParams::default()).await)?.message,
        "configmaps \"a\" not found"
    );
    Ok(())
}

#[tokio::test]
async fn a_collection_is_deleted_by_its_labels() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    for (name, color) in [("a", "red"), ("b", "blue"), ("c", "red")] {
        let mut object = config_map(name, "first")?;
        object.metadata.labels = Some([("color".to_owned(), color.to_owned())].into());
        api.create(&PostParams::default(), &object).await?;
    }
    api.delete_collection(&DeleteParams::default(), &ListParams::default().labels("color=red")).await?;
    let left: Vec<_> =
        api.list(&ListParams::default()).await?.into_iter().filter_map(|map| map.metadata.name).collect();
    assert_eq!(left, ["b"]);
    Ok(())
}

#[tokio::test]
async fn a_namespace_ends_with_what_is_in_it() -> Result<()> {
    let server = server()?;
    let namespaces: Api<Namespace> = Api::all(admin(&server)?);
    let api: Api<ConfigMap> = Api::namespaced(admin(&server)?, "ns");
    let status = refusal(api.create(&PostParams::default(), &config_map("a", "first")?).await)?;
    assert_eq!(status.message, "namespaces \"ns\" not found");

    server.load_manifest("{apiVersion: v1, kind: Namespace, metadata: {name: ns}}")?;
    let mut held = config_map("a", "first")?;
    held.metadata.finalizers = Some(vec!["example.org/hold".into()]);
    api.create(&PostParams::default(), &held).await?;
    namespaces.delete("ns", &DeleteParams::default()).await?;
    let status = refusal(api.create(&PostParams::default(), &config_map("b", "first")?).await)?;
    assert_eq!(status.code, 403);
    assert!(status.message.contains("because it is being terminated"), "{}", status.message);

    let none = json!({"metadata": {"finalizers": null}});
    api.patch("a", &PatchParams::default(), &Patch::Merge(&none)).await?;
    assert!(namespaces.get_opt("ns").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn what_is_malformed_is_refused_with_the_reason() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let status = refusal(api.create(&PostParams::default(), &config_map("A_b", "first")?).await)?;
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let status = refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": 5}))).await)?;
    assert_eq!(status.code, 404);
    put(&api, "a").await?;
    let status = refusal(api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": 5}))).await)?;
    assert_eq!(status.code, 400);
    let nodes: Api<Node> = Api::all(admin(&server)?);
    assert_eq!(refusal(nodes.get("n").await)?.message, "nodes \"n\" not found");
    Ok(())
}
