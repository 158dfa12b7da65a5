//! Strategic merge patches, as `kubectl apply` sends them for built-in types.

use serde_json::Value;

/// Lists whose items are merged, with the field that identifies an item. A patch replaces any other
/// list.
const MERGED: [(&str, &str); 5] = [
    ("containers", "name"),
    ("env", "name"),
    ("initContainers", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Applies a patch. Of the directives it obeys `$patch: delete` of an item; an order of items and
/// `$retainKeys` have no effect.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with('$')) {
        match value {
            Value::Null => {
                target.as_object_mut().map(|target| target.remove(name));
            }
            Value::Array(items) => {
                let key = MERGED.iter().find(|(list, _)| list == name).map(|(_, key)| *key);
                merge_items(&mut target[name], items, key);
            }
            Value::Object(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                merge(&mut target[name], value);
            }
        }
    }
}

fn merge_items(target: &mut Value, items: &[Value], key: Option<&str>) {
    let (Some(found), Some(key)) = (target.as_array_mut(), key) else {
        *target = items.to_vec().into();
        return;
    };
    for item in items {
        let place = found.iter().position(|found| found[key] == item[key]);
        match (place, item["$patch"] == "delete") {
            (Some(place), true) => drop(found.remove(place)),
            (None, true) => {}
            (Some(place), false) => merge(&mut found[place], item),
            (None, false) => found.push(item.clone()),
        }
    }
}
