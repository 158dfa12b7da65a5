//! The kinds of object that the server knows: those of every cluster, and those that definitions add.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;

use super::builtins::{Row, rows};
use super::columns::Column;
use super::refusal::{GroupKind, GroupResource};
use super::schema::Schema;
use super::shape::Shape;
use super::store::{Table, Versions};
use super::validation::Check;

/// A kind of object in one version, and where its objects are.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) rules: Rules,
    pub(super) shape: Shape,
    pub(super) columns: Vec<Column>,
    pub(super) table: Arc<Table>,
}

/// What objects of a resource must look like, and how they may be written.
#[derive(Debug)]
pub(super) enum Rules {
    /// A type of Kubernetes itself.
    Builtin(Builtin),
    /// What a definition says.
    Custom(Box<Schema>),
}

/// How the objects of a built-in type may be written.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question that every type answers for itself")]
pub(super) struct Builtin {
    /// Reads an object as its Go type would be read, and writes it again.
    pub(super) normalise: fn(Value) -> Result<Value, serde_json::Error>,
    /// What its values must be like besides.
    pub(super) check: Check,
    /// A PUT without `resourceVersion` overwrites.
    pub(super) unconditional: bool,
    /// A PUT of what does not exist creates it.
    pub(super) create_on_update: bool,
    /// The status given at creation is kept.
    pub(super) status_at_creation: bool,
    /// `metadata.generation` is kept.
    pub(super) counts_generations: bool,
    /// What it can be selected by, besides name and namespace.
    pub(super) fields: &'static [&'static str],
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub(super) fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// What messages call it.
    pub(super) fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), plural: self.plural.clone() }
    }

    /// What messages call its kind.
    pub(super) fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Whether a definition added it.
    pub(super) const fn is_custom(&self) -> bool {
        matches!(self.rules, Rules::Custom(_))
    }

    /// How the text of every object begins.
    pub(super) fn head(&self) -> String {
        format!("{{\"apiVersion\":{:?},\"kind\":{:?},", self.api_version(), self.kind)
    }

    /// What its objects can be selected by, besides name and namespace.
    pub(super) const fn selectable_fields(&self) -> &'static [&'static str] {
        match &self.rules {
            Rules::Builtin(builtin) => builtin.fields,
            Rules::Custom(_) => &[],
        }
    }
}

/// All resources that there are at the moment.
#[derive(Debug)]
pub(super) struct Resources {
    versions: Arc<Versions>,
    history: usize,
    known: RwLock<BTreeMap<Name, Arc<Resource>>>,
}

/// What a path calls a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
}

impl Resources {
    /// Those of every cluster.
    pub(super) fn new(versions: Arc<Versions>, history: usize) -> Self {
        let resources = Self { versions, history, known: RwLock::default() };
        for row in rows() {
            resources.add_row(row);
        }
        resources
    }

    /// An empty table for a new resource.
    pub(super) fn new_table(&self) -> Arc<Table> {
        Arc::new(Table::new(Arc::clone(&self.versions), self.history))
    }

    /// The version of the last write of all.
    pub(super) fn current_version(&self) -> u64 {
        self.versions.current()
    }

    /// The resource that is called `name`.
    pub(super) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let name = Name { group: group.to_owned(), version: version.to_owned(), plural: plural.to_owned() };
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(&name).cloned()
    }

    /// The resource of the objects of this kind.
    pub(super) fn find_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        self.list()
            .into_iter()
            .find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    /// All of them.
    pub(super) fn list(&self) -> Vec<Arc<Resource>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Adds a resource, or replaces it.
    pub(super) fn add(&self, resource: Resource) {
        let name = Name {
            group: resource.group.clone(),
            version: resource.version.clone(),
            plural: resource.plural.clone(),
        };
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::new(resource));
    }

    /// Removes all versions of a resource.
    pub(super) fn remove(&self, group: &str, plural: &str) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| name.group != group || name.plural != plural);
    }

    fn add_row(&self, row: Row) {
        let mut shape = row.shape;
        if let Shape::Struct(_) | Shape::Open = shape {
            shape = with_metadata(shape);
        }
        self.add(Resource {
            group: row.group.to_owned(),
            version: row.version.to_owned(),
            plural: row.plural.to_owned(),
            singular: row.kind.to_lowercase(),
            short_names: row.short.iter().map(|&name| name.to_owned()).collect(),
            kind: row.kind.to_owned(),
            list_kind: format!("{}List", row.kind),
            namespaced: row.namespaced,
            has_status: row.has_status,
            rules: Rules::Builtin(row.builtin),
            shape,
            columns: Vec::new(),
            table: self.new_table(),
        });
    }
}

/// The parts of `metadata` that merge in a way of their own, in objects of every kind.
pub(super) fn with_metadata(shape: Shape) -> Shape {
    shape
        .with("metadata.finalizers", Shape::Set)
        .with("metadata.ownerReferences", Shape::list_by(&["uid"], Shape::Whole))
}
