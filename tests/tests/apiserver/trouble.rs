//! Trouble on demand: what is asked for happens, to those it is meant for, and ends.

use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams, WatchParams};
use tokio::time::timeout;
use vipward_tests::apiserver::{ApiServer, Cut, Effect, Matching, Often, RequestKind, Verb};

use super::{PATIENCE, client, config_map, config_maps, next, put, refusal, server, told};

/// Long enough for what should not happen to happen.
const A_WHILE: Duration = Duration::from_millis(60);

/// The config maps as `user`, who may do everything.
fn config_maps_of(server: &ApiServer, user: &str) -> Result<Api<ConfigMap>> {
    server.load_manifest(&format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: all}}, \
         rules: [{{apiGroups: ['*'], resources: ['*'], verbs: ['*']}}]}}\n---\n\
         {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: {user}}}, \
         roleRef: {{kind: ClusterRole, name: all, apiGroup: rbac.authorization.k8s.io}}, \
         subjects: [{{kind: User, name: {user}, apiGroup: rbac.authorization.k8s.io}}]}}"
    ))?;
    server.add_user(user, user);
    Ok(Api::namespaced(client(server, user)?, "default"))
}

/// Whether the request found no answer at all, rather than a refusal.
fn is_broken<T>(result: &kube::Result<T>) -> bool {
    matches!(result, Err(kube::Error::Service(_) | kube::Error::HyperError(_)))
}

#[tokio::test]
async fn the_next_requests_get_the_answer_that_was_ordered() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    for (code, reason) in [(500, "InternalError"), (503, "ServiceUnavailable"), (429, "TooManyRequests")] {
        server.trouble(Matching::any().verb(Verb::Create), Effect::Answer(code), Often::Next(1));
        let request = hyper::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", "application/json")
            .body(kube::client::Body::from(serde_json::to_vec(&config_map("a", "first")?)?))?;
        let answer = api.clone().into_client().send(request).await?;
        assert_eq!(answer.status().as_u16(), code);
        assert_eq!(answer.headers().contains_key("retry-after"), code == 429);
        let body: serde_json::Value = serde_json::from_slice(&answer.into_body().collect_bytes().await?)?;
        assert_eq!(body["reason"], reason);
    }
    assert!(api.list(&ListParams::default()).await?.items.is_empty(), "a refused request was done");
    put(&api, "a").await?;
    Ok(())
}

#[tokio::test]
async fn only_requests_that_match_meet_trouble() -> Result<()> {
    let server = server()?;
    let (mine, theirs) = (config_maps(&server)?, config_maps_of(&server, "them")?);
    let matching = Matching::any().user("them").verb(Verb::Get).resource("configmaps").name("a");
    put(&mine, "a").await?;
    put(&mine, "b").await?;
    let id = server.trouble(matching, Effect::Answer(403), Often::Always);
    mine.get("a").await?;
    theirs.get("b").await?;
    theirs.list(&ListParams::default()).await?;
    assert_eq!(refusal(theirs.get("a").await)?.code, 403);
    server.end_trouble(id);
    theirs.get("a").await?;
    Ok(())
}

#[tokio::test]
async fn a_fraction_of_the_requests_fails() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    server.trouble(Matching::any(), Effect::Answer(400), Often::Fraction(0.5));
    let mut failures = 0;
    for _ in 0..200 {
        failures += u32::from(api.get("a").await.is_err());
    }
    assert!((40..=160).contains(&failures), "{failures} of 200 failed");
    Ok(())
}

#[tokio::test]
async fn a_delay_makes_a_request_late_and_no_more() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    server.trouble(Matching::any().writes(), Effect::Delay(A_WHILE), Often::Always);
    let start = Instant::now();
    put(&api, "a").await?;
    assert!(start.elapsed() >= A_WHILE, "it took {:?}", start.elapsed());
    Ok(())
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_done_and_one_that_is_lost_is_not() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    for (effect, expected) in [(Effect::DropAnswer, "second"), (Effect::Drop, "first")] {
        let read = api.replace("a", &PostParams::default(), &config_map("a", "first")?).await?;
        let mut wanted = config_map("a", "second")?;
        wanted.metadata.resource_version = read.metadata.resource_version;
        server.trouble(Matching::any().verb(Verb::Update), effect, Often::Next(1));
        let result = api.replace("a", &PostParams::default(), &wanted).await;
        assert!(is_broken(&result), "{effect:?} had an answer");
        assert_eq!(api.get("a").await?.data.context("it has data")?["key"], expected, "{effect:?}");
    }
    Ok(())
}

/// As real ones do it now and then.
#[tokio::test]
async fn a_watch_can_be_faster_than_the_answer_to_the_write() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let version = api.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut watch = api.watch(&WatchParams::default(), &version).await?.boxed();
    server.trouble(Matching::any().writes(), Effect::DelayAnswer(A_WHILE), Often::Next(1));
    let start = Instant::now();
    let write = async { anyhow::Ok((put(&api, "a").await?, start.elapsed())) };
    let hear = async { anyhow::Ok((next(&mut watch).await?, start.elapsed())) };
    let ((_, answered), (event, heard)) = tokio::try_join!(write, hear)?;
    assert_eq!(told(&event), "added a");
    assert!(answered >= A_WHILE && heard < answered, "answered after {answered:?}, heard after {heard:?}");
    Ok(())
}

#[tokio::test]
async fn a_request_that_hangs_has_no_answer() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    server.trouble(Matching::any().verb(Verb::Create), Effect::Hang, Often::Next(1));
    assert!(timeout(A_WHILE, put(&api, "a")).await.is_err());
    put(&api, "a").await?;
    Ok(())
}

#[tokio::test]
async fn a_watch_that_is_stalled_delivers_later_while_writes_and_other_watches_go_on() -> Result<()> {
    let server = server()?;
    let (mine, theirs) = (config_maps(&server)?, config_maps_of(&server, "them")?);
    let mut stalled = pin!(theirs.watch(&WatchParams::default(), "0").await?);
    let mut live = pin!(mine.watch(&WatchParams::default(), "0").await?);
    put(&theirs, "a").await?;
    assert_eq!(told(&next(&mut stalled).await?), "added a");
    assert_eq!(told(&next(&mut live).await?), "added a");

    let id = server.stall_watches(Matching::any().user("them").resource("configmaps"));
    put(&theirs, "b").await?;
    put(&theirs, "c").await?;
    assert_eq!(told(&next(&mut live).await?), "added b");
    assert!(timeout(A_WHILE, stalled.next()).await.is_err(), "it was not stalled");
    server.end_trouble(id);
    assert_eq!(told(&next(&mut stalled).await?), "added b");
    assert_eq!(told(&next(&mut stalled).await?), "added c");
    Ok(())
}

#[tokio::test]
async fn who_is_cut_off_gets_no_answer_until_let_in_again() -> Result<()> {
    let server = server()?;
    let (mine, theirs) = (config_maps(&server)?, config_maps_of(&server, "them")?);
    let mut watch = pin!(theirs.watch(&WatchParams::default(), "0").await?);
    put(&theirs, "a").await?;
    assert_eq!(told(&next(&mut watch).await?), "added a");

    server.cut_off("them", Cut::Closed);
    let end = timeout(PATIENCE, watch.next()).await.context("the watch stays open")?;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    assert!(is_broken(&theirs.get("a").await));
    mine.get("a").await?;
    server.let_in("them");
    theirs.get("a").await?;
    Ok(())
}

#[tokio::test]
async fn who_is_cut_off_silently_hears_nothing_and_writes_nothing() -> Result<()> {
    let server = server()?;
    let (mine, theirs) = (config_maps(&server)?, config_maps_of(&server, "them")?);
    let mut watch = pin!(theirs.watch(&WatchParams::default(), "0").await?);
    put(&mine, "a").await?;
    assert_eq!(told(&next(&mut watch).await?), "added a");

    server.cut_off("them", Cut::Silent);
    put(&mine, "b").await?;
    assert!(timeout(A_WHILE, watch.next()).await.is_err(), "the watch went on");
    assert!(timeout(A_WHILE, put(&theirs, "c")).await.is_err(), "the write was answered");
    server.let_in("them");
    assert!(mine.get_opt("c").await?.is_none(), "the write was done");
    theirs.get("b").await?;
    Ok(())
}

#[tokio::test]
async fn connections_are_dropped_for_one_user_or_for_all() -> Result<()> {
    let server = server()?;
    let (mine, theirs) = (config_maps(&server)?, config_maps_of(&server, "them")?);
    let mut my_watch = pin!(mine.watch(&WatchParams::default(), "0").await?);
    let mut their_watch = pin!(theirs.watch(&WatchParams::default(), "0").await?);
    server.drop_connections_of("them");
    let end = timeout(PATIENCE, their_watch.next()).await.context("their watch stays open")?;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    put(&mine, "a").await?;
    assert_eq!(told(&next(&mut my_watch).await?), "added a");
    server.drop_connections();
    let end = timeout(PATIENCE, my_watch.next()).await.context("my watch stays open")?;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn a_server_that_went_away_comes_back_with_its_objects() -> Result<()> {
    let mut server = server()?;
    let api = config_maps(&server)?;
    put(&api, "a").await?;
    let mut watch = pin!(api.watch(&WatchParams::default(), "0").await?);
    assert_eq!(told(&next(&mut watch).await?), "added a");
    for _ in 0..3 {
        server.stop()?;
        let error = std::net::TcpStream::connect(server.addr()).expect_err("the server is away");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        assert!(is_broken(&api.get("a").await));
        server.start_again()?;
        api.get("a").await?;
    }
    let end = timeout(PATIENCE, watch.next()).await.context("the watch stays open")?;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn requests_and_deliveries_are_counted() -> Result<()> {
    let server = server()?;
    let api = config_maps(&server)?;
    let mut watch = pin!(api.watch(&WatchParams::default(), "0").await?);
    server.reset_stats();
    put(&api, "a").await?;
    put(&api, "b").await?;
    refusal(api.get("c").await)?;
    next(&mut watch).await?;
    next(&mut watch).await?;
    let stats = server.stats();
    let creates = RequestKind { user: "admin".into(), verb: Verb::Create, resource: "configmaps".into() };
    assert_eq!(stats.requests.get(&creates), Some(&2));
    assert_eq!((stats.writes(), stats.verb(Verb::Get), stats.verb(Verb::List)), (2, 1, 0));
    assert_eq!(stats.answers.get(&404), Some(&1));
    let delivered = stats.delivered();
    assert_eq!((delivered.objects, delivered.bookmarks), (2, 0));
    assert!((200..4_000).contains(&delivered.bytes), "{delivered:?}");
    Ok(())
}
