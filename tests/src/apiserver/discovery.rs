//! What the server says about itself: its version, the groups and the resources.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::request::Target;
use super::resource::{Resource, Resources};

/// The document at `target`.
pub(super) fn describe(resources: &Resources, target: &Target) -> Result<Value, Refusal> {
    match target {
        Target::Version => Ok(json!({
            "major": "1",
            "minor": "33",
            "gitVersion": "v1.33.0",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "",
            "platform": "linux/amd64",
        })),
        Target::CoreVersions => Ok(json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        })),
        Target::Groups => {
            let groups: Vec<Value> =
                versions(resources).iter().map(|(name, versions)| group(name, versions)).collect();
            Ok(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
        }
        Target::Group(name) => {
            let all = versions(resources);
            let versions = all.get(name).ok_or(Refusal::NoSuchPath)?;
            let mut group = group(name, versions);
            group["kind"] = Value::from("APIGroup");
            group["apiVersion"] = Value::from("v1");
            Ok(group)
        }
        Target::Resources { group, version } => {
            let here: Vec<_> = resources
                .list()
                .into_iter()
                .filter(|resource| resource.group == *group && resource.version == *version)
                .collect();
            let first = here.first().ok_or(Refusal::NoSuchPath)?;
            let list: Vec<Value> = here.iter().flat_map(|resource| describe_resource(resource)).collect();
            Ok(json!({
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": first.api_version(),
                "resources": list,
            }))
        }
        Target::Resource(_) | Target::Health => Err(Refusal::NoSuchPath),
    }
}

/// The versions of each group but the core.
fn versions(resources: &Resources) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for resource in resources.list().into_iter().filter(|resource| !resource.group.is_empty()) {
        let versions = groups.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
    }
    groups
}

fn group(name: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn describe_resource(resource: &Resource) -> Vec<Value> {
    let mut all = vec![json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": resource.short_names,
    })];
    if resource.has_status {
        all.push(json!({
            "name": format!("{}/status", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": ["get", "patch", "update"],
        }));
    }
    all
}
