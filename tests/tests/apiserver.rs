//! The API server for tests, asked by a real client: it must behave as a real one does, or the tests that rest on it
//! say nothing.

#[path = "apiserver/applying.rs"]
mod applying;
#[path = "apiserver/defining.rs"]
mod defining;
#[path = "apiserver/listing.rs"]
mod listing;
#[path = "apiserver/permitting.rs"]
mod permitting;
#[path = "apiserver/speed.rs"]
mod speed;
#[path = "apiserver/trouble.rs"]
mod trouble;
#[path = "apiserver/validating.rs"]
mod validating;
#[path = "apiserver/watching.rs"]
mod watching;
#[path = "apiserver/writing.rs"]
mod writing;

use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DynamicObject, PostParams, WatchEvent};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Client, Config};
use serde_json::{Value, json};
use vipward_tests::apiserver::{ApiServer, Options};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A definition with all that definitions can say.
const WIDGETS: &str = include_str!("apiserver/widgets.yaml");

fn server() -> Result<ApiServer> {
    server_with(Options::default())
}

fn server_with(options: Options) -> Result<ApiServer> {
    ApiServer::start(TcpListener::bind("127.0.0.1:0")?, options)
}

/// A client that shows this token.
fn client(server: &ApiServer, token: &str) -> Result<Client> {
    let mut config = Config::new(server.url().parse()?);
    config.auth_info.token = Some(token.to_owned().into());
    // What is refused is to be seen.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn admin(server: &ApiServer) -> Result<Client> {
    client(server, "admin")
}

/// The config maps of the namespace `default`: the simplest objects there are.
fn config_maps(server: &ApiServer) -> Result<Api<ConfigMap>> {
    Ok(Api::namespaced(admin(server)?, "default"))
}

fn config_map(name: &str, value: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}}))?)
}

/// Creates a config map.
async fn put(api: &Api<ConfigMap>, name: &str) -> Result<ConfigMap> {
    Ok(api.create(&PostParams::default(), &config_map(name, "first")?).await?)
}

/// The widgets of the namespace `default`.
fn widgets(server: &ApiServer) -> Result<Api<DynamicObject>> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.org", "v1", "Widget"));
    Ok(Api::namespaced_with(admin(server)?, "default", &kind))
}

fn widget(value: &Value) -> Result<DynamicObject> {
    let mut value = value.clone();
    value["apiVersion"] = json!("example.org/v1");
    value["kind"] = json!("Widget");
    Ok(serde_json::from_value(value)?)
}

/// The `Status` with which something was refused.
fn refusal<T>(result: kube::Result<T>) -> Result<Status> {
    match result {
        Ok(_) => anyhow::bail!("it was not refused"),
        Err(kube::Error::Api(status)) => Ok(*status),
        Err(other) => Err(other).context("it was not refused but failed"),
    }
}

/// The next event of a watch.
async fn next<T>(
    watch: &mut (impl Stream<Item = kube::Result<WatchEvent<T>>> + Unpin),
) -> Result<WatchEvent<T>> {
    let event = tokio::time::timeout(PATIENCE, watch.next()).await.context("waited in vain for an event")?;
    Ok(event.context("the watch is over")??)
}

/// What an event says, and of which object.
fn told(event: &WatchEvent<ConfigMap>) -> String {
    let name = |object: &ConfigMap| object.metadata.name.clone().unwrap_or_default();
    match event {
        WatchEvent::Added(object) => format!("added {}", name(object)),
        WatchEvent::Modified(object) => format!("modified {}", name(object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(object)),
        WatchEvent::Bookmark(_) => "bookmark".to_owned(),
        WatchEvent::Error(status) => format!("error {}", status.code),
    }
}
