//! Reads and writes the objects of a cluster as JSON, as
//! its administrator. Each call waits for its result.

mod bulk;

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
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::poll;

/// Time limit of a request.
const REQUEST_LIMIT: Duration = Duration::from_secs(20);
const TOKEN_LIFETIME: Duration = Duration::from_hours(2);
/// Field manager of the administrator.
pub const MANAGER: &str = "vipward-tests";

/// Kind of object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Kind {
    group: &'static str,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    namespaced: bool,
}

impl Kind {
    /// v1
    pub const NAMESPACE: Self = Self::new("", "v1", "Namespace", "namespaces", false);
    /// v1
    pub const NODE: Self = Self::new("", "v1", "Node", "nodes", false);
    /// v1
    pub const POD: Self = Self::new("", "v1", "Pod", "pods", true);
    /// v1
    pub const SERVICE: Self = Self::new("", "v1", "Service", "services", true);
    /// v1
    pub const SERVICE_ACCOUNT: Self = Self::new("", "v1", "ServiceAccount", "serviceaccounts", true);
    /// networking.k8s.io/v1
    pub const SERVICE_CIDR: Self = Self::new("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", false);
    /// events.k8s.io/v1
    pub const EVENT: Self = Self::new("events.k8s.io", "v1", "Event", "events", true);
    /// discovery.k8s.io/v1
    pub const ENDPOINT_SLICE: Self =
        Self::new("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", true);
    /// coordination.k8s.io/v1
    pub const LEASE: Self = Self::new("coordination.k8s.io", "v1", "Lease", "leases", true);
    /// v1
    pub const SECRET: Self = Self::new("", "v1", "Secret", "secrets", true);
    /// apps/v1
    pub const DAEMON_SET: Self = Self::new("apps", "v1", "DaemonSet", "daemonsets", true);
    /// apiextensions.k8s.io/v1
    pub const DEFINITION: Self = Self::new(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        false,
    );
    /// rbac.authorization.k8s.io/v1
    pub const CLUSTER_ROLE: Self = Self::rbac("ClusterRole", "clusterroles", false);
    /// rbac.authorization.k8s.io/v1
    pub const CLUSTER_ROLE_BINDING: Self = Self::rbac("ClusterRoleBinding", "clusterrolebindings", false);
    /// rbac.authorization.k8s.io/v1
    pub const ROLE: Self = Self::rbac("Role", "roles", true);
    /// rbac.authorization.k8s.io/v1
    pub const ROLE_BINDING: Self = Self::rbac("RoleBinding", "rolebindings", true);
    /// admissionregistration.k8s.io/v1
    pub const ADMISSION_POLICY: Self =
        Self::admission("ValidatingAdmissionPolicy", "validatingadmissionpolicies");
    /// admissionregistration.k8s.io/v1
    pub const ADMISSION_BINDING: Self =
        Self::admission("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings");
    /// vipward.io/v1alpha1
    pub const VIRTUAL_IP: Self = Self::new("vipward.io", "v1alpha1", "VirtualIP", "virtualips", false);
    /// vipward.io/v1alpha1
    pub const POOL: Self = Self::new("vipward.io", "v1alpha1", "VIPPool", "vippools", false);

    /// metallb.io/v1beta1
    pub const METALLB_POOL: Self = Self::metallb("v1beta1", "IPAddressPool", "ipaddresspools");
    /// metallb.io/v1beta1
    pub const L2_ADVERTISEMENT: Self = Self::metallb("v1beta1", "L2Advertisement", "l2advertisements");
    /// metallb.io/v1beta2
    pub const BGP_PEER: Self = Self::metallb("v1beta2", "BGPPeer", "bgppeers");
    /// metallb.io/v1beta1
    pub const L2_STATUS: Self = Self::metallb("v1beta1", "ServiceL2Status", "servicel2statuses");

    const ALL: [Self; 24] = [
        Self::NAMESPACE,
        Self::NODE,
        Self::POD,
        Self::SERVICE,
        Self::SERVICE_ACCOUNT,
        Self::SERVICE_CIDR,
        Self::EVENT,
        Self::ENDPOINT_SLICE,
        Self::LEASE,
        Self::SECRET,
        Self::DAEMON_SET,
        Self::DEFINITION,
        Self::CLUSTER_ROLE,
        Self::CLUSTER_ROLE_BINDING,
        Self::ROLE,
        Self::ROLE_BINDING,
        Self::ADMISSION_POLICY,
        Self::ADMISSION_BINDING,
        Self::VIRTUAL_IP,
        Self::POOL,
        Self::METALLB_POOL,
        Self::L2_ADVERTISEMENT,
        Self::BGP_PEER,
        Self::L2_STATUS,
    ];

    const fn new(
        group: &'static str,
        version: &'static str,
        name: &'static str,
        plural: &'static str,
        namespaced: bool,
    ) -> Self {
        Self { group, version, name, plural, namespaced }
    }

    const fn metallb(version: &'static str, name: &'static str, plural: &'static str) -> Self {
        Self::new("metallb.io", version, name, plural, true)
    }

    const fn rbac(name: &'static str, plural: &'static str, namespaced: bool) -> Self {
        Self::new("rbac.authorization.k8s.io", "v1", name, plural, namespaced)
    }

    const fn admission(name: &'static str, plural: &'static str) -> Self {
        Self::new("admissionregistration.k8s.io", "v1", name, plural, false)
    }

    /// Returns the kind of a manifest.
    pub fn of(manifest: &Value) -> Result<Self> {
        let (version, kind) = (&manifest["apiVersion"], &manifest["kind"]);
        let found =
            Self::ALL.into_iter().find(|known| *version == known.api_version() && *kind == known.name);
        found.with_context(|| format!("{version} {kind} is not a kind that the tests know"))
    }

    /// Returns the definition of a type of `MetalLB`'s, with the fields that the tests use.
    pub fn definition(self) -> Value {
        let Self { group, version, name, plural, namespaced } = self;
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let labels = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let requirement = json!({"type": "object", "properties": {
            "key": {"type": "string"}, "operator": {"type": "string"}, "values": texts,
        }});
        let selectors = json!({"type": "array", "items": {"type": "object", "properties": {
            "matchLabels": labels, "matchExpressions": {"type": "array", "items": requirement},
        }}});
        let allocation = json!({"type": "object", "properties": {
            "priority": {"type": "integer"}, "namespaces": texts, "serviceSelectors": selectors,
        }});
        let spec = json!({"type": "object", "properties": {
            "addresses": texts, "autoAssign": {"type": "boolean", "default": true},
            "serviceAllocation": allocation, "ipAddressPools": texts, "nodeSelectors": selectors, "interfaces": texts,
            "peerAddress": {"type": "string"},
        }});
        let numbers = ["assignedIPv4", "assignedIPv6", "availableIPv4", "availableIPv6"];
        let numbers = numbers.map(|name| (name.to_owned(), json!({"type": "integer"})));
        let mut status = json!({"type": "object", "properties": serde_json::Map::from_iter(numbers)});
        for name in ["node", "serviceName", "serviceNamespace"] {
            status["properties"][name] = json!({"type": "string"});
        }
        let interface = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        status["properties"]["interfaces"] = json!({"type": "array", "items": interface});
        let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
        json!({
            "apiVersion": Self::DEFINITION.api_version(),
            "kind": Self::DEFINITION.name,
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": if namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": name, "listKind": format!("{name}List"), "plural": plural, "singular": name.to_lowercase()},
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}},
                }],
            },
        })
    }

    /// Returns its name, as in a manifest.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns group and version, as in a manifest.
    pub fn api_version(self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    fn resource(self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }
}

/// Identity of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Namespace, if its kind has one.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl Object {
    /// Identifies an object without a namespace.
    pub fn cluster_scoped(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, namespace: None, name: name.into() }
    }

    /// Identifies an object in a namespace.
    pub fn within(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: Some(namespace.into()), name: name.into() }
    }

    /// Identifies the object of a manifest.
    pub fn of(manifest: &Value) -> Result<Self> {
        let text = |key: &str| manifest["metadata"][key].as_str().map(str::to_owned);
        let name = text("name").with_context(|| format!("a manifest without a name: {manifest}"))?;
        Ok(Self { kind: Kind::of(manifest)?, namespace: text("namespace"), name })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind.name)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

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

    /// Returns the object, if it exists.
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

    /// Deletes an object at once, without its finalizers and a Pod's grace period.
    pub fn delete_for_good(&self, object: &Object) -> Result<()> {
        let asked = self.delete_with(object, &DeleteParams::default().grace_period(0))?;
        // A namespace ends when it is empty.
        if asked && object.kind != Kind::NAMESPACE && self.get(object)?.is_some() {
            // Meanwhile it may be gone: a definition goes when its objects have gone.
            let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let (api, params) = (self.api(object)?, PatchParams::default());
            let patched = async { bulk::pass_over_missing(api.patch(&object.name, &params, &bare).await) };
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

/// Change of an object.
#[derive(Clone, PartialEq, Debug)]
pub struct Change {
    /// Time at which the change arrived.
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
    /// Waits for a change that `matches`.
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
