//! The store: the objects of each resource, and their latest changes.
//!
//! Every version of an object is kept once, with its text, and shared by
//! answers, watches and the history. A table is locked while it changes or
//! references are copied out of it, never while data is sent.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use crate::apiserver::refusal::Refusal;

/// The place of an object; the namespace is empty for cluster-scoped ones. The order is the order of
/// lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A version of an object.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) version: u64,
    /// The object without `apiVersion` and `kind`, which the items of a list lack.
    pub(crate) value: Value,
    /// `value` as text, without the opening brace.
    pub(crate) rest: Bytes,
}

impl Object {
    fn new(mut value: Value, version: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::from(version.to_string()));
        }
        let rest = Bytes::from(value.to_string()).slice(1..);
        Self { version, value, rest }
    }
}

#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Object>>,
    /// The object after the change, or its last state if it is gone.
    pub(crate) now: Arc<Object>,
    pub(crate) gone: bool,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Unchanged,
    Put(Value),
    Remove(Value),
}

#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) object: Arc<Object>,
    pub(crate) gone: bool,
}

/// Objects at one version, in order.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) version: u64,
    pub(crate) objects: Vec<Arc<Object>>,
    /// The first object of the next page.
    pub(crate) next: Option<Key>,
}

/// The objects of a list.
#[derive(Debug, Default)]
pub(crate) struct Range<'a> {
    /// The namespace; `None`: all namespaces.
    pub(crate) namespace: Option<&'a str>,
    /// The name; `None`: all names.
    pub(crate) name: Option<&'a str>,
    /// The first object; `None`: from the beginning.
    pub(crate) from: Option<&'a Key>,
    /// The largest number of objects; 0: all.
    pub(crate) limit: usize,
}

/// The counter that all tables share.
#[derive(Debug, Default)]
pub(crate) struct Versions(AtomicU64);

impl Versions {
    /// Returns the version of the last write.
    pub(crate) fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Sets the version of the last write.
    pub(crate) fn set(&self, version: u64) {
        self.0.store(version, Ordering::Release);
    }
}

/// All objects of one resource.
pub(crate) type Objects = BTreeMap<Key, Arc<Object>>;

/// The objects of one resource, and their latest changes.
#[derive(Debug)]
pub(crate) struct Table {
    versions: Arc<Versions>,
    content: RwLock<Content>,
    written: watch::Sender<u64>,
    history: usize,
}

#[derive(Debug, Default)]
struct Content {
    objects: Objects,
    changes: VecDeque<Arc<Change>>,
    /// The version up to which changes may be forgotten: no watch and no page may begin before it.
    compacted: u64,
    /// The version of the last forgotten change: a watch that has seen it misses nothing.
    forgotten: u64,
}

impl Content {
    /// Fails if `version` is forgotten.
    fn check(&self, version: u64) -> Result<(), Refusal> {
        if version < self.compacted {
            return Err(Refusal::VersionExpired { wanted: version, oldest: self.compacted });
        }
        Ok(())
    }

    /// Returns the objects at `version`. Fails if that is forgotten.
    fn at(&self, version: u64) -> Result<Cow<'_, Objects>, Refusal> {
        self.check(version)?;
        let mut objects = Cow::Borrowed(&self.objects);
        let first = self.changes.partition_point(|change| change.version <= version);
        for change in self.changes.range(first..).rev() {
            match &change.before {
                Some(before) => objects.to_mut().insert(change.key.clone(), Arc::clone(before)),
                None => objects.to_mut().remove(&change.key),
            };
        }
        Ok(objects)
    }
}

impl Table {
    /// Makes an empty table that remembers `history` changes.
    pub(crate) fn new(versions: Arc<Versions>, history: usize) -> Self {
        Self { versions, content: RwLock::default(), written: watch::Sender::new(0), history }
    }

    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a receiver that changes with every write.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns all objects, or those of one namespace.
    pub(crate) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let content = self.read();
        let inside = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        content.objects.iter().filter(|(key, _)| inside(key)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Reads the object at `key` and carries out the decision of `decide`, as one step. Returns
    /// `None` if there is no object before or after.
    pub(crate) fn change(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Arc<Object>>) -> Result<Outcome, Refusal>,
    ) -> Result<Option<Written>, Refusal> {
        let mut content = self.write();
        let before = content.objects.get(key).cloned();
        let (value, gone) = match decide(before.as_ref())? {
            Outcome::Unchanged => return Ok(before.map(|object| Written { object, gone: false })),
            Outcome::Put(value) => (value, false),
            Outcome::Remove(value) => (value, true),
        };
        let version = self.versions.next();
        let now = Arc::new(Object::new(value, version));
        if gone {
            content.objects.remove(key);
        } else {
            content.objects.insert(key.clone(), Arc::clone(&now));
        }
        let change = Change { version, key: key.clone(), before, now: Arc::clone(&now), gone };
        content.changes.push_back(Arc::new(change));
        if content.changes.len() > self.history
            && let Some(oldest) = content.changes.pop_front()
        {
            content.compacted = content.compacted.max(oldest.version);
            content.forgotten = oldest.version;
        }
        drop(content);
        self.written.send_replace(version);
        Ok(Some(Written { object: now, gone }))
    }

    /// Forgets all changes until now.
    pub(crate) fn compact(&self) {
        let mut content = self.write();
        if let Some(last) = content.changes.back() {
            content.forgotten = last.version;
        }
        content.changes.clear();
        content.compacted = self.versions.current();
    }

    /// Returns the objects at `version`. Fails if that is forgotten.
    pub(crate) fn at(&self, version: u64) -> Result<Objects, Refusal> {
        self.read().at(version).map(Cow::into_owned)
    }

    /// Replaces all objects by those of `version`, and forgets the changes before and since.
    pub(crate) fn restore(&self, objects: Objects, version: u64) {
        *self.write() = Content { objects, changes: VecDeque::new(), compacted: version, forgotten: version };
        self.written.send_replace(version);
    }

    /// Fails if a watch cannot begin after `version`.
    pub(crate) fn check_start(&self, version: u64) -> Result<(), Refusal> {
        self.read().check(version)
    }

    /// Returns up to `limit` changes after `version`, and the
    /// version up to which they are complete.
    pub(crate) fn changes_after(
        &self,
        version: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Change>>, u64), Refusal> {
        let content = self.read();
        if version < content.forgotten {
            return Err(Refusal::VersionExpired { wanted: version, oldest: content.compacted });
        }
        let first = content.changes.partition_point(|change| change.version <= version);
        let changes: Vec<Arc<Change>> = content.changes.range(first..).take(limit).cloned().collect();
        let until = match changes.last() {
            Some(last) if changes.len() == limit => last.version,
            // A watch ahead of the versions stays there: the store went back.
            Some(_) | None => self.versions.current().max(version),
        };
        Ok((changes, until))
    }

    /// Returns the version up to which every change is in the table.
    pub(crate) fn version(&self) -> u64 {
        // Under the lock, every change of this table with a version is in the table.
        let _content = self.read();
        self.versions.current()
    }

    /// Returns the objects of `range` at `version`; `None`: now.
    pub(crate) fn list(&self, version: Option<u64>, range: &Range<'_>) -> Result<Page, Refusal> {
        let content = self.read();
        let current = self.versions.current();
        let version = version.unwrap_or(current);
        if version > current {
            return Err(Refusal::VersionAhead { wanted: version, current });
        }
        let objects = content.at(version)?;
        let start = range.from.cloned().unwrap_or_else(|| Key {
            namespace: range.namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        });
        let mut selected = objects
            .range(start..)
            .take_while(|(key, _)| range.namespace.is_none_or(|namespace| key.namespace == namespace))
            .filter(|(key, _)| range.name.is_none_or(|name| key.name == name));
        let limit = if range.limit == 0 { usize::MAX } else { range.limit };
        let page = selected.by_ref().take(limit).map(|(_, object)| Arc::clone(object)).collect();
        let next = selected.next().map(|(key, _)| key.clone());
        Ok(Page { version, objects: page, next })
    }
}
