//! Definitions of custom resources: reading them, and setting their status.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    columns::Column,
    resource::{Resource, Rules},
    schema::Schema,
    store::Table,
    time,
};
use crate::apiserver::refusal::Refusal;

/// Returns true if the objects of `resource` are definitions.
pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.plural == "customresourcedefinitions"
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    names: Names,
    scope: String,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    kind: String,
    plural: String,
    #[serde(rename = "shortNames", default)]
    short: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    name: String,
    schema: Validation,
    #[serde(default)]
    additional_printer_columns: Vec<Column>,
    #[serde(default)]
    subresources: Value,
}

#[derive(Deserialize)]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    schema: Schema,
}

fn has_status(version: &Version) -> bool {
    version.subresources == json!({"status": {}})
}

fn read(definition: &Value) -> Result<(Spec, Version), Refusal> {
    let mut spec = Spec::deserialize(&definition["spec"])
        .map_err(|error| Refusal::Unserved(format!("this definition: {error}").into()))?;
    let version = spec.versions.pop();
    match version {
        Some(version)
            if spec.versions.is_empty()
                && (version.subresources.is_null() || has_status(&version))
                && version.additional_printer_columns.iter().all(Column::is_served) =>
        {
            Ok((spec, version))
        }
        Some(_) | None => Err(Refusal::Unserved(
            "a definition of several versions, with a subresource scale, or with columns that are neither plain \
             fields nor those of one selected entry"
                .into(),
        )),
    }
}

/// Fails if the server cannot serve the resource of `definition`.
pub(crate) fn check(definition: &Value) -> Result<(), Refusal> {
    read(definition).map(drop)
}

/// Returns the group and the plural that `definition` names.
pub(crate) fn name(definition: &Value) -> (&str, &str) {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    (text("/spec/group"), text("/spec/names/plural"))
}

pub(crate) fn resource(definition: &Value, table: Arc<Table>) -> Result<Resource, Refusal> {
    let (Spec { group, names, scope, .. }, version) = read(definition)?;
    let has_status = has_status(&version);
    Ok(Resource {
        group,
        version: version.name,
        plural: names.plural,
        kind: names.kind,
        short_names: names.short,
        namespaced: scope == "Namespaced",
        has_status,
        rules: Rules::Custom(Box::new(version.schema.schema)),
        columns: version.additional_printer_columns,
        table,
    })
}

pub(crate) fn establish(definition: &mut Value) {
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": time::now(),
        })
    };
    definition["status"] = json!({
        "acceptedNames": definition["spec"]["names"],
        "conditions": [
            condition("NamesAccepted", "NoConflicts"),
            condition("Established", "InitialNamesAccepted"),
        ],
        "storedVersions": [definition["spec"]["versions"][0]["name"]],
    });
}
