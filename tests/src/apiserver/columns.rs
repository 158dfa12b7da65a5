//! The columns of `kubectl get`, and the tables that are sent for it.

use serde_json::{Value, json};

use super::resource::Resource;
use super::store::Object;
use super::time::age_since;

/// A column that a definition adds.
#[derive(Debug, Clone)]
pub(super) struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
    path: String,
}

impl Column {
    /// Reads one of `additionalPrinterColumns`.
    pub(super) fn parse(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: value.get("priority").and_then(Value::as_i64).unwrap_or_default(),
            path: text("jsonPath"),
        }
    }

    fn cell(&self, object: &Value) -> Value {
        let found = find(object, &self.path);
        match (self.kind.as_str(), found) {
            ("date", Some(Value::String(time))) => Value::from(age_since(&time)),
            (_, Some(value)) => value,
            (_, None) => Value::Null,
        }
    }
}

/// The objects as a `Table`.
pub(super) fn table(resource: &Resource, objects: &[impl AsRef<Object>], metadata: &Value) -> Value {
    let mut columns = vec![json!({
        "name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace.",
    })];
    let age = Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: "When it was created.".to_owned(),
        priority: 0,
        path: ".metadata.creationTimestamp".to_owned(),
    };
    let extra =
        if resource.columns.is_empty() { std::slice::from_ref(&age) } else { resource.columns.as_slice() };
    columns.extend(extra.iter().map(|column| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    }));
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let value = &object.as_ref().value;
            let mut cells = vec![value.pointer("/metadata/name").cloned().unwrap_or_default()];
            cells.extend(extra.iter().map(|column| column.cell(value)));
            json!({
                "cells": cells,
                "object": {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": value.get("metadata").cloned().unwrap_or_default(),
                },
            })
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// What is at a path such as `.status.conditions[?(@.type=="Ready")].status`, `.spec.ports[0].port`,
/// `.metadata.labels.example\.org/zone`; several values are joined with commas.
fn find(object: &Value, path: &str) -> Option<Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = found.into_iter().flat_map(|value| step.follow(value)).collect();
    }
    match found.as_slice() {
        [] => None,
        [one] => Some(display(one)),
        many => {
            let texts: Vec<String> = many
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            Some(Value::from(texts.join(",")))
        }
    }
}

/// A cell holds scalars as they are, and the rest as text.
fn display(value: &Value) -> Value {
    match value {
        Value::Array(_) | Value::Object(_) => Value::from(value.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

enum Step {
    Field(String),
    Index(usize),
    Each,
    Where { field: String, value: String },
}

impl Step {
    fn follow<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(number) => value.get(*number).into_iter().collect(),
            Self::Each => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            },
            Self::Where { field, value: wanted } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().filter(|item| item.get(field).and_then(Value::as_str) == Some(wanted)).collect()
            }
        }
    }
}

fn steps(path: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut field = String::new();
    let mut characters = path.chars();
    let end = |field: &mut String, steps: &mut Vec<Step>| {
        if !field.is_empty() {
            steps.push(Step::Field(std::mem::take(field)));
        }
    };
    while let Some(character) = characters.next() {
        match character {
            '\\' => field.extend(characters.next()),
            '.' => end(&mut field, &mut steps),
            '[' => {
                end(&mut field, &mut steps);
                let inside: String = characters.by_ref().take_while(|&character| character != ']').collect();
                steps.push(bracket(&inside));
            }
            other => field.push(other),
        }
    }
    end(&mut field, &mut steps);
    steps
}

fn bracket(inside: &str) -> Step {
    if inside == "*" {
        return Step::Each;
    }
    if let Ok(number) = inside.parse() {
        return Step::Index(number);
    }
    let condition = inside.strip_prefix("?(@.").and_then(|inside| inside.strip_suffix(')'));
    if let Some((field, value)) = condition.and_then(|condition| condition.split_once("==")) {
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        return Step::Where { field: field.trim().to_owned(), value };
    }
    Step::Field(inside.trim_matches(['"', '\'']).to_owned())
}
