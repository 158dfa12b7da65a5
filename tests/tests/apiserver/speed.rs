//! Size: benchmarks with ten thousand Services must measure their client, not this server.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, ListParams, WatchParams};
use serde_json::json;

use super::{admin, server};

/// What a busy machine and a build without optimisation may need.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_thousand_services_of_two_kibibytes_are_listed_and_watched() -> Result<()> {
    const COUNT: usize = 1_000;
    let server = server()?;
    let padding = "x".repeat(1_700);
    for number in 0..COUNT {
        server.load_object(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": format!("s{number}"), "annotations": {"padding": padding}},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        }))?;
    }
    let api: Api<Service> = Api::all(admin(&server)?);
    assert_eq!(api.list(&ListParams::default()).await?.items.len(), COUNT);
    server.reset_stats();
    let watch = api.watch(&WatchParams::default(), "0").await?;
    let seen =
        tokio::time::timeout(SOON, watch.take(COUNT).count()).await.context("the watch is too slow")?;
    assert_eq!(seen, COUNT);
    let delivered = server.stats().delivered();
    assert!(delivered.bytes >= 2_000 * delivered.objects, "{delivered:?}");
    Ok(())
}
