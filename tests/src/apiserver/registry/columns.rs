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

    /// Returns true if the path leads from field to field, without an index or a condition.
    pub(crate) fn is_plain(&self) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        self.path.starts_with('.') && self.path.chars().all(is_plain)
    }

    fn cell(&self, object: &Value) -> Value {
        let found = object.pointer(&self.path.replace('.', "/")).cloned().unwrap_or_default();
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
