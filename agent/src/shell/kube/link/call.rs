//! Requests to the API server: kube builds them, and each carries its labels for the metrics.

use std::{borrow::Cow, fmt::Write as _};

use kube::{
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, WatchParams},
    core::{Request, request},
};
use serde_json::Value;

/// The agents' name as a field manager and in labels.
pub const MANAGER: &str = vipward_core::services::FIELD_MANAGER;

/// A request that has no connection yet.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// The plural name of the object's type.
    pub(crate) resource: &'static str,
    /// The API server's name for the operation.
    pub(crate) verb: &'static str,
    pub(crate) request: http::Request<Vec<u8>>,
}

/// The objects of one type, in one namespace or in all of them.
#[derive(Clone, Debug)]
pub(crate) struct Collection {
    resource: &'static str,
    url: Request,
}

impl Collection {
    /// Returns the objects of type `K` in `namespace`; without one, those of all namespaces.
    pub(crate) fn of<K: kube::Resource<DynamicType = ()>>(namespace: Option<&str>) -> Self {
        let resource = match K::plural(&()) {
            Cow::Borrowed(plural) => plural,
            Cow::Owned(_) => "other",
        };
        Self { resource, url: Request::new(K::url_path(&(), namespace.map(escaped).as_deref())) }
    }

    /// Returns the objects in `namespace` of a type that this program does not define; with an empty one,
    /// those of all namespaces. `version` has its group too; `v1` has none.
    pub(crate) fn at(version: &str, plural: &'static str, namespace: &str) -> Self {
        let within = match namespace {
            "" => String::new(),
            namespace => format!("/namespaces/{}", escaped(namespace)),
        };
        let root = if version.contains('/') { "apis" } else { "api" };
        Self { resource: plural, url: Request::new(format!("/{root}/{version}{within}/{plural}")) }
    }

    pub(crate) fn list(&self, params: &ListParams) -> Call {
        self.call("list", self.url.list(params))
    }

    pub(crate) fn watch(&self, params: &WatchParams, version: &str) -> Call {
        self.call("watch", self.url.watch(params, version))
    }

    pub(crate) fn get(&self, name: &str) -> Call {
        self.call("get", self.url.get(&escaped(name), &GetParams::default()))
    }

    pub(crate) fn create(&self, object: &Value) -> Call {
        let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        self.call("create", self.url.create(&params, object.to_string().into_bytes()))
    }

    /// Returns a merge patch (RFC 7386).
    pub(crate) fn merge(&self, name: &str, patch: &Value) -> Call {
        let params = PatchParams::apply(MANAGER);
        self.call("patch", self.url.patch(&escaped(name), &params, &Patch::Merge(patch)))
    }

    /// Returns a merge patch of the status.
    pub(crate) fn merge_status(&self, name: &str, patch: &Value) -> Call {
        let params = PatchParams::apply(MANAGER);
        self.call(
            "patch",
            self.url.patch_subresource("status", &escaped(name), &params, &Patch::Merge(patch)),
        )
    }

    /// Returns a server-side apply of the status. Fields of other managers stay, unless it is forced.
    pub(crate) fn apply_status(&self, name: &str, object: &Value, force: bool) -> Call {
        let (params, patch) = (PatchParams { force, ..PatchParams::apply(MANAGER) }, Patch::Apply(object));
        self.call("patch", self.url.patch_subresource("status", &escaped(name), &params, &patch))
    }

    pub(crate) fn delete(&self, name: &str, params: &DeleteParams) -> Call {
        self.call("delete", self.url.delete(&escaped(name), params))
    }

    fn call(&self, verb: &'static str, built: Result<http::Request<Vec<u8>>, request::Error>) -> Call {
        let request = built.expect("invariant: names are not empty, and escaped they make a URI");
        Call { resource: self.resource, verb, request }
    }
}

/// Returns `text` escaped as a part of a path. kube does not escape names.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("invariant: a String takes everything");
        }
    }
    escaped
}
