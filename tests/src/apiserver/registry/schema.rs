//! The schema of a definition: the fields that it drops, fills in and refuses.
//!
//! It supports the parts of the specification that the definitions of Vipward use. A definition
//! with any other part is refused. Rules in CEL are evaluated about the whole object.

use std::collections::BTreeMap;

use cel::{Context, Program};
use regex::Regex;
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::apiserver::refusal::Fault;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Schema {
    #[serde(rename = "type")]
    kind: Kind,
    nullable: bool,
    properties: BTreeMap<String, Schema>,
    items: Option<Box<Schema>>,
    min_items: usize,
    max_items: Option<usize>,
    /// The schema of the values of a map.
    additional_properties: Option<Box<Schema>>,
    required: Vec<String>,
    default: Option<Value>,
    #[serde(rename = "enum")]
    allowed: Option<Vec<Value>>,
    #[serde(deserialize_with = "pattern")]
    pattern: Option<Regex>,
    minimum: Option<f64>,
    maximum: Option<f64>,
    min_length: usize,
    max_length: Option<usize>,
    #[serde(rename = "x-kubernetes-validations")]
    rules: Vec<Validation>,
    /// A real API server tracks the managers of an atomic map as a whole. No test depends on that.
    #[serde(rename = "x-kubernetes-map-type")]
    _map_type: IgnoredAny,
    #[serde(rename = "title")]
    _title: IgnoredAny,
    #[serde(rename = "description")]
    _description: IgnoredAny,
    #[serde(rename = "format")]
    _format: IgnoredAny,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    #[default]
    Object,
    Array,
    String,
    Boolean,
    Integer,
}

impl Kind {
    fn matches(self, value: &Value) -> bool {
        match self {
            Self::Object => value.is_object(),
            Self::Array => value.is_array(),
            Self::String => value.is_string(),
            Self::Boolean => value.is_boolean(),
            Self::Integer => value.is_i64() || value.is_u64(),
        }
    }
}

/// A rule in CEL about the whole object.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Rule")]
struct Validation {
    program: Program,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    rule: String,
    message: String,
}

impl TryFrom<Rule> for Validation {
    type Error = String;

    fn try_from(Rule { rule, message }: Rule) -> Result<Self, String> {
        let program = Program::compile(&rule).map_err(|error| format!("the rule {rule:?}: {error}"))?;
        Ok(Self { program, message })
    }
}

impl Validation {
    /// Returns true if the object keeps to the rule. A rule that fails is broken.
    fn holds(&self, object: &Value) -> bool {
        let mut context = Context::default();
        context.add_variable("self", object).is_ok()
            && self.program.execute(&context) == Ok(cel::Value::Bool(true))
    }
}

fn pattern<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Regex>, D::Error> {
    let pattern = String::deserialize(deserializer)?;
    Regex::new(&pattern).map(Some).map_err(D::Error::custom)
}

impl Schema {
    /// Makes an object conform: drops fields that the schema lacks and nulls that it does not
    /// allow, and fills in its defaults. `metadata` stays as it is.
    pub(crate) fn conform(&self, object: &mut Value) {
        let Some(map) = object.as_object_mut() else { return };
        let metadata = map.remove("metadata");
        self.conform_fields(map);
        map.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
    }

    fn conform_fields(&self, map: &mut Map<String, Value>) {
        if let Some(schema) = &self.additional_properties {
            map.values_mut().for_each(|value| schema.conform_value(value));
            return;
        }
        map.retain(|name, value| {
            self.properties.get(name).is_some_and(|field| field.nullable || !value.is_null())
        });
        for (name, field) in &self.properties {
            match (map.get_mut(name), &field.default) {
                (Some(value), _) => field.conform_value(value),
                (None, Some(default)) => drop(map.insert(name.clone(), default.clone())),
                (None, None) => {}
            }
        }
    }

    fn conform_value(&self, value: &mut Value) {
        match value {
            Value::Object(map) => self.conform_fields(map),
            Value::Array(values) => {
                if let Some(schema) = &self.items {
                    for value in values {
                        schema.conform_value(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    pub(crate) fn faults(&self, object: &Value) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.check(object, "", &mut faults);
        for Validation { message, .. } in self.rules.iter().filter(|rule| !rule.holds(object)) {
            faults.push(Fault::new("<nil>", format!("Invalid value: \"object\": {message}")));
        }
        faults
    }

    fn check(&self, value: &Value, path: &str, faults: &mut Vec<Fault>) {
        if value.is_null() && self.nullable {
            return;
        }
        if !self.kind.matches(value) {
            let kind = format!("{:?}", self.kind).to_lowercase();
            faults.push(Fault::invalid(path, value, format!("must be of type {kind}")));
            return;
        }
        if let Some(allowed) = &self.allowed
            && !allowed.contains(value)
        {
            let supported: Vec<String> = allowed.iter().map(Value::to_string).collect();
            let supported = supported.join(", ");
            faults
                .push(Fault::new(path, format!("Unsupported value: {value}: supported values: {supported}")));
        }
        if let Some(why) = self.broken_bound(value) {
            faults.push(Fault::invalid(path, value, why));
        }
        match value {
            Value::Object(map) => self.check_fields(map, path, faults),
            Value::Array(values) => {
                let (count, least) = (values.len(), self.min_items);
                if count < least {
                    let why = format!("should have at least {least} items");
                    faults.push(Fault::new(path, format!("Invalid value: {count}: {path} in body {why}")));
                }
                if let Some(most) = self.max_items.filter(|most| count > *most) {
                    faults
                        .push(Fault::new(path, format!("Too many: {count}: must have at most {most} items")));
                }
                for (number, value) in values.iter().enumerate() {
                    if let Some(schema) = &self.items {
                        schema.check(value, &format!("{path}[{number}]"), faults);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_fields(&self, map: &Map<String, Value>, path: &str, faults: &mut Vec<Fault>) {
        let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        for name in self.required.iter().filter(|name| !map.contains_key(*name)) {
            faults.push(Fault::required(join(name)));
        }
        if let Some(schema) = &self.additional_properties {
            map.iter().for_each(|(name, value)| schema.check(value, &join(name), faults));
        }
        for (name, field) in &self.properties {
            if let Some(value) = map.get(name) {
                field.check(value, &join(name), faults);
            }
        }
    }

    /// Returns the bound that a number or a text exceeds.
    fn broken_bound(&self, value: &Value) -> Option<String> {
        let number = value.as_f64();
        if let Some(minimum) = self.minimum.filter(|minimum| number.is_some_and(|number| number < *minimum)) {
            return Some(format!("should be greater than or equal to {minimum}"));
        }
        if let Some(maximum) = self.maximum.filter(|maximum| number.is_some_and(|number| number > *maximum)) {
            return Some(format!("should be less than or equal to {maximum}"));
        }
        let text = value.as_str()?;
        if let Some(pattern) = self.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
            return Some(format!("should match '{pattern}'"));
        }
        let length = text.chars().count();
        if let Some(most) = self.max_length.filter(|most| length > *most) {
            return Some(format!("may not be more than {most} bytes"));
        }
        (length < self.min_length).then(|| format!("should be at least {} chars long", self.min_length))
    }
}
