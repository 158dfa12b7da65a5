//! What the server remembers: the objects of each resource, and what happened to them lately.
//!
//! Every object version is kept once, with its text, and shared by the answers, the watches and the history. The
//! lock of a table is held to change it or to copy references out of it, never while something is sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::refusal::Refusal;

/// Where an object is; the namespace is empty for cluster-scoped ones. The order is that of lists.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// One version of an object.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) version: u64,
    /// Without `apiVersion` and `kind`, which depend on how it is asked for.
    pub(super) value: Value,
    /// `value` as text, without the opening brace.
    pub(super) rest: Bytes,
}

impl Object {
    /// `value` as the version `version`.
    pub(super) fn new(mut value: Value, version: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), Value::from(version.to_string()));
        }
        let rest = Bytes::from(value.to_string()).slice(1..);
        Self { version, value, rest }
    }
}

/// Something that happened to an object.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Object>>,
    /// What it is now; for one that is gone, what it was at the end.
    pub(super) now: Arc<Object>,
    pub(super) gone: bool,
}

/// What a write does to an object.
#[derive(Debug)]
pub(super) enum Outcome {
    Unchanged,
    Put(Value),
    Remove(Value),
}

/// What a write did.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) object: Arc<Object>,
    pub(super) created: bool,
    pub(super) gone: bool,
}

/// Objects as of one version, in order.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) version: u64,
    pub(super) objects: Vec<Arc<Object>>,
    /// Where the next page begins, and how many are still to come.
    pub(super) next: Option<(Key, usize)>,
}

/// The counter that all tables share.
#[derive(Debug, Default)]
pub(super) struct Versions(AtomicU64);

impl Versions {
    /// The version of the last write.
    pub(super) fn current(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }
}

/// The objects of one resource.
#[derive(Debug)]
pub(super) struct Table {
    versions: Arc<Versions>,
    content: RwLock<Content>,
    written: watch::Sender<u64>,
    history: usize,
}

#[derive(Debug, Default)]
struct Content {
    objects: BTreeMap<Key, Arc<Object>>,
    changes: VecDeque<Arc<Change>>,
    /// What happened up to this version may be forgotten: nobody may begin there.
    compacted: u64,
    /// The last change that is forgotten: a watch that has seen it misses nothing.
    forgotten: u64,
}

impl Table {
    /// An empty table that remembers `history` changes.
    pub(super) fn new(versions: Arc<Versions>, history: usize) -> Self {
        Self { versions, content: RwLock::default(), written: watch::Sender::new(0), history }
    }

    fn read(&self) -> RwLockReadGuard<'_, Content> {
        self.content.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Content> {
        self.content.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of every write.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.written.subscribe()
    }

    /// The object at `key`.
    pub(super) fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// All objects, or those of one namespace.
    pub(super) fn all(&self, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let content = self.read();
        let inside = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
        content.objects.iter().filter(|(key, _)| inside(key)).map(|(_, object)| Arc::clone(object)).collect()
    }

    /// Reads the object at `key`, lets `decide` say what becomes of it, and does that, all as one step.
    pub(super) fn change(
        &self,
        key: &Key,
        decide: impl FnOnce(Option<&Arc<Object>>) -> Result<Outcome, Refusal>,
    ) -> Result<Option<Written>, Refusal> {
        let mut content = self.write();
        let before = content.objects.get(key).cloned();
        let (value, gone) = match decide(before.as_ref())? {
            Outcome::Unchanged => {
                return Ok(before.map(|object| Written { object, created: false, gone: false }));
            }
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
        let created = before.is_none();
        content.changes.push_back(Arc::new(Change {
            version,
            key: key.clone(),
            before,
            now: Arc::clone(&now),
            gone,
        }));
        if content.changes.len() > self.history
            && let Some(oldest) = content.changes.pop_front()
        {
            content.compacted = content.compacted.max(oldest.version);
            content.forgotten = oldest.version;
        }
        drop(content);
        self.written.send_replace(version);
        Ok(Some(Written { object: now, created, gone }))
    }

    /// Forgets what happened until now.
    pub(super) fn compact(&self) {
        let mut content = self.write();
        if let Some(last) = content.changes.back() {
            content.forgotten = last.version;
        }
        content.changes.clear();
        content.compacted = self.versions.current();
    }

    /// Fails when a watch cannot begin after `version`.
    pub(super) fn check_start(&self, version: u64) -> Result<(), Refusal> {
        let oldest = self.read().compacted;
        if version < oldest {
            return Err(Refusal::VersionExpired { wanted: version, oldest });
        }
        Ok(())
    }

    /// Up to `limit` changes after `version`, and the version up to which that is all there was.
    pub(super) fn changes_after(
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
            Some(_) | None => self.versions.current(),
        };
        Ok((changes, until))
    }

    /// The version up to which everything is in the table.
    pub(super) fn version(&self) -> u64 {
        // Under the lock no change of this table has a version and is not yet in it.
        let _content = self.read();
        self.versions.current()
    }

    /// The objects of `namespace` from `from` on that `wanted` selects, `limit` at most (0: all), as they were at
    /// `version` (`None`: now).
    pub(super) fn list(
        &self,
        version: Option<u64>,
        namespace: Option<&str>,
        from: Option<&Key>,
        limit: usize,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Page, Refusal> {
        let content = self.read();
        let current = self.versions.current();
        let version = version.unwrap_or(current);
        if version < content.compacted {
            return Err(Refusal::VersionExpired { wanted: version, oldest: content.compacted });
        }
        if version > current {
            return Err(Refusal::VersionAhead { wanted: version, current });
        }
        let start = from.cloned().unwrap_or_else(|| Key {
            namespace: namespace.unwrap_or_default().to_owned(),
            name: String::new(),
        });
        let inside =
            |key: &Key| *key >= start && namespace.is_none_or(|namespace| key.namespace == namespace);

        // What was different then: the first change since says what was there before it.
        let mut then: BTreeMap<&Key, Option<&Arc<Object>>> = BTreeMap::new();
        let first = content.changes.partition_point(|change| change.version <= version);
        for change in content.changes.range(first..).filter(|change| inside(&change.key)) {
            then.entry(&change.key).or_insert(change.before.as_ref());
        }
        let now = content
            .objects
            .range(&start..)
            .take_while(|(key, _)| namespace.is_none_or(|namespace| key.namespace == namespace));
        let mut selected: Vec<(&Key, &Arc<Object>)> = if then.is_empty() {
            now.collect()
        } else {
            let unchanged = now.filter(|(key, _)| !then.contains_key(key));
            let mut all: Vec<_> =
                unchanged.chain(then.iter().filter_map(|(key, object)| Some((*key, (*object)?)))).collect();
            all.sort_unstable_by_key(|(key, _)| *key);
            all
        };
        selected.retain(|(_, object)| wanted(&object.value));
        let next = match selected.get(limit) {
            Some((key, _)) if limit > 0 => Some(((*key).clone(), selected.len() - limit)),
            Some(_) | None => None,
        };
        if next.is_some() {
            selected.truncate(limit);
        }
        let objects = selected.into_iter().map(|(_, object)| Arc::clone(object)).collect();
        Ok(Page { version, objects, next })
    }
}
