//! Discovery: the groups and resources, in the form for `kubectl`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    refusal::Refusal,
    registry::resource::{Resource, Resources},
};

/// Returns the document at a path: `/api`, `/apis`, `/api/VERSION` or `/apis/GROUP/VERSION`.
pub(super) fn describe(resources: &Resources, path: &[String]) -> Result<Value, Refusal> {
    match path {
        [api] if api == "api" => {
            Ok(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}))
        }
        [_, version] => list(resources, "", version),
        [_, group, version] => list(resources, group, version),
        _ => Ok(groups(resources)),
    }
}

/// Returns all groups but the core group. Each has one version.
fn groups(resources: &Resources) -> Value {
    let all = resources.list();
    let groups: BTreeSet<(&str, &str)> = all
        .iter()
        .filter(|resource| !resource.group.is_empty())
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    let group = |(name, version): (&str, &str)| {
        let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    let groups: Vec<Value> = groups.into_iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn list(resources: &Resources, group: &str, version: &str) -> Result<Value, Refusal> {
    let all = resources.list();
    let here: Vec<&Arc<Resource>> =
        all.iter().filter(|resource| resource.group == group && resource.version == version).collect();
    let first = here.first().ok_or(Refusal::NoSuchPath)?;
    let describe = |resource: &&Arc<Resource>| {
        json!({
            "name": resource.plural,
            "singularName": resource.kind.to_lowercase(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["create", "delete", "get", "list", "patch", "watch"],
            "shortNames": resource.short_names,
        })
    };
    let mut described: Vec<Value> = here.iter().map(describe).collect();
    if here.iter().any(|resource| resource.plural == "deployments") {
        described.push(json!({
            "name": "deployments/scale", "singularName": "", "namespaced": true, "group": "autoscaling",
            "version": "v1", "kind": "Scale", "verbs": ["get", "patch"],
        }));
    }
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": first.api_version(),
        "resources": described,
    }))
}
