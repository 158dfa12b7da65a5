//! The kinds of patch: JSON patch, merge patch, and as much of the strategic merge patch as built-in types need.

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::refusal::Refusal;

/// What a client may send as a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// What is accepted for built-in types.
const BUILTIN_TYPES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// What is accepted for custom resources.
const CUSTOM_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

impl PatchKind {
    /// The kind that a `Content-Type` names.
    pub(super) fn of(content_type: &str, custom: bool) -> Result<Self, Refusal> {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        match kind {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Refusal::MediaType { accepted: if custom { CUSTOM_TYPES } else { BUILTIN_TYPES } }),
        }
    }
}

/// `object` with a JSON patch (RFC 6902).
pub(super) fn json(mut object: Value, patch: &Value) -> Result<Value, Refusal> {
    let patch: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(Refusal::UndecodablePatch)?;
    json_patch::patch(&mut object, &patch).map_err(Refusal::JsonPatch)?;
    Ok(object)
}

/// `object` with a merge patch (RFC 7396).
pub(super) fn merge(mut object: Value, patch: &Value) -> Value {
    json_patch::merge(&mut object, patch);
    object
}

/// `object` with a strategic merge patch.
///
/// Maps merge as in a merge patch. These lists merge item by item: `conditions` and `addresses` (by type), `ports`
/// (by port, or containerPort), `containers`, `initContainers`, `volumes` and `env` (by name), `ownerReferences` (by
/// uid) and `finalizers`; all others are replaced. Of the directives, `$patch: delete` and `$patch: replace` are
/// understood, those that only order or repeat what is sent are passed over, and any other is refused.
pub(super) fn strategic(mut object: Value, patch: &Value) -> Result<Value, Refusal> {
    let Some(patch) = patch.as_object() else { return Err(Refusal::NoObject) };
    let Some(map) = object.as_object_mut() else { return Err(Refusal::NoObject) };
    strategic_map(map, patch)?;
    Ok(object)
}

fn strategic_map(map: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Refusal> {
    match patch.get("$patch").and_then(Value::as_str) {
        Some("replace") => {
            *map = patch
                .iter()
                .filter(|(name, _)| *name != "$patch")
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect();
            return Ok(());
        }
        Some("delete") => {
            map.clear();
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => return Err(Refusal::Directive(format!("$patch: {other}"))),
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Some(gone)) = (map.get_mut(list), value.as_array()) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if name.starts_with("$setElementOrder/") || name == "$retainKeys" || name == "$patch" {
            continue;
        }
        if name.starts_with('$') {
            return Err(Refusal::Directive(name.clone()));
        }
        match (map.get_mut(name), value) {
            (_, Value::Null) => {
                map.remove(name);
            }
            (Some(Value::Object(old)), Value::Object(new)) => strategic_map(old, new)?,
            (Some(Value::Array(old)), Value::Array(new)) => strategic_list(name, old, new)?,
            (_, Value::Object(new)) => {
                let mut fresh = Map::new();
                strategic_map(&mut fresh, new)?;
                map.insert(name.clone(), Value::Object(fresh));
            }
            (_, Value::Array(new)) => {
                let mut fresh = Vec::new();
                strategic_list(name, &mut fresh, new)?;
                map.insert(name.clone(), Value::Array(fresh));
            }
            (_, Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                map.insert(name.clone(), value.clone());
            }
        }
    }
    Ok(())
}

fn strategic_list(name: &str, old: &mut Vec<Value>, new: &[Value]) -> Result<(), Refusal> {
    if name == "finalizers" {
        old.extend(new.iter().filter(|item| !old.contains(item)).cloned().collect::<Vec<_>>());
        return Ok(());
    }
    let keys: &[&str] = match name {
        "conditions" | "addresses" => &["type"],
        "ports" => &["containerPort", "port"],
        "containers" | "initContainers" | "volumes" | "env" => &["name"],
        "ownerReferences" => &["uid"],
        _ => &[],
    };
    let key = keys.iter().find(|key| new.iter().all(|item| item.get(**key).is_some()));
    let Some(key) = key else {
        *old = new.to_vec();
        return Ok(());
    };
    for item in new {
        let Some(patch) = item.as_object() else { return Err(Refusal::NoObject) };
        let place = old.iter().position(|old| old.get(*key) == item.get(*key));
        if patch.get("$patch").and_then(Value::as_str) == Some("delete") {
            if let Some(place) = place {
                old.remove(place);
            }
            continue;
        }
        match place.and_then(|place| old.get_mut(place)).and_then(Value::as_object_mut) {
            Some(old) => strategic_map(old, patch)?,
            None => old.push(item.clone()),
        }
    }
    Ok(())
}
