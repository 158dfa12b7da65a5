//! The owners of fields: `managedFields`, and the conflicts of server-side apply.
//!
//! A list is one field here. A real API server gives the items of some lists their own owners. Here
//! apply serves one field only, `status.loadBalancer.ingress`, which is one list there too.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::apiserver::refusal::Conflict;

/// The fields of `metadata` that only the server writes.
pub(crate) const OF_SERVER: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// The kind of write that gave a manager its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// The author of a write, which distinguishes the entries of `managedFields`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Author {
    pub(crate) manager: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    /// `status`, in a write of the status alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subresource: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    #[serde(flatten)]
    author: Author,
    time: String,
    fields_type: FieldsType,
    fields_v1: Fields,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum FieldsType {
    FieldsV1,
}

/// A set of fields, each by its path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub(crate) struct Fields(BTreeSet<Vec<String>>);

#[derive(Debug, Clone, Default)]
pub(crate) struct Owners(Vec<Entry>);

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Fields that are new or have another value.
    pub(crate) changed: Fields,
    pub(crate) removed: Fields,
}

impl Fields {
    /// Returns the fields of `object`, without those that only the server writes.
    pub(crate) fn of(object: &Value) -> Self {
        Self(leaves(object).into_keys().collect())
    }

    pub(crate) fn is_at_most(&self, path: &[&str]) -> bool {
        self.0.iter().all(|field| field == path)
    }

    pub(crate) fn remove_from(&self, object: &mut Value) {
        for path in &self.0 {
            let Some((name, parents)) = path.split_last() else { continue };
            let parent = parents.iter().try_fold(&mut *object, |value, name| value.get_mut(name));
            if let Some(parent) = parent.and_then(Value::as_object_mut) {
                parent.remove(name);
            }
        }
    }

    fn subtract(&mut self, other: &Self) {
        self.0.retain(|path| !other.0.contains(path));
    }
}

/// Reads `fieldsV1`.
impl From<Value> for Fields {
    fn from(value: Value) -> Self {
        let mut fields = BTreeSet::new();
        walk(&value, &mut Vec::new(), &mut |path, _| {
            fields.insert(path.iter().map(|name| name.trim_start_matches("f:").to_owned()).collect());
        });
        Self(fields)
    }
}

/// Writes `fieldsV1`.
impl From<Fields> for Value {
    fn from(fields: Fields) -> Self {
        let mut root = Self::Object(Map::new());
        for path in fields.0 {
            // Indexing turns a missing value into an object.
            let place = path.iter().fold(&mut root, |place, name| &mut place[format!("f:{name}")]);
            *place = Self::Object(Map::new());
        }
        root
    }
}

/// Visits each value in `value` that is no object, or an empty one, with its path.
fn walk<'a>(value: &'a Value, path: &mut Vec<String>, visit: &mut impl FnMut(&[String], &'a Value)) {
    let Some(fields) = value.as_object().filter(|fields| !fields.is_empty()) else {
        visit(path, value);
        return;
    };
    for (name, value) in fields {
        path.push(name.clone());
        walk(value, path, visit);
        path.pop();
    }
}

/// Returns the scalars and lists in `object` by their paths,
/// without those that only the server writes.
fn leaves(object: &Value) -> BTreeMap<Vec<String>, &Value> {
    let is_of_server = |path: &[String]| match path {
        [name] => name == "apiVersion" || name == "kind",
        [parent, name, ..] => parent == "metadata" && OF_SERVER.contains(&name.as_str()),
        [] => false,
    };
    let mut found = BTreeMap::new();
    walk(object, &mut Vec::new(), &mut |path, value| {
        if !value.is_object() && !is_of_server(path) {
            found.insert(path.to_vec(), value);
        }
    });
    found
}

impl Difference {
    pub(crate) fn between(before: &Value, after: &Value) -> Self {
        let (before, after) = (leaves(before), leaves(after));
        let changed = after.iter().filter(|(path, value)| before.get(*path) != Some(value));
        let removed = before.keys().filter(|path| !after.contains_key(*path));
        Self {
            changed: Fields(changed.map(|(path, _)| path.clone()).collect()),
            removed: Fields(removed.cloned().collect()),
        }
    }
}

impl Entry {
    /// Returns the owner in the form of the messages about conflicts.
    fn readable(&self) -> String {
        let Author { manager, operation, api_version, subresource } = &self.author;
        let subresource = subresource.as_ref().map(|name| format!(" with subresource {name:?}"));
        let subresource = subresource.unwrap_or_default();
        match operation {
            Operation::Apply => format!("{manager:?}{subresource}"),
            Operation::Update => format!("{manager:?}{subresource} using {api_version} at {}", self.time),
        }
    }
}

impl Owners {
    /// Reads `metadata.managedFields`; entries that cannot be read own nothing.
    pub(crate) fn of(object: &Value) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        Self(entries.filter_map(|entry| Entry::deserialize(entry).ok()).collect())
    }

    /// Writes `metadata.managedFields`.
    pub(crate) fn write(&self, object: &mut Value) {
        let entries = self.0.iter().filter(|entry| !entry.fields_v1.0.is_empty());
        let entries: Vec<Value> = entries.filter_map(|entry| serde_json::to_value(entry).ok()).collect();
        object["metadata"]["managedFields"] = entries.into();
    }

    /// Records that `author` made `difference` at `time`. An author who applies owns exactly
    /// `applied`. Any other author keeps its fields and gains the changed ones.
    pub(crate) fn record(
        &mut self,
        author: &Author,
        applied: Option<Fields>,
        difference: &Difference,
        time: &str,
    ) {
        let place = self.0.iter().position(|entry| entry.author == *author);
        let owned = place.map(|place| &self.0[place].fields_v1);
        let is_same = applied.is_none() || applied.as_ref() == owned;
        if is_same && *difference == Difference::default() {
            return;
        }
        for entry in &mut self.0 {
            entry.fields_v1.subtract(&difference.changed);
            entry.fields_v1.subtract(&difference.removed);
        }
        let old = place.map(|place| self.0.remove(place).fields_v1);
        let fields_v1 = applied.unwrap_or_else(|| {
            let mut fields = old.unwrap_or_default();
            fields.0.extend(difference.changed.0.iter().cloned());
            fields
        });
        let (author, time) = (author.clone(), time.to_owned());
        self.0.push(Entry { author, time, fields_type: FieldsType::FieldsV1, fields_v1 });
    }

    pub(crate) fn conflicts(&self, author: &Author, difference: &Difference) -> Vec<Conflict> {
        let others = self.0.iter().filter(|entry| entry.author != *author);
        let conflicts = others.flat_map(|entry| {
            entry
                .fields_v1
                .0
                .intersection(&difference.changed.0)
                .map(|path| Conflict { manager: entry.readable(), path: format!(".{}", path.join(".")) })
        });
        conflicts.collect()
    }

    /// Returns the fields that `author` owns alone and no longer applies.
    pub(crate) fn abandoned(&self, author: &Author, applied: &Fields) -> Fields {
        let own = self.0.iter().find(|entry| entry.author == *author);
        let mut fields = own.map(|entry| entry.fields_v1.clone()).unwrap_or_default();
        fields.subtract(applied);
        for entry in self.0.iter().filter(|entry| entry.author != *author) {
            fields.subtract(&entry.fields_v1);
        }
        fields
    }
}
