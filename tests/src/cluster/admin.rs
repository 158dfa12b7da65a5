//! Reads and writes the objects of a cluster as JSON, as
//! its administrator. Each call waits for its result.

mod bulk;
mod kind;

use std::fmt;
use std::future::Future;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use futures::StreamExt;
use futures::stream::BoxStream;
use hyper::Request;
use hyper::header::ACCEPT;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{DynamicObject, TypeMeta};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub use self::kind::{Kind, Object};

use crate::kit::interrupt::poll;

const REQUEST_LIMIT: Duration = Duration::from_secs(20);
const TOKEN_LIFETIME: Duration = Duration::from_hours(2);
/// Field manager of the administrator.
pub const MANAGER: &str = "vipward-tests";

/// Part of an object that a patch changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Main,
    Status,
}

/// Client with all rights.
pub struct Admin {
    client: Client,
    /// Last field, because the client uses it.
    runtime: Runtime,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Admin {
    /// Makes a client from the current context of a kubeconfig.
    pub fn new(kubeconfig: Kubeconfig) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("cluster-admin")
            .enable_all()
            .build()
            .context("failed to make a runtime for an administrator")?;
        let client = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            anyhow::Ok(Client::try_from(config)?)
        });
        Ok(Self { client: client.context("failed to make a client of the API server")?, runtime })
    }

    pub fn get(&self, object: &Object) -> Result<Option<Value>> {
        let api = self.api(object)?;
        let found = self.call("get", object, api.get_opt(&object.name))?;
        found.as_ref().map(to_json).transpose()
    }

    /// Returns all objects of a kind, of one namespace or of all.
    pub fn list(&self, kind: Kind, namespace: Option<&str>) -> Result<Vec<Value>> {
        let api = self.api_of(kind, namespace);
        let listed = self.call("list", kind.plural, api.list(&ListParams::default()))?;
        // The items of a list lack kind and version.
        let types = TypeMeta { api_version: kind.api_version(), kind: kind.name.to_owned() };
        let items = listed.items.into_iter();
        items.map(|item| to_json(&DynamicObject { types: Some(types.clone()), ..item })).collect()
    }

    /// Returns the table of `kubectl get` for a kind without
    /// namespaces: the column titles, and a row for each object.
    pub fn table(&self, kind: Kind) -> Result<Vec<Vec<String>>> {
        let request = Request::get(format!("/apis/{}/{}", kind.api_version(), kind.plural))
            .header(ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io")
            .body(Vec::new())
            .context("invariant: a path and a header make a request")?;
        let table: Value = self.call("list", kind.plural, self.client.request(request))?;
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let columns = items(&table["columnDefinitions"]);
        // Columns of another priority are for `-o wide`.
        let shown: Vec<usize> = (0..columns.len()).filter(|at| columns[*at]["priority"] == 0).collect();
        let text = |value: &Value| match value {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let titles = shown.iter().map(|at| text(&columns[*at]["name"]).to_uppercase()).collect();
        let rows = items(&table["rows"]);
        let rows = rows.iter().map(|row| shown.iter().map(|at| text(&row["cells"][*at])).collect());
        Ok(std::iter::once(titles).chain(rows).collect())
    }

    /// Creates the object of a manifest. Fails if it exists.
    pub fn create(&self, manifest: &Value) -> Result<Value> {
        let object = Object::of(manifest)?;
        let new: DynamicObject = serde_json::from_value(manifest.clone())?;
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let api = self.api(&object)?;
        to_json(&self.call("create", &object, api.create(&params, &new))?)
    }

    /// Applies a manifest: creates its object or merges into it.
    pub fn put(&self, manifest: &Value) -> Result<Value> {
        let object = Object::of(manifest)?;
        if self.get(&object)?.is_some() { self.merge(&object, manifest) } else { self.create(manifest) }
    }

    /// Applies a merge patch.
    pub fn merge(&self, object: &Object, patch: &Value) -> Result<Value> {
        self.patch(object, Part::Main, MANAGER, patch)
    }

    /// Applies a merge patch to the status, as any field manager.
    pub fn merge_status(&self, object: &Object, manager: &str, patch: &Value) -> Result<Value> {
        self.patch(object, Part::Status, manager, patch)
    }

    fn patch(&self, object: &Object, part: Part, manager: &str, patch: &Value) -> Result<Value> {
        let api = self.api(object)?;
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let merge = Patch::Merge(patch);
        let patched = match part {
            Part::Main => self.call("patch", object, api.patch(&object.name, &params, &merge)),
            Part::Status => {
                self.call("patch the status of", object, api.patch_status(&object.name, &params, &merge))
            }
        };
        to_json(&patched?)
    }

    /// Deletes an object, and returns whether it existed. Finalizers may keep it.
    pub fn delete(&self, object: &Object) -> Result<bool> {
        self.delete_with(object, &DeleteParams::default())
    }

    fn delete_with(&self, object: &Object, params: &DeleteParams) -> Result<bool> {
        let api = self.api(object)?;
        let deleted = async {
            match api.delete(&object.name, params).await {
                Ok(_) => Ok(true),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
                Err(error) => Err(error),
            }
        };
        self.call("delete", object, deleted)
    }

    /// Deletes an object at once, without its finalizers and Kubernetes' grace period of a Pod.
    pub fn delete_for_good(&self, object: &Object) -> Result<()> {
        let asked = self.delete_with(object, &DeleteParams::default().grace_period(0))?;
        // A namespace ends when it is empty.
        if asked && object.kind != Kind::NAMESPACE && self.get(object)?.is_some() {
            // Meanwhile it may be gone: a definition goes when its objects have gone.
            let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let (api, params) = (self.api(object)?, PatchParams::default());
            let patched = async { pass_over_missing(api.patch(&object.name, &params, &bare).await) };
            self.call("patch", object, patched)?;
        }
        Ok(())
    }

    /// Returns a token of a service account. One that is bound to a Pod names
    /// the Pod's node, and ends with the Pod.
    pub fn token_of(&self, namespace: &str, account: &str, pod: Option<&Value>) -> Result<String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let lifetime = i64::try_from(TOKEN_LIFETIME.as_secs()).context("invariant: hours fit")?;
        let text = |pod: &Value, key: &str| pod["metadata"][key].as_str().map(str::to_owned);
        let bound_object_ref = pod.map(|pod| BoundObjectReference {
            api_version: Some(Kind::POD.api_version()),
            kind: Some(Kind::POD.name().to_owned()),
            name: text(pod, "name"),
            uid: text(pod, "uid"),
        });
        let expiration_seconds = Some(lifetime);
        let spec = TokenRequestSpec { bound_object_ref, expiration_seconds, ..TokenRequestSpec::default() };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let what = format!("service account {namespace}/{account}");
        let params = PostParams::default();
        let made =
            self.call("make a token of", what, api.create_token_request(account, &params, &request))?;
        Ok(made.status.context("a token request came back without a token")?.token)
    }

    /// Waits until an object, or its absence, `matches`. The failure shows its last state.
    pub fn wait_for(
        &self,
        limit: Duration,
        object: &Object,
        what: &str,
        matches: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Option<Value>> {
        let mut last = None;
        let found = poll(limit, &format!("{object} {what}"), || {
            last = self.get(object)?;
            Ok(matches(last.as_ref()).then(|| last.clone()))
        });
        found.with_context(|| match &last {
            Some(last) => format!("it was last: {last:#}"),
            None => "it was not there".to_owned(),
        })
    }

    /// Watches the objects of a kind, in one namespace or in all.
    pub fn changes(&self, kind: Kind, namespace: Option<&str>) -> Result<Changes> {
        let api = self.api_of(kind, namespace);
        let listed = self.call("list", kind.plural, api.list(&ListParams::default()))?;
        let version = listed.metadata.resource_version.context("a list without a version")?;
        let params = WatchParams::default();
        let begun = async { Ok(api.watch(&params, &version).await?.boxed()) };
        let stream = self.call("watch", kind.plural, begun)?;
        let (sender, receiver) = channel();
        let task = self.runtime.spawn(pass_on(stream, sender));
        Ok(Changes { receiver, task })
    }

    fn api_of(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind.resource()),
            None => Api::all_with(self.client.clone(), &kind.resource()),
        }
    }

    fn api(&self, object: &Object) -> Result<Api<DynamicObject>> {
        let resource = object.kind.resource();
        Ok(match (object.kind.namespaced, &object.namespace) {
            (true, Some(namespace)) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            (false, None) => Api::all_with(self.client.clone(), &resource),
            (true, None) => anyhow::bail!("{object} needs a namespace"),
            (false, Some(_)) => anyhow::bail!("{object} cannot have a namespace"),
        })
    }

    fn call<T>(
        &self,
        verb: &str,
        what: impl fmt::Display,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T> {
        let failed = || format!("failed to {verb} {what}");
        // A timer must be created inside the runtime.
        let answered = self.runtime.block_on(async { tokio::time::timeout(REQUEST_LIMIT, request).await });
        answered.context("the API server does not answer").with_context(failed)?.with_context(failed)
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    pub at: SystemTime,
    /// Object after the change, or before its deletion.
    pub object: Value,
}

impl Change {
    /// Returns the version that the change gave the object. It orders changes of objects of all kinds,
    /// as the time of arrival does not: each kind has a watch of its own.
    pub fn version(&self) -> Result<u64> {
        let version = self.object["metadata"]["resourceVersion"].as_str().context("an object without one")?;
        version.parse().with_context(|| format!("{version} is no number"))
    }
}

/// Watch of objects, until it is dropped.
#[derive(Debug)]
pub struct Changes {
    receiver: Receiver<Result<Change>>,
    task: JoinHandle<()>,
}

impl Changes {
    pub fn wait_for(&self, limit: Duration, what: &str, matches: impl Fn(&Value) -> bool) -> Result<Change> {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let change = self.receiver.recv_timeout(left);
            let change = change.with_context(|| format!("waited {limit:?} in vain for {what}"))??;
            if matches(&change.object) {
                return Ok(change);
            }
        }
    }

    /// Returns the changes that have arrived and were not returned yet.
    pub fn so_far(&self) -> Result<Vec<Change>> {
        self.receiver.try_iter().collect()
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

type Events = BoxStream<'static, kube::Result<WatchEvent<DynamicObject>>>;

/// Ends when the receiver is gone or after an error, which it sends too.
async fn pass_on(mut events: Events, sender: Sender<Result<Change>>) {
    while let Some(event) = events.next().await {
        let at = SystemTime::now();
        let change = match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                to_json(&object).map(|object| Change { at, object })
            }
            Ok(WatchEvent::Bookmark(_)) => continue,
            Ok(WatchEvent::Error(status)) => Err(kube::Error::Api(status).into()),
            Err(error) => Err(error.into()),
        };
        let failed = change.is_err();
        if sender.send(change).is_err() || failed {
            return;
        }
    }
}

fn to_json(object: &DynamicObject) -> Result<Value> {
    serde_json::to_value(object).context("invariant: an object is JSON")
}

fn pass_over_missing<T>(answer: kube::Result<T>) -> kube::Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        answer => answer.map(drop),
    }
}
