//! What becomes of an object that is written: its metadata, its validation, its owners and its end.

use serde_json::{Map, Value, json};

use super::apply::{Author, Owners, merge, prune};
use super::fields::{Difference, FieldSet};
use super::refusal::{Fault, FieldFault, Named, Refusal};
use super::resource::{Resource, Rules};
use super::store::{Key, Object, Outcome};
use super::{definitions, services, time};

/// Which part of an object a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Status,
}

/// A write, apart from what is written.
#[derive(Debug)]
pub(super) struct Write<'a> {
    pub(super) resource: &'a Resource,
    pub(super) key: &'a Key,
    pub(super) part: Part,
    pub(super) author: &'a Author,
    /// Unknown fields are refused rather than dropped.
    pub(super) strict: bool,
}

/// What a DELETE asks for.
#[derive(Debug, Default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) version: Option<String>,
}

/// The text at `/metadata/NAME`.
pub(super) fn metadata_text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.get("metadata")?.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// Whether `object` is only there until its finalizers are gone.
pub(super) fn is_ending(object: &Value) -> bool {
    metadata_text(object, "deletionTimestamp").is_some()
}

fn finalizers(object: &Value) -> &[Value] {
    object.pointer("/metadata/finalizers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn metadata_mut(object: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let map = object.as_object_mut().ok_or(Refusal::NoObject)?;
    map.entry("metadata").or_insert_with(|| json!({})).as_object_mut().ok_or(Refusal::NoObject)
}

impl Write<'_> {
    fn named(&self) -> Named {
        Named { resource: self.resource.group_resource(), name: self.key.name.clone() }
    }

    fn invalid(&self, faults: Vec<FieldFault>) -> Refusal {
        Refusal::Invalid { object: self.resource.group_kind(), name: self.key.name.clone(), faults }
    }

    fn fault(&self, path: &str, fault: Fault) -> Refusal {
        self.invalid(vec![FieldFault { path: path.to_owned(), fault }])
    }

    /// A new object.
    pub(super) fn create(&self, value: Value) -> Result<Outcome, Refusal> {
        self.create_owned(value, |owners, difference, now| {
            owners.record(self.author, difference, now);
        })
    }

    fn create_owned(
        &self,
        mut value: Value,
        own: impl FnOnce(&mut Owners, &Difference, &str),
    ) -> Result<Outcome, Refusal> {
        let now = time::now();
        let metadata = metadata_mut(&mut value)?;
        for system in [
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
            "selfLink",
        ] {
            metadata.remove(system);
        }
        metadata.retain(|_, value| !value.is_null());
        metadata.insert("name".to_owned(), Value::from(self.key.name.clone()));
        if self.resource.namespaced {
            metadata.insert("namespace".to_owned(), Value::from(self.key.namespace.clone()));
        } else {
            metadata.remove("namespace");
        }
        metadata.insert("uid".to_owned(), Value::from(new_uid()));
        metadata.insert("creationTimestamp".to_owned(), Value::from(now.clone()));
        metadata.remove("generation");
        if self.counts_generations() {
            metadata.insert("generation".to_owned(), Value::from(1));
        }
        self.check_name()?;
        let keeps_status = match &self.resource.rules {
            Rules::Builtin(builtin) => builtin.status_at_creation,
            Rules::Custom(_) => false,
        };
        if self.resource.has_status
            && !keeps_status
            && let Some(map) = value.as_object_mut()
        {
            map.remove("status");
        }
        let mut value = self.normalise(value)?;
        self.check(None, &value)?;
        if self.is_core("namespaces") {
            value["spec"] = json!({"finalizers": ["kubernetes"]});
            value["status"] = json!({"phase": "Active"});
        }
        if self.resource.plural == definitions::PLURAL {
            definitions::establish(&mut value);
        }
        let difference = self.difference(&json!({}), &value);
        let mut owners = Owners::default();
        own(&mut owners, &difference, &now);
        owners.write(&mut value);
        Ok(Outcome::Put(value))
    }

    /// A PUT of `value` over `before`.
    pub(super) fn update(&self, before: &Object, value: Value) -> Result<Outcome, Refusal> {
        let unconditional = match &self.resource.rules {
            Rules::Builtin(builtin) => builtin.unconditional,
            Rules::Custom(_) => false,
        };
        if metadata_text(&value, "resourceVersion").is_none() && !unconditional {
            return Err(self.fault("metadata.resourceVersion", Fault::Version));
        }
        self.replace(before, value)
    }

    /// `value`, made from `before`, in its place.
    pub(super) fn replace(&self, before: &Object, value: Value) -> Result<Outcome, Refusal> {
        self.replace_owned(before, value, |owners, difference, now| {
            owners.record(self.author, difference, now);
            Ok(())
        })
    }

    fn replace_owned(
        &self,
        before: &Object,
        mut value: Value,
        own: impl FnOnce(&mut Owners, &Difference, &str) -> Result<(), Refusal>,
    ) -> Result<Outcome, Refusal> {
        self.check_preconditions(
            before,
            &Preconditions { uid: metadata_text(&value, "uid").map(str::to_owned), version: None },
        )?;
        let found = before.version.to_string();
        if metadata_text(&value, "resourceVersion").is_some_and(|wanted| wanted != found) {
            return Err(Refusal::Modified(self.named()));
        }
        let forgets_owners = metadata_mut(&mut value)?.get("managedFields") == Some(&json!([{}]));
        let value = self.only_my_part(&before.value, value)?;
        let mut value = self.normalise(value)?;
        self.check(Some(&before.value), &value)?;
        if is_ending(&value) && finalizers(&value).iter().any(|new| !finalizers(&before.value).contains(new))
        {
            let why = "no new finalizers can be added if the object is being deleted";
            return Err(self.fault("metadata.finalizers", Fault::Forbidden(why)));
        }
        self.count_generation(&before.value, &mut value);
        let difference = self.difference(&before.value, &value);
        let mut owners = if forgets_owners { Owners::default() } else { Owners::of(&before.value) };
        own(&mut owners, &difference, &time::now())?;
        owners.write(&mut value);
        if value == before.value {
            return Ok(Outcome::Unchanged);
        }
        if is_ending(&value) && finalizers(&value).is_empty() && !self.is_core("namespaces") {
            return Ok(Outcome::Remove(value));
        }
        Ok(Outcome::Put(value))
    }

    /// Server-side apply of `config`, which has no `apiVersion` and `kind`.
    pub(super) fn apply(
        &self,
        before: Option<&Object>,
        mut config: Value,
        force: bool,
    ) -> Result<Outcome, Refusal> {
        drop_nulls(&mut config);
        if let Some(map) = config.as_object_mut() {
            match self.part {
                Part::Whole if self.resource.has_status => {
                    map.remove("status");
                }
                Part::Whole => {}
                Part::Status => {
                    let keeps_metadata = matches!(self.resource.rules, Rules::Builtin(_));
                    map.retain(|name, _| name == "status" || (name == "metadata" && keeps_metadata));
                }
            }
        }
        let shape = &self.resource.shape;
        let mut fields = FieldSet::applied(&config, shape);
        fields.leave_out_system();
        let Some(before) = before else {
            return self.create_owned(config, |owners, difference, now| {
                owners.record_applied(self.author, fields, difference, now);
            });
        };
        let owners = Owners::of(&before.value);
        let mut value = merge(before.value.clone(), &config, shape);
        let mut owned = owners.fields_of_others(self.author).with_field("metadata");
        owned.add(&fields);
        prune(&mut value, &owners.fields_of(self.author), &owned, shape);
        self.replace_owned(before, value, |owners, difference, now| {
            let conflicts = owners.conflicts(self.author, &difference.changed);
            if !conflicts.is_empty() && !force {
                return Err(Refusal::Apply(conflicts));
            }
            owners.record_applied(self.author, fields, difference, now);
            Ok(())
        })
    }

    /// The end of `before`, or its beginning.
    pub(super) fn delete(&self, before: &Object, preconditions: &Preconditions) -> Result<Outcome, Refusal> {
        self.check_preconditions(before, preconditions)?;
        let is_namespace = self.is_core("namespaces");
        if finalizers(&before.value).is_empty() && !is_namespace {
            return Ok(Outcome::Remove(before.value.clone()));
        }
        if is_ending(&before.value) {
            return Ok(Outcome::Unchanged);
        }
        let mut value = before.value.clone();
        let metadata = metadata_mut(&mut value)?;
        metadata.insert("deletionTimestamp".to_owned(), Value::from(time::now()));
        metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(0));
        if let Some(generation) = metadata.get("generation").and_then(Value::as_i64) {
            metadata.insert("generation".to_owned(), Value::from(generation + 1));
        }
        if is_namespace {
            value["status"] = json!({"phase": "Terminating"});
        }
        Ok(Outcome::Put(value))
    }

    fn check_preconditions(&self, before: &Object, preconditions: &Preconditions) -> Result<(), Refusal> {
        let uid = metadata_text(&before.value, "uid").unwrap_or_default();
        if let Some(wanted) = &preconditions.uid
            && wanted != uid
        {
            let (wanted, found) = (wanted.clone(), uid.to_owned());
            return Err(Refusal::OtherUid { object: self.named(), wanted, found });
        }
        let version = before.version.to_string();
        if let Some(wanted) = &preconditions.version
            && *wanted != version
        {
            return Err(Refusal::OtherVersion {
                object: self.named(),
                wanted: wanted.clone(),
                found: version,
            });
        }
        Ok(())
    }

    fn is_core(&self, plural: &str) -> bool {
        self.resource.group.is_empty() && self.resource.plural == plural
    }

    const fn counts_generations(&self) -> bool {
        match &self.resource.rules {
            Rules::Builtin(builtin) => builtin.counts_generations,
            Rules::Custom(_) => true,
        }
    }

    fn check_name(&self) -> Result<(), Refusal> {
        // The names of roles are paths, not host names.
        if self.resource.group.starts_with("rbac.") {
            return Ok(());
        }
        let name = &self.key.name;
        let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_label = |label: &str| {
            label.starts_with(is_edge)
                && label.ends_with(is_edge)
                && label.chars().all(|c| is_edge(c) || c == '-')
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(self.fault("metadata.name", Fault::BadName { value: name.clone() }));
        }
        Ok(())
    }

    /// `after` where this request may write, `before` elsewhere.
    fn only_my_part(&self, before: &Value, mut after: Value) -> Result<Value, Refusal> {
        const SERVERS: [&str; 9] = [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "managedFields",
        ];
        let status = |value: &Value| value.get("status").cloned();
        let mut result = match self.part {
            Part::Whole => {
                if self.resource.has_status {
                    let map = after.as_object_mut().ok_or(Refusal::NoObject)?;
                    match status(before) {
                        Some(old) => map.insert("status".to_owned(), old),
                        None => map.remove("status"),
                    };
                }
                after
            }
            Part::Status => {
                let mut result = before.clone();
                let map = result.as_object_mut().ok_or(Refusal::NoObject)?;
                match status(&after) {
                    Some(new) => map.insert("status".to_owned(), new),
                    None => map.remove("status"),
                };
                // With the status of a built-in type its labels and annotations can be written.
                if let Rules::Builtin(_) = self.resource.rules {
                    map.insert("metadata".to_owned(), Value::Object(metadata_mut(&mut after)?.clone()));
                }
                result
            }
        };
        let metadata = metadata_mut(&mut result)?;
        metadata.retain(|name, value| !value.is_null() && name != "selfLink");
        for name in SERVERS {
            match before.get("metadata").and_then(|metadata| metadata.get(name)) {
                Some(old) => metadata.insert(name.to_owned(), old.clone()),
                None => metadata.remove(name),
            };
        }
        for list in ["finalizers", "labels", "annotations", "ownerReferences"] {
            if metadata.get(list).is_some_and(is_empty_collection) {
                metadata.remove(list);
            }
        }
        Ok(result)
    }

    /// Whatever reading the object as its type, defaults and validation make of it.
    fn normalise(&self, mut value: Value) -> Result<Value, Refusal> {
        match &self.resource.rules {
            Rules::Builtin(builtin) => {
                // What others own is not in the type's own words (`fieldsV1`), and stays as it is.
                let owners = value.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
                let owners = owners.map(Value::take);
                drop_nulls(&mut value);
                let kind = || self.resource.kind.clone();
                let mut value = (builtin.normalise)(value)
                    .map_err(|source| Refusal::Undecodable { kind: kind(), source })?;
                if let Some(map) = value.as_object_mut() {
                    map.remove("apiVersion");
                    map.remove("kind");
                }
                if let Some(owners) = owners {
                    metadata_mut(&mut value)?.insert("managedFields".to_owned(), owners);
                }
                if self.is_core("services") {
                    services::fill_in(&mut value);
                }
                Ok(value)
            }
            Rules::Custom(schema) => {
                schema.drop_nulls(&mut value);
                let mut unknown = Vec::new();
                schema.prune(&mut value, &mut unknown);
                if self.strict && !unknown.is_empty() {
                    return Err(Refusal::UnknownFields(unknown));
                }
                schema.fill_in(&mut value);
                Ok(value)
            }
        }
    }

    /// Refuses what is of the right form, and still not what the type or the definition demands.
    fn check(&self, before: Option<&Value>, after: &Value) -> Result<(), Refusal> {
        let faults = match &self.resource.rules {
            Rules::Builtin(builtin) => (builtin.check)(before, after),
            Rules::Custom(schema) => schema.faults(after),
        };
        if faults.is_empty() { Ok(()) } else { Err(self.invalid(faults)) }
    }

    fn count_generation(&self, before: &Value, after: &mut Value) {
        if !self.counts_generations() {
            return;
        }
        let counts = |name: &str| match self.resource.rules {
            Rules::Builtin(_) => name == "spec",
            Rules::Custom(_) => name != "metadata" && (name != "status" || !self.resource.has_status),
        };
        let empty = Map::new();
        let fields = |value: &'_ Value| value.as_object().unwrap_or(&empty).clone();
        let (old, new) = (fields(before), fields(after));
        let changed = old.keys().chain(new.keys()).any(|name| counts(name) && old.get(name) != new.get(name));
        if changed {
            let generation =
                before.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
            after["metadata"]["generation"] = Value::from(generation + 1);
        }
    }

    fn difference(&self, before: &Value, after: &Value) -> Difference {
        let mut difference = Difference::between(Some(before), Some(after), &self.resource.shape);
        for set in [&mut difference.changed, &mut difference.removed] {
            set.leave_out_system();
            if let Rules::Builtin(_) = self.resource.rules {
                set.unclaim("spec");
                set.unclaim("status");
            }
        }
        difference
    }
}

fn is_empty_collection(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn new_uid() -> String {
    let bits = fastrand::u128(..);
    // Version 4, variant 1 of RFC 9562.
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// A name that begins with `base`.
pub(super) fn generated_name(base: &str) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let base: String = base.chars().take(58).collect();
    let ending = (0..5).map(|_| char::from(LETTERS[fastrand::usize(..LETTERS.len())]));
    base.chars().chain(ending).collect()
}
