//! Who owns which field: `managedFields`, server-side apply and its conflicts.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::fields::{Difference, FieldSet};
use super::shape::Shape;

/// A field that someone else owns and that an apply would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    /// Its owner, as messages write it.
    pub(super) manager: String,
    pub(super) path: String,
}

/// How a manager came to its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Whoever writes: what tells one entry of `managedFields` from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: Option<&'static str>,
}

#[derive(Debug, Clone)]
struct Entry {
    author: Author,
    time: String,
    fields: FieldSet,
}

/// The owners of the fields of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners(Vec<Entry>);

impl Author {
    fn is_same_entry(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

impl Entry {
    fn read(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        Some(Self {
            author: Author {
                manager: text("manager")?.to_owned(),
                operation: match text("operation")? {
                    "Apply" => Operation::Apply,
                    _ => Operation::Update,
                },
                api_version: text("apiVersion")?.to_owned(),
                subresource: text("subresource").map(|_| "status"),
            },
            time: text("time").unwrap_or_default().to_owned(),
            fields: FieldSet::from_value(value.get("fieldsV1")?),
        })
    }

    fn to_value(&self) -> Value {
        let mut value = json!({
            "manager": self.author.manager,
            "operation": match self.author.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            },
            "apiVersion": self.author.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        if let Some(subresource) = self.author.subresource {
            value["subresource"] = Value::from(subresource);
        }
        value
    }

    /// The owner as the messages about conflicts write it.
    fn readable(&self) -> String {
        let Author { manager, operation, api_version, subresource } = &self.author;
        let subresource = subresource.map(|name| format!(" with subresource {name:?}")).unwrap_or_default();
        match operation {
            Operation::Apply => format!("{manager:?}{subresource}"),
            Operation::Update => format!("{manager:?}{subresource} using {api_version} at {}", self.time),
        }
    }
}

impl Owners {
    /// Reads `metadata.managedFields`; what cannot be read owns nothing.
    pub(super) fn of(object: &Value) -> Self {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        Self(entries.map(|entries| entries.iter().filter_map(Entry::read).collect()).unwrap_or_default())
    }

    /// Writes `metadata.managedFields`.
    pub(super) fn write(&self, object: &mut Value) {
        let mut entries = self.0.clone();
        entries.retain(|entry| !entry.fields.is_empty());
        entries.sort_by(|a, b| {
            let order =
                |entry: &Entry| (entry.author.operation, entry.time.clone(), entry.author.manager.clone());
            order(a).cmp(&order(b))
        });
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if entries.is_empty() {
            metadata.remove("managedFields");
        } else {
            metadata.insert("managedFields".to_owned(), entries.iter().map(Entry::to_value).collect());
        }
    }

    /// Notes that `author` made `difference` at `time`.
    pub(super) fn record(&mut self, author: &Author, difference: &Difference, time: &str) {
        self.take_from_others(author, difference);
        if difference.changed.is_empty() && difference.removed.is_empty() {
            return;
        }
        let place = self.0.iter().position(|entry| entry.author.is_same_entry(author));
        let mut entry = match place {
            Some(place) => self.0.remove(place),
            None => Entry { author: author.clone(), time: String::new(), fields: FieldSet::default() },
        };
        let before = entry.fields.clone();
        entry.fields.add(&difference.changed);
        entry.fields.subtract(&difference.removed);
        if !difference.changed.is_empty() || entry.fields != before {
            time.clone_into(&mut entry.time);
        }
        self.0.push(entry);
    }

    /// Notes that `author`, who applies, owns just `fields`; `difference` is what that did to the object.
    pub(super) fn record_applied(
        &mut self,
        author: &Author,
        fields: FieldSet,
        difference: &Difference,
        time: &str,
    ) {
        self.take_from_others(author, difference);
        let place = self.0.iter().position(|entry| entry.author.is_same_entry(author));
        let old = place.map(|place| self.0.remove(place));
        let time = match old {
            Some(old)
                if old.fields == fields && difference.changed.is_empty() && difference.removed.is_empty() =>
            {
                old.time
            }
            Some(_) | None => time.to_owned(),
        };
        self.0.push(Entry { author: author.clone(), time, fields });
    }

    fn take_from_others(&mut self, author: &Author, difference: &Difference) {
        for entry in self.0.iter_mut().filter(|entry| !entry.author.is_same_entry(author)) {
            entry.fields.subtract(&difference.changed);
            entry.fields.subtract(&difference.removed);
        }
    }

    /// What `author` owns.
    pub(super) fn fields_of(&self, author: &Author) -> FieldSet {
        let entry = self.0.iter().find(|entry| entry.author.is_same_entry(author));
        entry.map(|entry| entry.fields.clone()).unwrap_or_default()
    }

    /// What all but `author` own.
    pub(super) fn fields_of_others(&self, author: &Author) -> FieldSet {
        let mut fields = FieldSet::default();
        for entry in self.0.iter().filter(|entry| !entry.author.is_same_entry(author)) {
            fields.add(&entry.fields);
        }
        fields
    }

    /// What `author` cannot change without force.
    pub(super) fn conflicts(&self, author: &Author, changed: &FieldSet) -> Vec<Conflict> {
        let others = self.0.iter().filter(|entry| !entry.author.is_same_entry(author));
        others
            .flat_map(|entry| {
                let paths = entry.fields.common_paths(changed);
                paths.into_iter().map(|path| Conflict { manager: entry.readable(), path })
            })
            .collect()
    }
}

/// `live` with what `config` says; what `config` does not mention stays.
pub(super) fn merge(live: Value, config: &Value, shape: &Shape) -> Value {
    match live {
        Value::Object(mut live) => {
            let Some(fields) = shape.fields_of(config) else { return config.clone() };
            for (name, value) in fields {
                let merged = match live.remove(name) {
                    Some(old) => merge(old, value, shape.field(name)),
                    None => value.clone(),
                };
                live.insert(name.clone(), merged);
            }
            Value::Object(live)
        }
        Value::Array(live) => {
            let Some(wanted) = shape.items_of(config) else { return config.clone() };
            let mut wanted: BTreeMap<String, &Value> = wanted.into_iter().collect();
            let mut merged = Vec::with_capacity(live.len());
            for item in live {
                match wanted.remove(&shape.element(&item)) {
                    Some(value) => merged.push(merge(item, value, shape.item())),
                    None => merged.push(item),
                }
            }
            // What is new comes in the order in which it was given.
            if let Some(all) = shape.items_of(config) {
                merged.extend(
                    all.into_iter()
                        .filter(|(element, _)| wanted.contains_key(element))
                        .map(|(_, item)| item.clone()),
                );
            }
            Value::Array(merged)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => config.clone(),
    }
}

/// Removes from `value` what is in `was` and of which nothing is in `owned`.
pub(super) fn prune(value: &mut Value, was: &FieldSet, owned: &FieldSet, shape: &Shape) {
    if shape.fields_of(value).is_some() {
        let Some(fields) = value.as_object_mut() else { return };
        prune_fields(fields, was, owned, shape);
    } else if let Some(items) = shape.items_of(value) {
        let elements: Vec<String> = items.into_iter().map(|(element, _)| element).collect();
        let Some(items) = value.as_array_mut() else { return };
        let mut kept = Vec::with_capacity(items.len());
        for (element, mut item) in elements.into_iter().zip(items.drain(..)) {
            match (was.child(&element), owned.child(&element)) {
                (Some(_), None) => continue,
                (Some(was), Some(owned)) => prune(&mut item, was, owned, shape.item()),
                (None, _) => {}
            }
            kept.push(item);
        }
        *items = kept;
    }
}

fn prune_fields(fields: &mut Map<String, Value>, was: &FieldSet, owned: &FieldSet, shape: &Shape) {
    let names: Vec<String> = fields.keys().cloned().collect();
    for name in names {
        let element = format!("f:{name}");
        match (was.child(&element), owned.child(&element)) {
            (Some(_), None) => {
                fields.remove(&name);
            }
            (Some(was), Some(owned)) => {
                if let Some(value) = fields.get_mut(&name) {
                    prune(value, was, owned, shape.field(&name));
                }
            }
            (None, _) => {}
        }
    }
}
