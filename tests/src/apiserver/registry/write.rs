//! Writes: creating, patching, applying and deleting an object.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    definitions,
    owners::{Author, Difference, Fields, OF_SERVER, Owners},
    resource::Resource,
    store::{Key, Object, Outcome},
    time,
};
use crate::apiserver::refusal::{Fault, Named, Refusal};

/// The only field that apply may change.
const APPLIED: [&str; 3] = ["status", "loadBalancer", "ingress"];

/// A write, without its content.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) key: Key,
    pub(crate) author: Author,
}

/// The body of a DELETE.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct DeleteOptions {
    preconditions: Preconditions,
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(rename = "gracePeriodSeconds")]
    _grace_period_seconds: Option<i64>,
    /// A field without effect, since this server has no garbage collector.
    #[serde(rename = "propagationPolicy")]
    _propagation_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Returns the text at `/metadata/NAME`. An empty one counts as absent.
pub(crate) fn metadata_text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata.as_object_mut().expect("invariant: it was made an object")
}

/// Returns true if `object` waits for its finalizers to be removed.
pub(crate) fn is_ending(object: &Value) -> bool {
    metadata_text(object, "deletionTimestamp").is_some()
}

pub(crate) fn finalizers(object: &Value) -> &[Value] {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

impl Write<'_> {
    /// Returns the object in the form of messages.
    pub(crate) fn named(&self) -> Named {
        let Resource { group, plural, .. } = self.resource;
        Named { group: group.clone(), resource: plural.clone(), name: self.key.name.clone() }
    }

    /// Creates an object. If separate requests write its status, the
    /// status is kept only with `keeps_status`.
    pub(crate) fn create(&self, mut value: Value, keeps_status: bool) -> Result<Outcome, Refusal> {
        let now = time::now();
        let metadata = metadata_mut(&mut value);
        for name in OF_SERVER {
            metadata.remove(name);
        }
        metadata.insert("name".to_owned(), self.key.name.clone().into());
        if self.resource.namespaced {
            metadata.insert("namespace".to_owned(), self.key.namespace.clone().into());
        }
        metadata.insert("uid".to_owned(), new_uid().into());
        metadata.insert("creationTimestamp".to_owned(), now.clone().into());
        if self.resource.has_status && !keeps_status {
            remove(&mut value, "status");
        }
        let mut value = self.checked(None, value)?;
        if definitions::is_definition(self.resource) {
            definitions::establish(&mut value);
        }
        let mut owners = Owners::default();
        owners.record(&self.author, None, &Difference::between(&json!({}), &value), &now);
        owners.write(&mut value);
        Ok(Outcome::Put(value))
    }

    /// Applies a patch by `merge`.
    pub(crate) fn merge(
        &self,
        before: &Object,
        patch: &Value,
        merge: fn(&mut Value, &Value),
    ) -> Result<Outcome, Refusal> {
        let mut value = before.value.clone();
        merge(&mut value, patch);
        self.replace(before, value, |owners, difference, now| {
            owners.record(&self.author, None, difference, now);
            Ok(())
        })
    }

    /// Applies `config` on the server's side. By force, it takes fields from other managers.
    pub(crate) fn apply(&self, before: &Object, config: &Value, force: bool) -> Result<Outcome, Refusal> {
        let applied = Fields::of(config);
        let is_status_of_service = self.resource.is_core("services") && self.author.subresource.is_some();
        if !is_status_of_service || !applied.is_at_most(&APPLIED) {
            let what = "server-side apply of anything but status.loadBalancer.ingress of a Service";
            return Err(Refusal::Unserved(what.into()));
        }
        let mut value = before.value.clone();
        json_patch::merge(&mut value, config);
        Owners::of(&before.value).abandoned(&self.author, &applied).remove_from(&mut value);
        self.replace(before, value, |owners, difference, now| {
            let conflicts = owners.conflicts(&self.author, difference);
            if !conflicts.is_empty() && !force {
                return Err(Refusal::Apply(conflicts));
            }
            owners.record(&self.author, Some(applied), difference, now);
            Ok(())
        })
    }

    /// Replaces `before` by `value`, as far as this write may change it.
    fn replace(
        &self,
        before: &Object,
        value: Value,
        own: impl FnOnce(&mut Owners, &Difference, &str) -> Result<(), Refusal>,
    ) -> Result<Outcome, Refusal> {
        let found = before.version.to_string();
        if metadata_text(&value, "resourceVersion").is_some_and(|wanted| wanted != found) {
            return Err(Refusal::Modified(self.named()));
        }
        let before = &before.value;
        let mut value = self.checked(Some(before), self.own_part(before, value))?;
        if is_ending(&value) && finalizers(&value).iter().any(|new| !finalizers(before).contains(new)) {
            let why = "Forbidden: no new finalizers can be added if the object is being deleted";
            return Err(self.invalid(vec![Fault::new("metadata.finalizers", why)]));
        }
        let difference = Difference::between(before, &value);
        let mut owners = Owners::of(before);
        own(&mut owners, &difference, &time::now())?;
        owners.write(&mut value);
        if value == *before {
            return Ok(Outcome::Unchanged);
        }
        let is_over = is_ending(&value) && finalizers(&value).is_empty();
        Ok(if is_over { Outcome::Remove(value) } else { Outcome::Put(value) })
    }

    /// Removes an object, or marks it when it has finalizers.
    pub(crate) fn delete(&self, before: &Object, options: &DeleteOptions) -> Result<Outcome, Refusal> {
        let Preconditions { uid, resource_version } = &options.preconditions;
        let found_uid = metadata_text(&before.value, "uid").unwrap_or_default();
        let found_version = before.version.to_string();
        for (field, wanted, found) in
            [("UID", uid, found_uid), ("ResourceVersion", resource_version, found_version.as_str())]
        {
            if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != found) {
                let values = Box::new([wanted.clone(), found.to_owned()]);
                return Err(Refusal::Precondition { object: self.named(), field, values });
            }
        }
        if finalizers(&before.value).is_empty() {
            return Ok(Outcome::Remove(before.value.clone()));
        }
        if is_ending(&before.value) {
            return Ok(Outcome::Unchanged);
        }
        let mut value = before.value.clone();
        let metadata = metadata_mut(&mut value);
        metadata.insert("deletionTimestamp".to_owned(), time::now().into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
        Ok(Outcome::Put(value))
    }

    /// Returns `after` where this write may change the object, and `before` elsewhere.
    fn own_part(&self, before: &Value, mut after: Value) -> Value {
        let (mut result, status) = if self.author.subresource.as_deref() == Some("status") {
            (before.clone(), Some(after["status"].take()))
        } else {
            (after, self.resource.has_status.then(|| before["status"].clone()))
        };
        match status {
            Some(Value::Null) => remove(&mut result, "status"),
            Some(status) => result["status"] = status,
            None => {}
        }
        let metadata = metadata_mut(&mut result);
        for name in OF_SERVER {
            match before["metadata"].get(name) {
                Some(old) => drop(metadata.insert(name.to_owned(), old.clone())),
                None => drop(metadata.remove(name)),
            }
        }
        result
    }

    /// Returns `value` in its resource's form. Fails if the resource does not allow it.
    fn checked(&self, before: Option<&Value>, mut value: Value) -> Result<Value, Refusal> {
        let metadata = metadata_mut(&mut value);
        // The owners are written last.
        metadata.remove("managedFields");
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        });
        let value = self.resource.normalise(value)?;
        let mut faults = self.resource.faults(before, &value);
        if !is_name(&self.key.name, self.resource) {
            faults.push(Fault::invalid(
                "metadata.name",
                &self.key.name.clone().into(),
                "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                 and must start and end with an alphanumeric character",
            ));
        }
        if definitions::is_definition(self.resource) {
            definitions::check(&value)?;
        }
        if faults.is_empty() { Ok(value) } else { Err(self.invalid(faults)) }
    }

    fn invalid(&self, faults: Vec<Fault>) -> Refusal {
        Refusal::Invalid { object: Named { resource: self.resource.kind.clone(), ..self.named() }, faults }
    }
}

fn is_name(name: &str, resource: &Resource) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_edge)
            && label.ends_with(is_edge)
            && label.chars().all(|c| is_edge(c) || c == '-')
    };
    // The names of roles are path segments, not host names.
    resource.group.starts_with("rbac.") || (name.len() <= 253 && name.split('.').all(is_label))
}

fn remove(object: &mut Value, name: &str) {
    if let Some(map) = object.as_object_mut() {
        map.remove(name);
    }
}

fn new_uid() -> String {
    let bits = fastrand::u128(..);
    // Version 4, variant 1 of RFC 9562.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}
