//! Writes: versions, conflicts, finalizers, and the owners of a Service's addresses.

use anyhow::{Context as _, Result};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use super::{create, label, merge, names, node, nodes, objects, put, refusal, server, service, version};

#[tokio::test]
async fn a_new_object_gets_its_metadata_from_the_server_and_is_created_once() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let metadata = put(&api, "a").await?.metadata;
    assert_eq!(metadata.uid.as_ref().map(String::len), Some(36));
    assert!(metadata.creation_timestamp.is_some() && metadata.resource_version.is_some());
    assert_eq!(metadata.managed_fields.map(|owners| owners.len()), Some(1));
    let status = refusal(create(&api, &node("a")).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, "nodes \"a\" already exists");
    Ok(())
}

#[tokio::test]
async fn of_two_writers_who_read_the_same_version_one_is_too_late() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let read = version(&put(&api, "a").await?)?;
    let patch = |value: &str| {
        let mut patch = label(value);
        patch["metadata"]["resourceVersion"] = json!(read);
        patch
    };
    let written = merge(&api, "a", patch("second")).await?;
    assert_ne!(version(&written)?, read);
    let status = refusal(merge(&api, "a", patch("third")).await)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    assert!(status.message.contains("the object has been modified"), "{}", status.message);
    assert_eq!(api.get("a").await?, written);
    Ok(())
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_new_version() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let first = put(&api, "a").await?;
    assert_eq!(merge(&api, "a", label("first")).await?, first);
    Ok(())
}

#[tokio::test]
async fn a_strategic_patch_merges_containers_by_name_and_replaces_other_lists() -> Result<()> {
    let server = server()?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {}, "template": {"spec": {"containers": [
            {"name": "a", "image": "one", "args": ["x", "y"]}, {"name": "b", "image": "one"},
        ]}}},
    });
    let api = objects(&server, &deployment, true)?;
    create(&api, &deployment).await?;
    let containers = json!([
        {"name": "a", "image": "two", "args": ["z"]}, {"name": "b", "$patch": "delete"}, {"name": "c", "image": "two"},
    ]);
    let patch = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [], "containers": containers}}}});
    let patched = api.patch("d", &PatchParams::default(), &Patch::Strategic(patch)).await?;
    let expected = json!([
        {"name": "a", "image": "two", "args": ["z"]}, {"name": "c", "image": "two"},
    ]);
    assert_eq!(patched.data["spec"]["template"]["spec"]["containers"], expected);
    Ok(())
}

#[tokio::test]
async fn a_deployment_is_scaled_and_counts_as_rolled_out() -> Result<()> {
    let server = server()?;
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"selector": {}, "template": {}},
    });
    let api = objects(&server, &deployment, true)?;
    let made = create(&api, &deployment).await?;
    assert_eq!(
        (&made.data["spec"]["replicas"], &made.data["status"]["availableReplicas"]),
        (&json!(1), &json!(1))
    );
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let scaled = api.patch_scale("d", &PatchParams::default(), &scale).await?;
    assert_eq!(
        (scaled.spec.and_then(|spec| spec.replicas), scaled.status.map(|status| status.replicas)),
        (Some(3), Some(3))
    );
    assert_eq!(api.get("d").await?.data["status"]["updatedReplicas"], 3);
    Ok(())
}

#[tokio::test]
async fn what_belongs_to_the_server_and_to_the_status_cannot_be_written_by_others() -> Result<()> {
    let server = server()?;
    let api = objects(&server, &service(""), true)?;
    let mut object = service("s");
    object["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
    let made = create(&api, &object).await?;
    assert_eq!(made.data["status"], json!({"loadBalancer": {}}), "a status is not for the creator");

    let patch = json!({"metadata": {"uid": "other", "creationTimestamp": null}, "status": {"x": 1}});
    assert_eq!(merge(&api, "s", patch).await?, made);
    let patch = json!({"spec": {"type": "ClusterIP"}, "status": object["status"]});
    let patched = api.patch_status("s", &PatchParams::default(), &Patch::Merge(patch)).await?;
    assert_eq!(patched.data["spec"], made.data["spec"]);
    assert_eq!(
        patched.data["status"]["loadBalancer"]["ingress"],
        json!([{"ip": "192.0.2.1", "ipMode": "VIP"}])
    );
    Ok(())
}

#[tokio::test]
async fn an_object_with_finalizers_is_there_until_they_are_gone() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let mut object = node("a");
    object["metadata"]["finalizers"] = json!(["example.org/hold"]);
    create(&api, &object).await?;
    api.delete("a", &DeleteParams::default()).await?;
    assert!(api.get("a").await?.metadata.deletion_timestamp.is_some());

    let more = json!({"metadata": {"finalizers": ["example.org/hold", "example.org/more"]}});
    let status = refusal(merge(&api, "a", more).await)?;
    assert_eq!(status.code, 422);
    assert!(status.message.contains("no new finalizers can be added"), "{}", status.message);

    merge(&api, "a", json!({"metadata": {"finalizers": []}})).await?;
    assert!(api.get_opt("a").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn a_delete_can_say_which_object_and_which_version_it_means() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let metadata = put(&api, "a").await?.metadata;
    let only = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::default()
    };
    for params in [only(Some("other".into()), None), only(None, Some("1".into()))] {
        assert_eq!(refusal(api.delete("a", &params).await)?.code, 409);
    }
    api.delete("a", &only(metadata.uid, metadata.resource_version)).await?;
    let status = refusal(api.delete("a", &DeleteParams::default()).await)?;
    assert_eq!((status.code, status.message.as_str()), (404, "nodes \"a\" not found"));
    Ok(())
}

#[tokio::test]
async fn a_namespace_is_needed_and_takes_what_is_in_it() -> Result<()> {
    let server = server()?;
    let mut object = service("s");
    object["metadata"]["namespace"] = json!("ns");
    assert!(
        format!("{:#}", server.load_object(object.clone()).expect_err("no namespace")).contains("not found")
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}});
    server.load_object(namespace.clone())?;
    server.load_object(object.clone())?;
    objects(&server, &namespace, false)?.delete("ns", &DeleteParams::default()).await?;
    assert_eq!(names(&objects(&server, &object, false)?).await?, [""; 0]);
    Ok(())
}

/// Applies an address, or none, to the status of the Service `s` as
/// `manager`. Returns the owners of the status.
async fn apply(
    server: &vipward_tests::apiserver::ApiServer,
    manager: &str,
    address: Option<&str>,
) -> Result<kube::Result<Vec<(String, Value)>>> {
    let mut config = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    if let Some(ip) = address {
        config["status"] = json!({"loadBalancer": {"ingress": [{"ip": ip}]}});
    }
    let api = objects(server, &service(""), true)?;
    let applied = api.patch_status("s", &PatchParams::apply(manager), &Patch::Apply(&config)).await;
    applied.map_or_else(
        |error| Ok(Err(error)),
        |object| {
            let entries = object.metadata.managed_fields.unwrap_or_default().into_iter();
            let of_status = entries.filter(|entry| entry.subresource.as_deref() == Some("status"));
            let owners = of_status.map(|entry| {
                let fields = serde_json::to_value(entry.fields_v1.context("it has fields")?)?;
                Ok((entry.manager.unwrap_or_default(), fields))
            });
            Ok(Ok(owners.collect::<Result<_>>()?))
        },
    )
}

#[tokio::test]
async fn the_addresses_of_a_service_are_one_field_that_its_owner_alone_changes_and_takes_back() -> Result<()>
{
    let server = server()?;
    server.load_object(service("s"))?;
    let ingress = json!({"f:status": {"f:loadBalancer": {"f:ingress": {}}}});
    let owned_by = |manager: &str| (manager.to_owned(), ingress.clone());
    assert_eq!(apply(&server, "one", Some("192.0.2.1")).await??, [owned_by("one")]);

    let status = refusal(apply(&server, "two", Some("192.0.2.2")).await?)?;
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let conflict = "conflict with \"one\" with subresource \"status\"";
    assert_eq!(
        status.message,
        format!("Apply failed with 1 conflict: {conflict}: .status.loadBalancer.ingress")
    );
    let causes = status.details.context("it has details")?.causes;
    assert_eq!((causes[0].message.as_str(), causes[0].reason.as_str()), (conflict, "FieldManagerConflict"));

    // An update takes the field, and then the owner by apply conflicts with it.
    let api = objects(&server, &service(""), true)?;
    let theirs = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.3"}]}}});
    let params = PatchParams { field_manager: Some("rival".into()), ..PatchParams::default() };
    api.patch_status("s", &params, &Patch::Merge(&theirs)).await?;
    let status = refusal(apply(&server, "one", Some("192.0.2.1")).await?)?;
    assert!(
        status.message.contains("conflict with \"rival\" with subresource \"status\" using v1 at "),
        "{status:?}"
    );

    // An apply of nothing takes back the applied fields, and leaves those of others.
    assert_eq!(apply(&server, "one", None).await??, [owned_by("rival")]);
    let none = json!({"status": {"loadBalancer": {"ingress": null}}});
    api.patch_status("s", &params, &Patch::Merge(&none)).await?;
    assert_eq!(apply(&server, "one", Some("192.0.2.1")).await??, [owned_by("one")]);
    assert_eq!(apply(&server, "one", None).await??, []);
    assert_eq!(api.get("s").await?.data["status"], json!({"loadBalancer": {}}));
    Ok(())
}
