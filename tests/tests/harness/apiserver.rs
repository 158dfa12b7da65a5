//! The API server of the tests keeps its promises to a client library. The tests of the agent's own
//! client, in `kube_shell`, exercise the trouble that it makes on demand.

mod reading;
mod refusing;
mod restoring;
mod writing;

use std::net::TcpListener;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{Stream, StreamExt as _};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent};
use kube::core::{ApiResource, GroupVersionKind, Status};
use kube::{Client, Config};
use serde_json::{Value, json};
use vipward_tests::apiserver::{ApiServer, Options};

/// A time longer than any step on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn server() -> Result<ApiServer> {
    ApiServer::start(TcpListener::bind("127.0.0.1:0")?, Options::default())
}

/// Returns a client with this token. It does not repeat refused requests.
fn client(server: &ApiServer, token: &str) -> Result<Client> {
    let mut config = Config::new(server.url().parse()?);
    config.auth_info.token = Some(token.to_owned().into());
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Returns the administrator's view of the objects of a kind, in the namespace `default` or in all.
fn objects(server: &ApiServer, kind: &Value, namespaced: bool) -> Result<Api<DynamicObject>> {
    let text = |name: &str| kind[name].as_str().unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
    let client = client(server, "admin")?;
    Ok(if namespaced {
        Api::namespaced_with(client, "default", &resource)
    } else {
        Api::all_with(client, &resource)
    })
}

/// Returns the Nodes: the simplest objects.
fn nodes(server: &ApiServer) -> Result<Api<DynamicObject>> {
    objects(server, &node(""), false)
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"key": "first"}}})
}

/// Returns a Service without addresses.
fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
    })
}

async fn create(api: &Api<DynamicObject>, object: &Value) -> kube::Result<DynamicObject> {
    let object = serde_json::from_value(object.clone()).expect("an object");
    api.create(&PostParams::default(), &object).await
}

async fn put(api: &Api<DynamicObject>, name: &str) -> Result<DynamicObject> {
    Ok(create(api, &node(name)).await?)
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) -> kube::Result<DynamicObject> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Returns a merge patch of a Node's label.
fn label(value: &str) -> Value {
    json!({"metadata": {"labels": {"key": value}}})
}

fn version(object: &DynamicObject) -> Result<String> {
    object.metadata.resource_version.clone().context("it has a version")
}

async fn names(api: &Api<DynamicObject>) -> Result<Vec<String>> {
    let list = api.list(&ListParams::default()).await?;
    Ok(list.items.into_iter().filter_map(|object| object.metadata.name).collect())
}

async fn list_version(api: &Api<DynamicObject>) -> Result<String> {
    let list = api.list(&ListParams::default()).await?;
    list.metadata.resource_version.context("a list has a version")
}

fn refusal<T>(result: kube::Result<T>) -> Result<Status> {
    match result {
        Ok(_) => anyhow::bail!("it was not refused"),
        Err(kube::Error::Api(status)) => Ok(*status),
        Err(other) => Err(other).context("it was not refused but failed"),
    }
}

/// Returns the next event of a watch, as text.
async fn next(
    watch: &mut (impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Unpin),
) -> Result<String> {
    let event = tokio::time::timeout(PATIENCE, watch.next()).await.context("waited in vain for an event")?;
    let name = |object: DynamicObject| object.metadata.name.unwrap_or_default();
    Ok(match event.context("the watch is over")?? {
        WatchEvent::Added(object) => format!("added {}", name(object)),
        WatchEvent::Modified(object) => format!("modified {}", name(object)),
        WatchEvent::Deleted(object) => format!("deleted {}", name(object)),
        WatchEvent::Bookmark(bookmark) => format!("bookmark {}", bookmark.metadata.resource_version),
        WatchEvent::Error(status) => format!("error {} {}", status.code, status.reason),
    })
}
