//! Sets of fields, as `managedFields` keeps them: what an object has, and what changed between two.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::shape::Shape;

/// A set of the fields of an object: a tree whose edges are written as in `fieldsV1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet {
    member: bool,
    children: BTreeMap<String, FieldSet>,
}

/// How an object differs from what it was.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Fields that are new or have another value.
    pub(super) changed: FieldSet,
    /// Fields that are gone.
    pub(super) removed: FieldSet,
}

impl FieldSet {
    fn leaf() -> Self {
        Self { member: true, children: BTreeMap::new() }
    }

    /// The fields that someone who applies `value` owns.
    pub(super) fn applied(value: &Value, shape: &Shape) -> Self {
        let mut set = Self::default();
        if let Some(fields) = shape.fields_of(value) {
            for (name, value) in fields {
                let mut child = Self::applied(value, shape.field(name));
                child.member |= shape.is_map() || is_empty(value);
                set.put(format!("f:{name}"), child);
            }
        } else if let Some(items) = shape.items_of(value) {
            for (element, item) in items {
                let mut child = Self::applied(item, shape.item());
                child.member = true;
                set.put(element, child);
            }
        } else {
            set.member = true;
        }
        set
    }

    /// Every field of `value`, and the maps and lists that hold them.
    fn all(value: &Value, shape: &Shape) -> Self {
        let mut set = Self::leaf();
        if let Some(fields) = shape.fields_of(value) {
            for (name, value) in fields {
                set.put(format!("f:{name}"), Self::all(value, shape.field(name)));
            }
        } else if let Some(items) = shape.items_of(value) {
            for (element, item) in items {
                set.put(element, Self::all(item, shape.item()));
            }
        }
        set
    }

    fn put(&mut self, element: String, child: Self) {
        if !child.is_empty() {
            self.children.insert(element, child);
        }
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }

    /// What is in it below `element`.
    pub(super) fn child(&self, element: &str) -> Option<&Self> {
        self.children.get(element)
    }

    /// Takes out what nobody owns: the object as such, and the metadata that is the server's.
    pub(super) fn leave_out_system(&mut self) {
        const SYSTEM: [&str; 11] = [
            "f:name",
            "f:namespace",
            "f:generateName",
            "f:uid",
            "f:resourceVersion",
            "f:generation",
            "f:creationTimestamp",
            "f:deletionTimestamp",
            "f:deletionGracePeriodSeconds",
            "f:managedFields",
            "f:selfLink",
        ];
        self.member = false;
        self.children.remove("f:apiVersion");
        self.children.remove("f:kind");
        if let Some(metadata) = self.children.get_mut("f:metadata") {
            metadata.member = false;
            metadata.children.retain(|element, _| !SYSTEM.contains(&element.as_str()));
            if metadata.is_empty() {
                self.children.remove("f:metadata");
            }
        }
    }

    /// Has something below the field `name`, be it nothing.
    pub(super) fn with_field(mut self, name: &str) -> Self {
        self.children.entry(format!("f:{name}")).or_default();
        self
    }

    /// Makes the field `name` no member: the parts of every object (`spec`) are there without anyone's doing.
    pub(super) fn unclaim(&mut self, name: &str) {
        let element = format!("f:{name}");
        if let Some(child) = self.children.get_mut(&element) {
            child.member = false;
            if child.is_empty() {
                self.children.remove(&element);
            }
        }
    }

    /// Adds everything that is in `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.member |= other.member;
        for (element, child) in &other.children {
            self.children.entry(element.clone()).or_default().add(child);
        }
    }

    /// Takes out everything that is in `other`.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.member &= !other.member;
        for (element, child) in &other.children {
            if let Some(mine) = self.children.get_mut(element) {
                mine.subtract(child);
                if mine.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    /// The paths that are in both, as messages write them.
    pub(super) fn common_paths(&self, other: &Self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_common(other, &mut String::new(), &mut paths);
        paths
    }

    fn collect_common(&self, other: &Self, path: &mut String, paths: &mut Vec<String>) {
        if self.member && other.member {
            paths.push(path.clone());
        }
        for (element, child) in &self.children {
            if let Some(theirs) = other.children.get(element) {
                let length = path.len();
                path.push_str(&readable(element));
                child.collect_common(theirs, path, paths);
                path.truncate(length);
            }
        }
    }

    /// As `fieldsV1` writes it.
    pub(super) fn to_value(&self) -> Value {
        let mut map = Map::new();
        if self.member && !self.children.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.children {
            map.insert(element.clone(), child.to_value());
        }
        Value::Object(map)
    }

    /// Reads `fieldsV1`.
    pub(super) fn from_value(value: &Value) -> Self {
        let mut set = Self::read(value);
        // An empty map at the top is no field at all.
        set.member = false;
        set
    }

    fn read(value: &Value) -> Self {
        let Some(map) = value.as_object() else { return Self::leaf() };
        let children: BTreeMap<String, Self> = map
            .iter()
            .filter(|(element, _)| element.as_str() != ".")
            .map(|(element, child)| (element.clone(), Self::read(child)))
            .collect();
        Self { member: children.is_empty() || map.contains_key("."), children }
    }
}

impl Difference {
    /// How `after` differs from `before`.
    pub(super) fn between(before: Option<&Value>, after: Option<&Value>, shape: &Shape) -> Self {
        match (before, after) {
            (None, None) => Self::default(),
            (None, Some(after)) => {
                Self { changed: FieldSet::all(after, shape), removed: FieldSet::default() }
            }
            (Some(before), None) => {
                Self { changed: FieldSet::default(), removed: FieldSet::all(before, shape) }
            }
            (Some(before), Some(after)) if before == after => Self::default(),
            (Some(before), Some(after)) => Self::of_values(before, after, shape),
        }
    }

    fn of_values(before: &Value, after: &Value, shape: &Shape) -> Self {
        let mut difference = Self::default();
        if let (Some(old), Some(new)) = (shape.fields_of(before), shape.fields_of(after)) {
            for name in old.keys().chain(new.keys().filter(|name| !old.contains_key(*name))) {
                let below = Self::between(old.get(name), new.get(name), shape.field(name));
                difference.put(format!("f:{name}"), below);
            }
        } else if let (Some(old), Some(new)) = (shape.items_of(before), shape.items_of(after)) {
            let old: BTreeMap<String, &Value> = old.into_iter().collect();
            let new: BTreeMap<String, &Value> = new.into_iter().collect();
            for element in old.keys().chain(new.keys().filter(|element| !old.contains_key(*element))) {
                let (before, after) = (old.get(element).copied(), new.get(element).copied());
                difference.put(element.clone(), Self::between(before, after, shape.item()));
            }
        } else {
            difference.changed = FieldSet::all(after, shape);
            difference.removed = FieldSet::all(before, shape);
            difference.removed.subtract(&difference.changed);
        }
        difference
    }

    fn put(&mut self, element: String, below: Self) {
        self.changed.put(element.clone(), below.changed);
        self.removed.put(element, below.removed);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// An element as messages write it: `.name`, `[port=80,protocol="TCP"]`, `[="value"]`.
fn readable(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", key)) => {
            let key: BTreeMap<String, Value> = serde_json::from_str(key).unwrap_or_default();
            let pairs: Vec<String> = key.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("[{}]", pairs.join(","))
        }
        Some(_) | None => format!("[{element}]"),
    }
}
