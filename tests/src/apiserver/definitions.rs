//! Custom resources: what a definition says, as resources.

use std::sync::Arc;

use serde_json::{Value, json};

use super::columns::Column;
use super::resource::{Resource, Resources, Rules, with_metadata};
use super::schema::Schema;
use super::store::Object;
use super::time;

/// The plural name of definitions.
pub(super) const PLURAL: &str = "customresourcedefinitions";

/// Notes in a definition that its names are accepted and that it is served.
pub(super) fn establish(definition: &mut Value) {
    let now = time::now();
    let names = definition.pointer("/spec/names").cloned().unwrap_or_default();
    let versions =
        definition.pointer("/spec/versions").and_then(Value::as_array).cloned().unwrap_or_default();
    let stored: Vec<Value> = versions
        .iter()
        .filter(|version| version.get("storage").and_then(Value::as_bool) == Some(true))
        .filter_map(|version| version.get("name").cloned())
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now,
        })
    };
    definition["status"] = json!({
        "acceptedNames": names,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "storedVersions": stored,
    });
}

/// Serves what `definition` defines.
pub(super) fn register(resources: &Resources, definition: &Object) {
    let spec = &definition.value["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
    let known = resources.list().into_iter().find(|known| known.group == group && known.plural == plural);
    let table = known.map_or_else(|| resources.new_table(), |known| Arc::clone(&known.table));
    resources.remove(&group, &plural);

    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for version in versions.iter().filter(|version| version["served"].as_bool() == Some(true)) {
        let schema = Schema::parse(&version["schema"]["openAPIV3Schema"]);
        let kind = text(&spec["names"]["kind"]);
        let strings = |value: &Value| -> Vec<String> {
            let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let columns = version["additionalPrinterColumns"].as_array().map(Vec::as_slice).unwrap_or_default();
        resources.add(Resource {
            group: group.clone(),
            version: text(&version["name"]),
            plural: plural.clone(),
            singular: spec["names"]["singular"].as_str().map_or_else(|| kind.to_lowercase(), str::to_owned),
            short_names: strings(&spec["names"]["shortNames"]),
            list_kind: spec["names"]["listKind"]
                .as_str()
                .map_or_else(|| format!("{kind}List"), str::to_owned),
            kind,
            namespaced: spec["scope"].as_str() == Some("Namespaced"),
            has_status: version["subresources"]["status"].is_object(),
            shape: with_metadata(schema.shape()),
            rules: Rules::Custom(Box::new(schema)),
            columns: columns.iter().map(Column::parse).collect(),
            table: Arc::clone(&table),
        });
    }
}

/// Stops serving what `definition` defined; its objects are gone with it.
pub(super) fn unregister(resources: &Resources, definition: &Object) {
    let spec = &definition.value["spec"];
    if let (Some(group), Some(plural)) = (spec["group"].as_str(), spec["names"]["plural"].as_str()) {
        resources.remove(group, plural);
    }
}
