//! The state of the cluster and the writes that change it, with what follows from them: definitions begin and end
//! resources, the end of a namespace ends what is in it.

use std::sync::Arc;

use serde_json::Value;

use super::apply::Author;
use super::definitions;
use super::patch::{self, PatchKind};
use super::refusal::{Named, Refusal};
use super::resource::{Resource, Resources, Rules};
use super::store::{Key, Outcome, Versions, Written};
use super::write::{Part, Preconditions, Write, generated_name, is_ending, metadata_text};

/// All resources and their objects.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) resources: Resources,
}

/// A write of something that is there, or may be there.
#[derive(Debug)]
pub(super) struct Change<'a> {
    pub(super) resource: &'a Resource,
    pub(super) key: Key,
    pub(super) part: Part,
    pub(super) author: Author,
    pub(super) strict: bool,
    /// What is said to whoever may not create, when the write would.
    pub(super) create_refused: Option<Refusal>,
}

impl<'a> Change<'a> {
    fn write<'b>(&'b self) -> Write<'b>
    where
        'a: 'b,
    {
        Write {
            resource: self.resource,
            key: &self.key,
            part: self.part,
            author: &self.author,
            strict: self.strict,
        }
    }

    fn named(&self) -> Named {
        Named { resource: self.resource.group_resource(), name: self.key.name.clone() }
    }

    fn not_found(&self) -> Refusal {
        Refusal::NotFound(self.named())
    }
}

impl Cluster {
    /// A cluster with the namespaces that every cluster has.
    pub(super) fn new(history: usize) -> Self {
        Self { resources: Resources::new(Arc::new(Versions::default()), history) }
    }

    /// Creates an object; the key's name is empty where the object says its own.
    pub(super) fn create(&self, mut change: Change<'_>, value: Value) -> Result<Written, Refusal> {
        let value = take_types(change.resource, value)?;
        check_namespace(change.resource, &change.key, &value)?;
        if let Some(name) = metadata_text(&value, "name") {
            name.clone_into(&mut change.key.name);
            return self.create_named(&change, value);
        }
        let base = metadata_text(&value, "generateName").ok_or(Refusal::Nameless)?.to_owned();
        loop {
            change.key.name = generated_name(&base);
            match self.create_named(&change, value.clone()) {
                Err(Refusal::Exists(_)) => {}
                done => return done,
            }
        }
    }

    fn create_named(&self, change: &Change<'_>, value: Value) -> Result<Written, Refusal> {
        self.check_home(change)?;
        self.commit(change, |before| match before {
            Some(_) => Err(Refusal::Exists(change.named())),
            None => change.write().create(value),
        })
    }

    /// Replaces an object, or creates it where the type allows that.
    pub(super) fn update(&self, mut change: Change<'_>, value: Value) -> Result<Written, Refusal> {
        let value = take_types(change.resource, value)?;
        check_namespace(change.resource, &change.key, &value)?;
        match metadata_text(&value, "name") {
            Some(name) if name == change.key.name => {}
            Some(name) => {
                return Err(Refusal::OtherName { found: name.to_owned(), wanted: change.key.name.clone() });
            }
            None => return Err(Refusal::Nameless),
        }
        let creates = match &change.resource.rules {
            Rules::Builtin(builtin) => builtin.create_on_update && change.part == Part::Whole,
            Rules::Custom(_) => false,
        };
        let home = self.check_home(&change);
        let refused = change.create_refused.take();
        self.commit(&change, |before| match before {
            Some(before) => change.write().update(before, value),
            None if !creates => Err(change.not_found()),
            None => {
                home?;
                if let Some(wanted) = metadata_text(&value, "uid") {
                    let (wanted, found) = (wanted.to_owned(), String::new());
                    return Err(Refusal::OtherUid { object: change.named(), wanted, found });
                }
                refused.map_or(Ok(()), Err)?;
                change.write().create(value)
            }
        })
    }

    /// Patches an object, or creates it by server-side apply.
    pub(super) fn patch(
        &self,
        mut change: Change<'_>,
        kind: PatchKind,
        patch: Value,
        force: bool,
    ) -> Result<Written, Refusal> {
        if kind == PatchKind::Apply {
            let config = take_types(change.resource, patch)?;
            check_namespace(change.resource, &change.key, &config)?;
            let home = self.check_home(&change);
            let refused = change.create_refused.take();
            return self.commit(&change, |before| {
                if before.is_none() {
                    if change.part == Part::Status {
                        return Err(change.not_found());
                    }
                    home?;
                    refused.map_or(Ok(()), Err)?;
                }
                change.write().apply(before.map(AsRef::as_ref), config, force)
            });
        }
        self.commit(&change, |before| {
            let before = before.ok_or_else(|| change.not_found())?;
            // A patch may test and must not change what the object is.
            let mut live = before.value.clone();
            put_types(change.resource, &mut live);
            let patched = match kind {
                PatchKind::Json => patch::json(live, &patch)?,
                PatchKind::Merge => patch::merge(live, &patch),
                PatchKind::Strategic => patch::strategic(live, &patch)?,
                PatchKind::Apply => unreachable!("it was dealt with"),
            };
            let patched = take_types(change.resource, patched)?;
            change.write().replace(before, patched)
        })
    }

    /// Deletes an object, or marks it when it has finalizers.
    pub(super) fn delete(
        &self,
        change: &Change<'_>,
        preconditions: &Preconditions,
    ) -> Result<Written, Refusal> {
        let written = self.commit(change, |before| {
            let before = before.ok_or_else(|| change.not_found())?;
            change.write().delete(before, preconditions)
        })?;
        Ok(written)
    }

    fn commit(
        &self,
        change: &Change<'_>,
        decide: impl FnOnce(Option<&Arc<super::store::Object>>) -> Result<Outcome, Refusal>,
    ) -> Result<Written, Refusal> {
        let written = change.resource.table.change(&change.key, decide)?.ok_or_else(|| change.not_found())?;
        self.follow_up(change, &written);
        Ok(written)
    }

    fn follow_up(&self, change: &Change<'_>, written: &Written) {
        if change.resource.plural == definitions::PLURAL {
            if written.gone {
                definitions::unregister(&self.resources, &written.object);
            } else {
                definitions::register(&self.resources, &written.object);
            }
        }
        if is_core(change.resource, "namespaces") && is_ending(&written.object.value) && !written.gone {
            self.empty_namespace(&change.key.name, &change.author);
        } else if written.gone && change.resource.namespaced {
            self.end_namespace(&change.key.namespace);
        }
    }

    /// Deletes what is in a namespace that is ending.
    fn empty_namespace(&self, namespace: &str, author: &Author) {
        for resource in self.resources.list().into_iter().filter(|resource| resource.namespaced) {
            for object in resource.table.all(Some(namespace)) {
                let Some(name) = metadata_text(&object.value, "name") else { continue };
                let change = Change {
                    resource: &resource,
                    key: Key { namespace: namespace.to_owned(), name: name.to_owned() },
                    part: Part::Whole,
                    author: author.clone(),
                    strict: false,
                    create_refused: None,
                };
                // Whoever else deleted it meanwhile did what was wanted.
                drop(self.delete(&change, &Preconditions::default()));
            }
        }
        self.end_namespace(namespace);
    }

    /// Removes a namespace that is ending when nothing is left in it.
    fn end_namespace(&self, namespace: &str) {
        let Some(namespaces) = self.resources.find("", "v1", "namespaces") else { return };
        let key = Key { namespace: String::new(), name: namespace.to_owned() };
        if !namespaces.table.get(&key).is_some_and(|object| is_ending(&object.value)) {
            return;
        }
        let mut inside = self.resources.list().into_iter().filter(|resource| resource.namespaced);
        if inside.any(|resource| !resource.table.all(Some(namespace)).is_empty()) {
            return;
        }
        let removed = namespaces.table.change(&key, |before| {
            Ok(before.map_or(Outcome::Unchanged, |before| Outcome::Remove(before.value.clone())))
        });
        debug_assert!(removed.is_ok(), "removing refuses nothing");
    }

    /// Fails when the namespace of a new object is not there, or is ending.
    fn check_home(&self, change: &Change<'_>) -> Result<(), Refusal> {
        if !change.resource.namespaced {
            return Ok(());
        }
        let name = change.key.namespace.clone();
        let Some(namespaces) = self.resources.find("", "v1", "namespaces") else { return Ok(()) };
        match namespaces.table.get(&Key { namespace: String::new(), name: name.clone() }) {
            Some(namespace) if is_ending(&namespace.value) => {
                Err(Refusal::Terminating { object: change.named(), namespace: name })
            }
            Some(_) => Ok(()),
            None => Err(Refusal::NotFound(Named { resource: namespaces.group_resource(), name })),
        }
    }
}

fn is_core(resource: &Resource, plural: &str) -> bool {
    resource.group.is_empty() && resource.plural == plural
}

fn put_types(resource: &Resource, value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".to_owned(), Value::from(resource.api_version()));
        map.insert("kind".to_owned(), Value::from(resource.kind.clone()));
    }
}

/// `value` without `apiVersion` and `kind`, which must be those of `resource` where they are given.
fn take_types(resource: &Resource, mut value: Value) -> Result<Value, Refusal> {
    let map = value.as_object_mut().ok_or(Refusal::NoObject)?;
    let mut take = |name: &str| map.remove(name).and_then(|value| value.as_str().map(str::to_owned));
    let (version, kind) = (resource.api_version(), resource.kind.clone());
    let found_version = take("apiVersion").unwrap_or_else(|| version.clone());
    let found_kind = take("kind").unwrap_or_else(|| kind.clone());
    if found_version != version || found_kind != kind {
        return Err(Refusal::OtherKind { kind, version, found_kind, found_version });
    }
    Ok(value)
}

fn check_namespace(resource: &Resource, key: &Key, value: &Value) -> Result<(), Refusal> {
    match metadata_text(value, "namespace") {
        Some(namespace) if resource.namespaced && namespace != key.namespace => Err(Refusal::OtherNamespace),
        Some(_) | None => Ok(()),
    }
}
