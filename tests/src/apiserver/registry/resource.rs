//! The resources of the server: kinds of object, and the table of each.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::{
    columns::Column,
    schema::Schema,
    store::{Objects, Table, Versions},
};
use crate::apiserver::refusal::{Fault, Refusal};

/// A kind of object, and the table of its objects.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) namespaced: bool,
    /// True if the status is written by separate requests.
    pub(crate) has_status: bool,
    pub(crate) rules: Rules,
    pub(crate) columns: Vec<Column>,
    pub(crate) table: Arc<Table>,
}

#[derive(Debug)]
pub(crate) enum Rules {
    Builtin(Builtin),
    Custom(Box<Schema>),
}

/// The rules for the objects of a built-in type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Builtin {
    /// Reads an object as its Go type, fills in defaults, and writes it again.
    pub(crate) normalise: fn(Value) -> Result<Value, serde_json::Error>,
    /// Returns the faults of an object that replaces another, or is new.
    pub(crate) check: fn(Option<&Value>, &Value) -> Vec<Fault>,
}

impl Resource {
    /// Returns group and version in the form of objects: `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// Returns true if this is the resource `plural` of the core group.
    pub(crate) fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Returns true if a definition added it.
    pub(crate) const fn is_custom(&self) -> bool {
        matches!(self.rules, Rules::Custom(_))
    }

    /// Returns the beginning of the text of every object.
    pub(crate) fn head(&self) -> String {
        format!("{{\"apiVersion\":{:?},\"kind\":{:?},", self.api_version(), self.kind)
    }

    /// Returns an object in this resource's form: without unknown fields, and with defaults.
    pub(crate) fn normalise(&self, mut value: Value) -> Result<Value, Refusal> {
        match &self.rules {
            Rules::Builtin(builtin) => {
                let mut value = (builtin.normalise)(value)
                    .map_err(|source| Refusal::Undecodable { kind: self.kind.clone(), source })?;
                if let Some(map) = value.as_object_mut() {
                    map.remove("apiVersion");
                    map.remove("kind");
                }
                Ok(value)
            }
            Rules::Custom(schema) => {
                schema.conform(&mut value);
                Ok(value)
            }
        }
    }

    /// Returns the faults of an object that replaces `before`.
    pub(crate) fn faults(&self, before: Option<&Value>, after: &Value) -> Vec<Fault> {
        match &self.rules {
            Rules::Builtin(builtin) => (builtin.check)(before, after),
            Rules::Custom(schema) => schema.faults(after),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Resources {
    versions: Arc<Versions>,
    history: usize,
    known: RwLock<Known>,
}

/// The resources by group, version and plural.
type Known = BTreeMap<(String, String, String), Arc<Resource>>;

/// All resources and their objects at one version.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    version: u64,
    resources: Vec<(Arc<Resource>, Objects)>,
}

impl Resources {
    /// Makes a registry without resources, whose tables remember `history` changes.
    pub(crate) fn new(history: usize) -> Self {
        Self { versions: Arc::new(Versions::default()), history, known: RwLock::default() }
    }

    /// Returns an empty table for a new resource.
    pub(crate) fn new_table(&self) -> Arc<Table> {
        Arc::new(Table::new(Arc::clone(&self.versions), self.history))
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let name = (group.to_owned(), version.to_owned(), plural.to_owned());
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    pub(crate) fn list(&self) -> Vec<Arc<Resource>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds a resource, or replaces it.
    pub(crate) fn add(&self, resource: Resource) {
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name(&resource), Arc::new(resource));
    }

    /// Removes a resource with its objects.
    pub(crate) fn remove(&self, group: &str, plural: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, resource| resource.group != group || resource.plural != plural);
    }

    /// Returns all present objects.
    pub(crate) fn save(&self) -> Result<Snapshot, Refusal> {
        let version = self.versions.current();
        let saved = self.list().into_iter().map(|resource| {
            let objects = resource.table.at(version)?;
            Ok((resource, objects))
        });
        Ok(Snapshot { version, resources: saved.collect::<Result<_, Refusal>>()? })
    }

    /// Restores the state of a snapshot, while nothing is written.
    pub(crate) fn restore(&self, snapshot: &Snapshot) {
        let known = snapshot.resources.iter().map(|(resource, _)| (name(resource), Arc::clone(resource)));
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.collect();
        // This comes first, or a write that ends just now would leave a version of the future.
        self.versions.set(snapshot.version);
        for (resource, objects) in &snapshot.resources {
            resource.table.restore(objects.clone(), snapshot.version);
        }
    }
}

fn name(resource: &Resource) -> (String, String, String) {
    (resource.group.clone(), resource.version.clone(), resource.plural.clone())
}
