//! Lists and watches: the moment that they show, and the place where they continue.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::{DeleteParams, ListParams, WatchParams};
use serde_json::json;
use vipward_tests::apiserver::{ApiServer, Options};

use super::{
    label, list_version, merge, names, next, nodes, objects, put, refusal, server, service, version,
};

#[tokio::test]
async fn the_pages_of_a_list_show_one_moment() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    for name in ["a", "b", "d", "e", "f"] {
        put(&api, name).await?;
    }
    let mut page = api.list(&ListParams::default().limit(2)).await?;
    let moment = page.metadata.resource_version.clone();
    put(&api, "c").await?;
    api.delete("d", &DeleteParams::default()).await?;
    merge(&api, "e", label("second")).await?;
    let mut listed = Vec::new();
    loop {
        assert_eq!(page.metadata.resource_version, moment);
        let objects = page.items.into_iter().map(|object| object.metadata);
        listed.extend(objects.map(|object| {
            (object.name.unwrap_or_default(), object.labels.unwrap_or_default()["key"].clone())
        }));
        let Some(token) = page.metadata.continue_ else { break };
        page = api.list(&ListParams::default().limit(2).continue_token(&token)).await?;
    }
    assert_eq!(listed, ["a", "b", "d", "e", "f"].map(|name| (name.to_owned(), "first".to_owned())));
    assert_eq!(names(&api).await?, ["a", "b", "c", "e", "f"]);
    Ok(())
}

#[tokio::test]
async fn a_page_and_a_watch_from_a_forgotten_moment_are_gone_and_a_new_list_helps() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let old = version(&put(&api, "a").await?)?;
    put(&api, "b").await?;
    let first = api.list(&ListParams::default().limit(1)).await?;
    put(&api, "c").await?;
    server.compact();

    let token = first.metadata.continue_.context("there is more")?;
    let status = refusal(api.list(&ListParams::default().limit(1).continue_token(&token)).await)?;
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    let mut watch = pin!(api.watch(&WatchParams::default(), &old).await?);
    assert_eq!(next(&mut watch).await?, "error 410 Expired");
    assert!(watch.next().await.is_none(), "the watch goes on");

    let mut watch = pin!(api.watch(&WatchParams::default(), &list_version(&api).await?).await?);
    put(&api, "d").await?;
    assert_eq!(next(&mut watch).await?, "added d");
    // A watch that has seen all changes survives.
    server.load_object(service("elsewhere"))?;
    server.compact();
    put(&api, "e").await?;
    assert_eq!(next(&mut watch).await?, "added e");
    Ok(())
}

#[tokio::test]
async fn a_list_has_what_its_selectors_select() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    for name in ["a", "b"] {
        put(&api, name).await?;
    }
    merge(&api, "b", json!({"metadata": {"labels": {"key": "second"}}, "spec": {"podCIDR": "10.0.0.0/24"}}))
        .await?;
    let all = ListParams::default();
    for (list, selected) in [
        (all.clone().labels("key=first"), vec!["a"]),
        (all.clone().fields("spec.podCIDR=10.0.0.0/24"), vec!["b"]),
        (all.clone().fields("metadata.name=a").labels("key=second"), vec![]),
    ] {
        let found = api.list(&list).await?.items.into_iter().filter_map(|object| object.metadata.name);
        assert_eq!(found.collect::<Vec<_>>(), selected, "{list:?}");
    }
    assert_eq!(refusal(api.list(&all.labels("key!=first")).await)?.code, 501);
    let watch = api.watch(&WatchParams::default().labels("key=first"), &list_version(&api).await?).await;
    assert_eq!(refusal(watch.map(drop))?.code, 501, "a watch would show too much");
    Ok(())
}

#[tokio::test]
async fn a_short_history_forgets_by_itself() -> Result<()> {
    let options = Options { history: 3, ..Options::default() };
    let server = ApiServer::start(std::net::TcpListener::bind("127.0.0.1:0")?, options)?;
    let api = nodes(&server)?;
    let old = version(&put(&api, "a").await?)?;
    for name in ["b", "c", "d", "e"] {
        put(&api, name).await?;
    }
    let mut watch = pin!(api.watch(&WatchParams::default(), &old).await?);
    assert_eq!(next(&mut watch).await?, "error 410 Expired");
    Ok(())
}

#[tokio::test]
async fn a_watch_goes_on_from_a_version_with_what_is_in_its_namespace() -> Result<()> {
    let server = server()?;
    server.load_object(service("a"))?;
    let api = objects(&server, &service(""), true)?;
    let from = list_version(&api).await?;
    let mut elsewhere = service("elsewhere");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    server.load_object(elsewhere)?;
    server.load_object(service("b"))?;
    let mut watch = pin!(api.watch(&WatchParams::default(), &from).await?);
    assert_eq!(next(&mut watch).await?, "added b");
    let changed = version(&merge(&api, "a", label("second")).await?)?;
    assert_eq!(next(&mut watch).await?, "modified a");
    api.delete("a", &DeleteParams::default()).await?;
    assert_eq!(next(&mut watch).await?, "deleted a");
    assert!(list_version(&api).await?.parse::<u64>()? > changed.parse()?, "an end is a version of its own");
    let everywhere = objects(&server, &service(""), false)?;
    assert_eq!(names(&everywhere).await?, ["b", "elsewhere"], "by namespace, then by name");
    Ok(())
}

#[tokio::test]
async fn a_bookmark_moves_with_writes_elsewhere_and_comes_at_the_end() -> Result<()> {
    let options = Options { bookmark_interval: Duration::from_millis(5), ..Options::default() };
    let server = ApiServer::start(std::net::TcpListener::bind("127.0.0.1:0")?, options)?;
    let api = nodes(&server)?;
    let from = list_version(&api).await?;
    let mut watch = pin!(api.watch(&WatchParams::default().timeout(1), &from).await?);
    server.load_object(service("s"))?;
    let wanted = format!("bookmark {}", list_version(&api).await?);
    while next(&mut watch).await? != wanted {}
    // The timeout ends the watch.
    while let Some(event) = watch.next().await {
        event?;
    }
    Ok(())
}
