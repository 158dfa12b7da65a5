//! Lists: selectors, pages, and which state of the world they show.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};

use super::{admin, config_map, config_maps, put, refusal, server};

fn names(list: &kube::api::ObjectList<ConfigMap>) -> Vec<&str> {
    list.items.iter().filter_map(|object| object.metadata.name.as_deref()).collect()
}

#[tokio::test]
async fn labels_select_by_equality_and_by_sets() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    for (name, labels) in
        [("a", vec![("tier", "web")]), ("b", vec![("tier", "db"), ("old", "")]), ("c", vec![])]
    {
        let mut object = config_map(name, "first")?;
        object.metadata.labels =
            Some(labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect());
        api.create(&PostParams::default(), &object).await?;
    }
    let table: [(&str, &[&str]); 8] = [
        ("tier=web", &["a"]),
        ("tier==db,old", &["b"]),
        ("tier!=web", &["b", "c"]),
        ("tier in (web, db)", &["a", "b"]),
        ("tier notin (web)", &["b", "c"]),
        ("!tier", &["c"]),
        ("tier,!old", &["a"]),
        ("tier in (web),tier in (db)", &[]),
    ];
    for (selector, expected) in table {
        let list = api.list(&ListParams::default().labels(selector)).await?;
        assert_eq!(names(&list), expected, "{selector}");
    }
    assert_eq!(refusal(api.list(&ListParams::default().labels("a b c")).await)?.code, 400);
    Ok(())
}

#[tokio::test]
async fn fields_select_what_a_type_can_be_selected_by() -> Result<()> {
    let server = server()?;
    server.load_manifest(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: a, containers: [{name: c}]}}\n---\n\
         {apiVersion: v1, kind: Pod, metadata: {name: q}, spec: {nodeName: b, containers: [{name: c}]}}\n---\n\
         {apiVersion: v1, kind: Event, metadata: {name: e}, involvedObject: {kind: Service, name: s}}",
    )?;
    let pods: Api<Pod> = Api::all(admin(&server)?);
    let found =
        pods.list(&ListParams::default().fields("spec.nodeName=b,metadata.namespace=default")).await?;
    assert_eq!(found.items.len(), 1);
    assert_eq!(found.items[0].metadata.name.as_deref(), Some("q"));
    let status = refusal(pods.list(&ListParams::default().fields("spec.color=red")).await)?;
    assert_eq!((status.code, status.message.as_str()), (400, "field label not supported: spec.color"));
    let events: Api<Event> = Api::all(admin(&server)?);
    for (selector, count) in [("involvedObject.name=s", 1), ("involvedObject.name!=s", 0)] {
        assert_eq!(
            events.list(&ListParams::default().fields(selector)).await?.items.len(),
            count,
            "{selector}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_pages_of_a_list_show_one_moment() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    for name in ["a", "b", "d", "e", "f"] {
        put(&api, name).await?;
    }
    let first = api.list(&ListParams::default().limit(2)).await?;
    assert_eq!((names(&first), first.metadata.remaining_item_count), (vec!["a", "b"], Some(3)));
    put(&api, "c").await?;
    api.delete("d", &DeleteParams::default()).await?;
    api.replace("e", &PostParams::default(), &config_map("e", "second")?).await?;

    let token = first.metadata.continue_.context("there is more")?;
    let second = api.list(&ListParams::default().limit(2).continue_token(&token)).await?;
    assert_eq!(names(&second), ["d", "e"]);
    assert_eq!(second.items[1].data.as_ref().map(|data| data["key"].as_str()), Some("first"));
    assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    let token = second.metadata.continue_.context("there is more")?;
    let third = api.list(&ListParams::default().limit(2).continue_token(&token)).await?;
    assert_eq!((names(&third), third.metadata.continue_.as_deref()), (vec!["f"], None));
    assert_eq!(names(&api.list(&ListParams::default()).await?), ["a", "b", "c", "e", "f"]);
    Ok(())
}

#[tokio::test]
async fn a_page_of_a_forgotten_moment_is_gone() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    put(&api, "b").await?;
    let first = api.list(&ListParams::default().limit(1)).await?;
    put(&api, "c").await?;
    server.compact();
    let token = first.metadata.continue_.context("there is more")?;
    let status = refusal(api.list(&ListParams::default().limit(1).continue_token(&token)).await)?;
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    Ok(())
}

#[tokio::test]
async fn all_namespaces_are_listed_in_order() -> Result<()> {
    let server = server()?;
    put(&config_maps(&server)?, "z").await?;
    put(&Api::namespaced(admin(&server)?, "kube-system"), "a").await?;
    let all: Api<ConfigMap> = Api::all(admin(&server)?);
    assert_eq!(names(&all.list(&ListParams::default()).await?), ["z", "a"]);
    assert_eq!(names(&config_maps(&server)?.list(&ListParams::default()).await?), ["z"]);
    Ok(())
}

#[tokio::test]
async fn a_list_may_ask_for_any_state_but_not_for_the_future() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let any = api.list(&ListParams::default().match_any()).await?;
    assert_eq!(names(&any), ["a"]);
    let status = refusal(
        api.list(&ListParams::default().at("999999").matching(kube::api::VersionMatch::NotOlderThan)).await,
    )?;
    assert_eq!((status.code, status.reason.as_str()), (504, "Timeout"));
    Ok(())
}
