//! Structural schemas of custom resources: defaults, pruning and validation, and how their values merge.
//!
//! Of the rules in CEL (`x-kubernetes-validations`), those are evaluated that say of the whole object that two of its
//! fields are equal.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::refusal::{Fault, FieldFault};
use super::shape::{ListKey, Shape};

/// What one value must look like.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of the specification")]
pub(super) struct Schema {
    kind: Option<String>,
    int_or_string: bool,
    nullable: bool,
    keeps_unknown: bool,
    embedded: bool,
    properties: BTreeMap<String, Schema>,
    rest: Option<Box<Schema>>,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    default: Option<Value>,
    allowed: Option<Vec<Value>>,
    pattern: Option<Regex>,
    bounds: Bounds,
    list: ListKind,
    whole: bool,
    equalities: Vec<Equality>,
}

/// A rule in CEL: `self.A.B == self.C.D`.
#[derive(Debug)]
struct Equality {
    /// JSON pointers.
    fields: [String; 2],
    message: String,
}

impl Equality {
    fn parse(rule: &Value) -> Option<Self> {
        let text = rule["rule"].as_str()?;
        let (left, right) = text.split_once(" == ")?;
        let field = |path: &str| {
            let names = path.strip_prefix("self.")?;
            let is_plain = names.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
            is_plain.then(|| format!("/{}", names.replace('.', "/")))
        };
        let message = rule["message"].as_str().map_or_else(|| format!("failed rule: {text}"), str::to_owned);
        Some(Self { fields: [field(left)?, field(right)?], message })
    }

    fn holds(&self, object: &Value) -> bool {
        let [left, right] = &self.fields;
        object.pointer(left) == object.pointer(right)
    }
}

#[derive(Debug, Default)]
struct Bounds {
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    min_items: Option<u64>,
    max_items: Option<u64>,
}

#[derive(Debug, Default)]
enum ListKind {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl Schema {
    /// Reads an `openAPIV3Schema`.
    pub(super) fn parse(value: &Value) -> Self {
        let flag = |name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let count = |name: &str| value.get(name).and_then(Value::as_u64);
        let number = |name: &str| value.get(name).and_then(Value::as_f64);
        let list = |name: &str| value.get(name).and_then(Value::as_array).cloned();
        let strings = |name: &str| -> Vec<String> {
            let values = list(name).unwrap_or_default();
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let below = |name: &str| {
            let value = value.get(name).filter(|value| value.is_object())?;
            Some(Box::new(Self::parse(value)))
        };
        let properties = value.get("properties").and_then(Value::as_object);
        Self {
            kind: text("type").map(str::to_owned),
            int_or_string: flag("x-kubernetes-int-or-string"),
            nullable: flag("nullable"),
            keeps_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            properties: properties
                .map(|fields| fields.iter().map(|(name, value)| (name.clone(), Self::parse(value))).collect())
                .unwrap_or_default(),
            rest: below("additionalProperties"),
            items: below("items"),
            required: strings("required"),
            default: value.get("default").cloned(),
            allowed: list("enum"),
            pattern: text("pattern").and_then(|pattern| Regex::new(pattern).ok()),
            bounds: Bounds {
                minimum: number("minimum"),
                maximum: number("maximum"),
                min_length: count("minLength"),
                max_length: count("maxLength"),
                min_items: count("minItems"),
                max_items: count("maxItems"),
            },
            list: match text("x-kubernetes-list-type") {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(strings("x-kubernetes-list-map-keys")),
                Some(_) | None => ListKind::Atomic,
            },
            whole: text("x-kubernetes-map-type") == Some("atomic"),
            equalities: list("x-kubernetes-validations")
                .unwrap_or_default()
                .iter()
                .filter_map(Equality::parse)
                .collect(),
        }
    }

    /// How values of this schema merge.
    pub(super) fn shape(&self) -> Shape {
        match self.kind.as_deref() {
            Some("object") if self.whole => Shape::Whole,
            Some("object") => match &self.rest {
                Some(item) => Shape::Map(Box::new(item.shape())),
                None if self.properties.is_empty() => Shape::Open,
                None => Shape::Struct(
                    self.properties.iter().map(|(name, field)| (name.clone(), field.shape())).collect(),
                ),
            },
            Some("array") => match (&self.list, &self.items) {
                (ListKind::Set, _) => Shape::Set,
                (ListKind::Map(keys), Some(items)) => Shape::ListMap {
                    keys: keys
                        .iter()
                        .map(|name| ListKey {
                            name: name.clone(),
                            default: items.properties.get(name).and_then(|field| field.default.clone()),
                        })
                        .collect(),
                    item: Box::new(items.shape()),
                },
                (ListKind::Map(_), None) | (ListKind::Atomic, _) => Shape::Whole,
            },
            Some(_) => Shape::Whole,
            None => Shape::Open,
        }
    }

    /// Fills in what the schema has defaults for.
    pub(super) fn fill_in(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, field) in &self.properties {
                    if let Some(default) = &field.default
                        && map.get(name).is_none_or(|value| value.is_null() && !field.nullable)
                    {
                        map.insert(name.clone(), default.clone());
                    }
                    if let Some(value) = map.get_mut(name) {
                        field.fill_in(value);
                    }
                }
                if let Some(rest) = &self.rest {
                    for (_, value) in map.iter_mut().filter(|(name, _)| !self.properties.contains_key(*name))
                    {
                        rest.fill_in(value);
                    }
                }
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.fill_in(item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Removes the fields that the schema does not know, and notes their paths. The top is a whole object.
    pub(super) fn prune(&self, object: &mut Value, unknown: &mut Vec<String>) {
        let Some(map) = object.as_object_mut() else { return };
        let keeps = self.keeps_unknown;
        map.retain(|name, value| match name.as_str() {
            "apiVersion" | "kind" | "metadata" => true,
            _ => self.prune_field(name, value, "", keeps, unknown),
        });
    }

    fn prune_field(
        &self,
        name: &str,
        value: &mut Value,
        path: &str,
        keeps: bool,
        unknown: &mut Vec<String>,
    ) -> bool {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if let Some(schema) = self.properties.get(name).or(self.rest.as_deref()) {
            schema.prune_value(value, &path, unknown);
            return true;
        }
        if !keeps {
            unknown.push(path);
        }
        keeps
    }

    fn prune_value(&self, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let embedded = self.embedded;
                map.retain(|name, value| {
                    (embedded && ["apiVersion", "kind", "metadata"].contains(&name.as_str()))
                        || self.prune_field(name, value, path, self.keeps_unknown, unknown)
                });
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (number, item) in items.iter_mut().enumerate() {
                        schema.prune_value(item, &format!("{path}[{number}]"), unknown);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Removes nulls where the schema does not allow them; the rest is for [`Self::check`].
    pub(super) fn drop_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|name, value| {
                    let field = self.properties.get(name).or(self.rest.as_deref());
                    if let Some(field) = field {
                        field.drop_nulls(value);
                    }
                    !value.is_null() || field.is_none_or(|field| field.nullable)
                });
            }
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for item in items {
                        schema.drop_nulls(item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// What is wrong with an object.
    pub(super) fn faults(&self, object: &Value) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        self.check(object, "", &mut faults);
        for broken in self.equalities.iter().filter(|rule| !rule.holds(object)) {
            // That is where a real one finds a fault of the whole object.
            let path = "<nil>".to_owned();
            faults.push(FieldFault { path, fault: Fault::RuleBroken(broken.message.clone()) });
        }
        faults
    }

    /// Notes what is wrong with `value`, which is at `path`.
    pub(super) fn check(&self, value: &Value, path: &str, faults: &mut Vec<FieldFault>) {
        let mut note = |fault| faults.push(FieldFault { path: path.to_owned(), fault });
        if value.is_null() && (self.nullable || path.is_empty()) {
            return;
        }
        if !self.is_of_type(value) {
            let expected = self.kind.clone().unwrap_or_else(|| "integer or string".to_owned());
            note(Fault::WrongType { value: value.clone(), expected });
            return;
        }
        if let Some(allowed) = &self.allowed
            && !allowed.contains(value)
        {
            note(Fault::Unsupported { value: value.clone(), supported: allowed.clone() });
        }
        if let (Some(pattern), Some(text)) = (&self.pattern, value.as_str())
            && !pattern.is_match(text)
        {
            note(Fault::Unmatched { value: text.to_owned(), pattern: pattern.as_str().to_owned() });
        }
        if let Some((bound, limit)) = self.bounds.broken_by(value) {
            note(Fault::OutOfBounds { value: value.clone(), bound, limit });
        }
        match value {
            Value::Object(map) => self.check_fields(map, path, faults),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    for (number, item) in items.iter().enumerate() {
                        schema.check(item, &format!("{path}[{number}]"), faults);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_fields(&self, map: &Map<String, Value>, path: &str, faults: &mut Vec<FieldFault>) {
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            faults.push(FieldFault { path: join(name), fault: Fault::Required });
        }
        for (name, value) in map {
            if let Some(field) = self.properties.get(name).or(self.rest.as_deref()) {
                field.check(value, &join(name), faults);
            }
        }
    }

    fn is_of_type(&self, value: &Value) -> bool {
        if self.int_or_string {
            return value.is_string() || value.is_i64() || value.is_u64();
        }
        match self.kind.as_deref() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("boolean") => value.is_boolean(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some(_) | None => true,
        }
    }
}

impl Bounds {
    /// The bound that `value` is beyond.
    fn broken_by(&self, value: &Value) -> Option<(&'static str, f64)> {
        #[expect(clippy::cast_precision_loss, reason = "lengths in tests are small")]
        let size = |limit: Option<u64>| limit.map(|limit| limit as f64);
        let (size_of, low, high) = match value {
            Value::Number(number) => (number.as_f64()?, self.minimum, self.maximum),
            Value::String(text) => {
                (count(text.chars().count()), size(self.min_length), size(self.max_length))
            }
            Value::Array(items) => (count(items.len()), size(self.min_items), size(self.max_items)),
            Value::Null | Value::Bool(_) | Value::Object(_) => return None,
        };
        let below = low.filter(|low| size_of < *low).map(|low| ("greater than or equal to", low));
        below.or_else(|| high.filter(|high| size_of > *high).map(|high| ("less than or equal to", high)))
    }
}

#[expect(clippy::cast_precision_loss, reason = "lengths in tests are small")]
const fn count(number: usize) -> f64 {
    number as f64
}
