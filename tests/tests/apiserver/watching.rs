//! Watches: from where they begin, what they tell, and how they end.

use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use vipward_tests::apiserver::Options;

use super::{admin, config_map, config_maps, next, put, server, server_with, told};

#[tokio::test]
async fn a_watch_goes_on_from_a_version() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let first = put(&api, "a").await?;
    put(&api, "b").await?;
    let from = first.metadata.resource_version.context("it has a version")?;
    let mut watch = pin!(api.watch(&WatchParams::default(), &from).await?);
    assert_eq!(told(&next(&mut watch).await?), "added b");
    api.replace("a", &PostParams::default(), &config_map("a", "second")?).await?;
    assert_eq!(told(&next(&mut watch).await?), "modified a");
    let before = api.get("b").await?.metadata.resource_version;
    api.delete("b", &DeleteParams::default()).await?;
    let WatchEvent::Deleted(gone) = next(&mut watch).await? else { panic!("not deleted") };
    assert_ne!(gone.metadata.resource_version, before, "the end of an object is a version of its own");
    Ok(())
}

#[tokio::test]
async fn a_watch_from_nowhere_begins_with_what_there_is() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let elsewhere = put(&Api::namespaced(admin(&server)?, "kube-system"), "elsewhere").await?;
    assert!(elsewhere.metadata.uid.is_some());
    let mut watch = pin!(api.watch(&WatchParams::default(), "0").await?);
    assert_eq!(told(&next(&mut watch).await?), "added a");
    put(&api, "b").await?;
    assert_eq!(told(&next(&mut watch).await?), "added b");
    Ok(())
}

#[tokio::test]
async fn an_object_that_enters_or_leaves_a_selection_is_added_or_deleted() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let mut object = config_map("a", "first")?;
    api.create(&PostParams::default(), &object).await?;
    let red = WatchParams::default().labels("color=red");
    let mut watch = pin!(api.watch(&red, "0").await?);
    for color in ["red", "red", "blue"] {
        object.metadata.labels = Some([("color".to_owned(), color.to_owned())].into());
        object.metadata.annotations = Some([("n".to_owned(), fastrand::u64(..).to_string())].into());
        api.replace("a", &PostParams::default(), &object).await?;
    }
    api.delete("a", &DeleteParams::default()).await?;
    object.metadata.labels = Some([("color".to_owned(), "red".to_owned())].into());
    api.create(&PostParams::default(), &object).await?;
    for expected in ["added a", "modified a", "deleted a", "added a"] {
        assert_eq!(told(&next(&mut watch).await?), expected);
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_from_a_forgotten_version_is_told_so_and_a_new_list_helps() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let old = put(&api, "a").await?.metadata.resource_version.context("it has a version")?;
    put(&api, "b").await?;
    server.compact();

    let mut watch = pin!(api.watch(&WatchParams::default(), &old).await?);
    let WatchEvent::Error(status) = next(&mut watch).await? else { panic!("not an error") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
    assert!(status.message.starts_with("too old resource version: "), "{}", status.message);
    assert!(watch.next().await.is_none(), "the watch goes on");

    let list = api.list(&ListParams::default()).await?;
    let from = list.metadata.resource_version.context("a list has a version")?;
    let mut watch = pin!(api.watch(&WatchParams::default(), &from).await?);
    put(&api, "c").await?;
    assert_eq!(told(&next(&mut watch).await?), "added c");
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_up_to_date_survives_forgetting() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let mut watch = pin!(api.watch(&WatchParams::default(), "0").await?);
    put(&api, "a").await?;
    assert_eq!(told(&next(&mut watch).await?), "added a");
    server.load_manifest("{apiVersion: v1, kind: Node, metadata: {name: other}}")?;
    server.compact();
    put(&api, "b").await?;
    assert_eq!(told(&next(&mut watch).await?), "added b");
    Ok(())
}

#[tokio::test]
async fn a_short_history_forgets_by_itself() -> Result<()> {
    let server = server_with(Options { history: 3, ..Options::default() })?;
    let api = config_maps(&server)?;
    let old = put(&api, "a").await?.metadata.resource_version.context("it has a version")?;
    for name in ["b", "c", "d", "e"] {
        put(&api, name).await?;
    }
    let mut watch = pin!(api.watch(&WatchParams::default(), &old).await?);
    assert_eq!(told(&next(&mut watch).await?), "error 410");
    Ok(())
}

#[tokio::test]
async fn a_bookmark_moves_with_writes_elsewhere_and_comes_at_the_end() -> Result<()> {
    let server = server_with(Options { bookmark_interval: Duration::from_millis(5), ..Options::default() })?;
    let api = config_maps(&server)?;
    let mut watch = pin!(api.watch(&WatchParams::default().timeout(1), "0").await?);
    server.load_manifest("{apiVersion: v1, kind: Node, metadata: {name: n}}")?;
    let wanted: u64 = {
        let list = api.list(&ListParams::default()).await?;
        list.metadata.resource_version.context("a list has a version")?.parse()?
    };
    let mut last = 0;
    while last < wanted {
        let WatchEvent::Bookmark(bookmark) = next(&mut watch).await? else { panic!("not a bookmark") };
        last = bookmark.metadata.resource_version.parse()?;
    }
    // The timeout ends it, and what it says at the end is where to go on.
    while let Some(event) = watch.next().await {
        assert_eq!(told(&event?), "bookmark");
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_can_begin_with_a_list_and_say_where_it_ends() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let mut watch = pin!(api.watch(&WatchParams::default().initial_events(), "0").await?);
    assert_eq!(told(&next(&mut watch).await?), "added a");
    let WatchEvent::Bookmark(bookmark) = next(&mut watch).await? else { panic!("not a bookmark") };
    assert_eq!(bookmark.metadata.annotations["k8s.io/initial-events-end"], "true");
    Ok(())
}
