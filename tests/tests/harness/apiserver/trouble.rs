//! Stopping and starting again, and the counters.

use std::pin::pin;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::api::WatchParams;
use tokio::time::timeout;
use vipward_tests::apiserver::{RequestKind, Verb};

use super::{PATIENCE, label, list_version, merge, next, node, nodes, put, refusal, server};

#[tokio::test]
async fn a_server_that_went_away_comes_back_with_its_objects() -> Result<()> {
    let mut server = server()?;
    let api = nodes(&server)?;
    put(&api, "a").await?;
    let mut watch = pin!(api.watch(&WatchParams::default(), &list_version(&api).await?).await?);
    for _ in 0..3 {
        server.stop()?;
        let address = server.url().replace("http://", "");
        let error = std::net::TcpStream::connect(address).expect_err("the server is away");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
        server.start_again()?;
        nodes(&server)?.get("a").await?;
    }
    let end = timeout(PATIENCE, watch.next()).await.context("the watch stays open")?;
    assert!(!matches!(end, Some(Ok(_))), "{end:?}");
    Ok(())
}

#[tokio::test]
async fn requests_and_deliveries_are_counted() -> Result<()> {
    let server = server()?;
    let api = nodes(&server)?;
    let mut watch = pin!(api.watch(&WatchParams::default(), &list_version(&api).await?).await?);
    server.reset_stats();
    put(&api, "a").await?;
    merge(&api, "a", label("second")).await?;
    refusal(api.get("b").await)?;
    next(&mut watch).await?;
    next(&mut watch).await?;
    let stats = server.stats();
    let creates = RequestKind { user: "admin".into(), verb: Verb::Create, resource: "nodes".into() };
    assert_eq!(stats.requests.get(&creates), Some(&1));
    assert_eq!((stats.writes(), stats.verb(Verb::Get), stats.verb(Verb::List)), (2, 1, 0));
    assert_eq!(stats.answers.get(&404), Some(&1));
    let delivered = stats.delivered();
    assert_eq!((delivered.objects, delivered.bookmarks), (2, 0));
    let least = 2 * node("a").to_string().len() as u64;
    assert!((least..10 * least).contains(&delivered.bytes), "{delivered:?}");
    Ok(())
}
