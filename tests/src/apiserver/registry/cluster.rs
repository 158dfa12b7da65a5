//! The cluster: all objects, the writes that change them, and the effects of a write.
//!
//! A definition adds a resource and removes it. A deleted
//! namespace takes its objects along at once.

use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::{
    builtins, definitions,
    owners::{Author, Operation},
    resource::Resources,
    store::{Key, Object, Outcome, Written},
    strategic,
    write::{DeleteOptions, Write, finalizers, metadata_text},
};
use crate::apiserver::refusal::{Named, Refusal};

/// The field manager of objects that a test loads.
const LOADED: &str = "manifest";

/// All resources and their objects.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) resources: Resources,
}

#[derive(Debug)]
pub(crate) enum Patch {
    /// A merge patch (RFC 7396).
    Merge(Value),
    /// A strategic merge patch, of a built-in type.
    Strategic(Value),
    /// Server-side apply.
    Apply { config: Value, force: bool },
}

impl Cluster {
    /// Makes a cluster that knows the built-in types and has no objects.
    pub(crate) fn new(history: usize) -> Self {
        let resources = Resources::new(history);
        builtins::add_to(&resources);
        Self { resources }
    }

    /// Creates an object, whose name must be given.
    pub(crate) fn create(&self, mut write: Write<'_>, value: Value) -> Result<Written, Refusal> {
        let value = take_types(&write, value)?;
        let Some(name) = metadata_text(&value, "name") else {
            return Err(Refusal::Unserved("a creation without metadata.name".into()));
        };
        name.clone_into(&mut write.key.name);
        self.create_named(&write, value, false)
    }

    fn create_named(&self, write: &Write<'_>, value: Value, keeps_status: bool) -> Result<Written, Refusal> {
        self.check_namespace(write)?;
        self.commit(write, |before| match before {
            Some(_) => Err(Refusal::Exists(write.named())),
            None => write.create(value, keeps_status),
        })
    }

    pub(crate) fn patch(&self, write: &Write<'_>, patch: Patch) -> Result<Written, Refusal> {
        let patch = match patch {
            Patch::Merge(value) => Patch::Merge(take_types(write, value)?),
            Patch::Strategic(value) => Patch::Strategic(take_types(write, value)?),
            Patch::Apply { config, force } => Patch::Apply { config: take_types(write, config)?, force },
        };
        self.commit(write, |before| {
            let before = before.ok_or_else(|| Refusal::NotFound(write.named()))?;
            match &patch {
                Patch::Merge(value) => write.merge(before, value, json_patch::merge),
                Patch::Strategic(value) => write.merge(before, value, strategic::merge),
                Patch::Apply { config, force } => write.apply(before, config, *force),
            }
        })
    }

    /// Deletes an object, or marks it when it has finalizers.
    pub(crate) fn delete(&self, write: &Write<'_>, options: &DeleteOptions) -> Result<Written, Refusal> {
        if write.resource.is_core("namespaces") {
            self.empty(&write.key.name)?;
        }
        self.commit(write, |before| {
            write.delete(before.ok_or_else(|| Refusal::NotFound(write.named()))?, options)
        })
    }

    /// Creates an object of a test with its status, or each item of a list.
    pub(crate) fn load(&self, object: Value) -> Result<()> {
        let (Some(version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
            bail!("an object without apiVersion or kind cannot be loaded: {object}");
        };
        let resources = self.resources.list();
        let resource =
            resources.iter().find(|resource| resource.kind == kind && resource.api_version() == version);
        let resource = resource
            .with_context(|| format!("the API server of the tests does not know {kind} in {version}"))?;
        let text = |name| metadata_text(&object, name).map(str::to_owned);
        let name = text("name").with_context(|| format!("an object without a name: {object}"))?;
        let namespace = if resource.namespaced {
            text("namespace").unwrap_or_else(|| "default".into())
        } else {
            String::new()
        };
        let author = Author {
            manager: LOADED.to_owned(),
            operation: Operation::Update,
            api_version: resource.api_version(),
            subresource: None,
        };
        let failed = format!("failed to load {kind} {name}");
        let write = Write { resource, key: Key { namespace, name }, author };
        let value = take_types(&write, object);
        value.and_then(|value| self.create_named(&write, value, true)).context(failed)?;
        Ok(())
    }

    /// Carries out the decision of `decide`, and its effects.
    fn commit(
        &self,
        write: &Write<'_>,
        decide: impl FnOnce(Option<&Arc<Object>>) -> Result<Outcome, Refusal>,
    ) -> Result<Written, Refusal> {
        let written = write.resource.table.change(&write.key, decide)?;
        let written = written.ok_or_else(|| Refusal::NotFound(write.named()))?;
        if definitions::is_definition(write.resource) {
            self.define(&written)?;
        }
        Ok(written)
    }

    /// Adds, replaces or removes the resource of a definition.
    fn define(&self, Written { object, gone }: &Written) -> Result<(), Refusal> {
        let (group, plural) = definitions::name(&object.value);
        let all = self.resources.list();
        let known = all.iter().find(|known| known.group == group && known.plural == plural);
        let table = known.map_or_else(|| self.resources.new_table(), |known| Arc::clone(&known.table));
        self.resources.remove(group, plural);
        if !gone {
            self.resources.add(definitions::resource(&object.value, table)?);
        }
        Ok(())
    }

    /// Removes the objects of a namespace.
    fn empty(&self, namespace: &str) -> Result<(), Refusal> {
        for resource in self.resources.list().iter().filter(|resource| resource.namespaced) {
            for object in resource.table.all(Some(namespace)) {
                if !finalizers(&object.value).is_empty() {
                    let what = "the deletion of a namespace with objects in it that have finalizers";
                    return Err(Refusal::Unserved(what.into()));
                }
                let name = metadata_text(&object.value, "name").unwrap_or_default().to_owned();
                let key = Key { namespace: namespace.to_owned(), name };
                resource.table.change(&key, |before| {
                    Ok(before.map_or(Outcome::Unchanged, |before| Outcome::Remove(before.value.clone())))
                })?;
            }
        }
        Ok(())
    }

    /// Fails when the namespace of a new object does not exist.
    fn check_namespace(&self, write: &Write<'_>) -> Result<(), Refusal> {
        let Some(namespaces) = self.resources.find("", "v1", "namespaces") else { return Ok(()) };
        let name = write.key.namespace.clone();
        if !write.resource.namespaced
            || namespaces.table.get(&Key { namespace: String::new(), name: name.clone() }).is_some()
        {
            return Ok(());
        }
        Err(Refusal::NotFound(Named { group: String::new(), resource: "namespaces".to_owned(), name }))
    }
}

/// Returns `value` without its types. The types and the namespace must be
/// those of the resource, if `value` has them.
fn take_types(write: &Write<'_>, mut value: Value) -> Result<Value, Refusal> {
    let other = || Refusal::OtherObject { kind: write.resource.kind.clone() };
    let namespace = metadata_text(&value, "namespace");
    if write.resource.namespaced && namespace.is_some_and(|found| found != write.key.namespace) {
        return Err(other());
    }
    let map = value.as_object_mut().ok_or_else(other)?;
    let wanted = [("apiVersion", write.resource.api_version()), ("kind", write.resource.kind.clone())];
    for (name, wanted) in wanted {
        if map.remove(name).is_some_and(|found| found != json!(wanted)) {
            return Err(other());
        }
    }
    Ok(value)
}
