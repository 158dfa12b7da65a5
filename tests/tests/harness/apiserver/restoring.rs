//! Going back: the objects and the versions of a snapshot, as after etcd was restored from it.

use std::net::TcpListener;
use std::pin::pin;
use std::time::Duration;

use anyhow::Result;
use kube::api::{Api, DeleteParams, DynamicObject, WatchParams};
use tokio::time::timeout;
use vipward::shell::kube::crd_yaml;
use vipward_tests::apiserver::{ApiServer, Options, Saved};

use super::{
    create, label, list_version, merge, names, next, nodes, put, refusal,
    refusing::{claim, claims},
    server, version,
};

/// A time that is long for an answer and short for a test.
const SILENCE: Duration = Duration::from_millis(300);

/// Goes back, and returns a client with new connections, since the old ones are closed.
fn go_back(server: &mut ApiServer, saved: &Saved) -> Result<Api<DynamicObject>> {
    assert!(server.restore(saved).is_err(), "it runs");
    server.stop()?;
    server.restore(saved)?;
    server.start_again()?;
    nodes(server)
}

#[tokio::test]
async fn the_objects_are_those_of_the_snapshot_and_new_writes_get_the_versions_that_others_had() -> Result<()>
{
    let mut server = server()?;
    let api = nodes(&server)?;
    let changed = put(&api, "changed").await?;
    let deleted = put(&api, "deleted").await?;
    let at = list_version(&api).await?;
    let saved = server.save()?;
    let before = merge(&api, "changed", label("second")).await?;
    api.delete("deleted", &DeleteParams::default()).await?;
    put(&api, "created").await?;
    // A test can go back to a snapshot twice.
    for _ in 0..2 {
        let api = go_back(&mut server, &saved)?;
        assert_eq!(names(&api).await?, ["changed", "deleted"]);
        assert_eq!(
            (api.get("changed").await?, api.get("deleted").await?),
            (changed.clone(), deleted.clone())
        );
        assert_eq!(list_version(&api).await?, at);
        assert_eq!(version(&put(&api, "new").await?)?, version(&before)?);
    }
    Ok(())
}

#[tokio::test]
async fn a_watch_from_before_the_snapshot_comes_too_late() -> Result<()> {
    let mut server = server()?;
    let api = nodes(&server)?;
    let old = version(&put(&api, "a").await?)?;
    let at = version(&put(&api, "b").await?)?;
    let saved = server.save()?;

    let api = go_back(&mut server, &saved)?;

    let mut late = pin!(api.watch(&WatchParams::default(), &old).await?);
    assert_eq!(next(&mut late).await?, "error 410 Expired");
    let mut in_time = pin!(api.watch(&WatchParams::default(), &at).await?);
    put(&api, "c").await?;
    assert_eq!(next(&mut in_time).await?, "added c");
    Ok(())
}

#[tokio::test]
async fn a_watch_from_the_future_delivers_nothing_until_the_versions_have_passed_it() -> Result<()> {
    let options = Options { bookmark_interval: SILENCE / 10, ..Options::default() };
    let mut server = ApiServer::start(TcpListener::bind("127.0.0.1:0")?, options)?;
    let api = nodes(&server)?;
    put(&api, "a").await?;
    let saved = server.save()?;
    put(&api, "b").await?;
    let future = version(&put(&api, "c").await?)?;

    let api = go_back(&mut server, &saved)?;

    let mut watch = pin!(api.watch(&WatchParams::default(), &future).await?);
    assert!(timeout(SILENCE, next(&mut watch)).await.is_err(), "neither an event nor a bookmark");
    put(&api, "d").await?;
    assert_eq!(version(&put(&api, "e").await?)?, future);
    put(&api, "f").await?;
    let mut received = next(&mut watch).await?;
    while received.starts_with("bookmark") {
        received = next(&mut watch).await?;
    }
    assert_eq!(received, "added f");
    Ok(())
}

#[tokio::test]
async fn definitions_go_back_too() -> Result<()> {
    let mut server = server()?;
    let without = server.save()?;
    server.load_manifest(&crd_yaml())?;
    create(&claims(&server)?, &claim()).await?;
    let with = server.save()?;

    go_back(&mut server, &without)?;
    assert_eq!(refusal(claims(&server)?.get("192.0.2.1").await)?.code, 404);
    assert_eq!(refusal(create(&claims(&server)?, &claim()).await)?.code, 404, "the type is unknown");

    go_back(&mut server, &with)?;
    assert_eq!(claims(&server)?.get("192.0.2.1").await?.data["spec"]["address"], "192.0.2.1");
    Ok(())
}
