//! Objects from manifests, created by nobody in particular.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::apply::{Author, Operation};
use super::cluster::{Change, Cluster};
use super::refusal::Refusal;
use super::resource::Resource;
use super::store::Key;
use super::write::{Part, metadata_text};

/// The field manager of what is loaded.
const MANAGER: &str = "manifest";

/// Creates or replaces every object of a manifest.
pub(super) fn load(cluster: &Cluster, yaml: &str) -> Result<()> {
    // Of YAML 1.1's many booleans Kubernetes knows two: a node may be called `n`.
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(yaml, options).context("failed to read the manifest")?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        load_object(cluster, document)?;
    }
    Ok(())
}

/// Creates or replaces an object.
pub(super) fn load_object(cluster: &Cluster, object: Value) -> Result<()> {
    let (Some(version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
        bail!("an object of the manifest has no apiVersion or kind: {object}");
    };
    if kind == "List" || object["items"].is_array() {
        let items = object["items"].as_array().cloned().unwrap_or_default();
        return items.into_iter().try_for_each(|item| load_object(cluster, item));
    }
    let resource = cluster
        .resources
        .find_kind(version, kind)
        .with_context(|| format!("the server knows no {kind} in {version}"))?;
    let name = metadata_text(&object, "name").unwrap_or_default().to_owned();
    let context = format!("failed to load the {kind} {name:?}");
    let namespace = match metadata_text(&object, "namespace") {
        _ if !resource.namespaced => "",
        Some(namespace) => namespace,
        None => "default",
    };
    let key = Key { namespace: namespace.to_owned(), name };
    let create = || change(&resource, key.clone(), Part::Whole);
    let whole = match cluster.create(create(), object.clone()) {
        Err(Refusal::Exists(_)) => {
            let mut object = object.clone();
            if let Some(before) = resource.table.get(&key) {
                object["metadata"]["resourceVersion"] = Value::from(before.version.to_string());
            }
            cluster.update(create(), object)
        }
        done => done,
    };
    whole.context(context.clone())?;
    // What a test says of the status is meant.
    if resource.has_status && object.get("status").is_some() {
        let mut object = object;
        if let Some(before) = resource.table.get(&key) {
            object["metadata"]["resourceVersion"] = Value::from(before.version.to_string());
        }
        cluster.update(change(&resource, key, Part::Status), object).context(context)?;
    }
    Ok(())
}

fn change(resource: &Arc<Resource>, key: Key, part: Part) -> Change<'_> {
    Change {
        resource,
        key,
        part,
        author: Author {
            manager: MANAGER.to_owned(),
            operation: Operation::Update,
            api_version: resource.api_version(),
            subresource: match part {
                Part::Whole => None,
                Part::Status => Some("status"),
            },
        },
        strict: false,
        create_refused: None,
    }
}
