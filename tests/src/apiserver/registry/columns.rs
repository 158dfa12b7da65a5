//! The columns and the tables of `kubectl get`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{store::Object, time::age_since};

/// A column beside the name.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Column {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    priority: i64,
    #[serde(rename = "jsonPath")]
    path: String,
}

impl Column {
    /// Returns the columns of a resource whose definition has none.
    pub(crate) fn defaults() -> Vec<Self> {
        vec![Self {
            name: "Age".to_owned(),
            kind: "date".to_owned(),
            priority: 0,
            path: ".metadata.creationTimestamp".to_owned(),
        }]
    }

    /// Returns true if the path leads from field to field, or over the entry of one list that a text
    /// selects: `.status.conditions[?(@.type=="Ready")].status`.
    pub(crate) fn is_served(&self) -> bool {
        let is_plain =
            |path: &str| path.starts_with('.') && path.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        match self.selection() {
            Some((list, key, value, field)) => {
                [list, &format!(".{key}"), field].into_iter().all(is_plain) && !value.contains('"')
            }
            None => is_plain(&self.path),
        }
    }

    /// Returns the path of the list, the key and the text that select an entry, and the path in it.
    fn selection(&self) -> Option<(&str, &str, &str, &str)> {
        let (list, rest) = self.path.split_once("[?(@.")?;
        let (condition, field) = rest.split_once(")]")?;
        let (key, value) = condition.split_once("==\"")?;
        Some((list, key, value.strip_suffix('"')?, field))
    }

    fn found<'a>(&self, object: &'a Value) -> Option<&'a Value> {
        let at = |path: &str| path.replace('.', "/");
        let Some((list, key, value, field)) = self.selection() else {
            return object.pointer(&at(&self.path));
        };
        let entries = object.pointer(&at(list))?.as_array()?;
        entries.iter().find(|entry| entry[key] == value)?.pointer(&at(field))
    }

    fn cell(&self, object: &Value) -> Value {
        let found = self.found(object).cloned().unwrap_or_default();
        match (self.kind.as_str(), &found) {
            ("date", Value::String(time)) => Value::from(age_since(time)),
            _ => found,
        }
    }
}

pub(crate) fn table(columns: &[Column], objects: &[impl AsRef<Object>], metadata: &Value) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0, "description": ""});
    let definition = |column: &Column| {
        let Column { name, kind, priority, .. } = column;
        json!({"name": name, "type": kind, "format": "", "priority": priority, "description": ""})
    };
    let definitions: Vec<Value> = std::iter::once(name).chain(columns.iter().map(definition)).collect();
    let row = |object: &Value| {
        let name = object["metadata"]["name"].clone();
        let cells: Vec<Value> =
            std::iter::once(name).chain(columns.iter().map(|column| column.cell(object))).collect();
        json!({
            "cells": cells,
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": object["metadata"],
            },
        })
    };
    let rows: Vec<Value> = objects.iter().map(|object| row(&object.as_ref().value)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}
