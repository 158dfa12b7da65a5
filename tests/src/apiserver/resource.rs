//! The kinds of object that the server knows: those of every cluster, and those that definitions add.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use k8s_openapi::api::{apps, coordination, core, discovery, events, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::columns::Column;
use super::refusal::{GroupKind, GroupResource};
use super::schema::Schema;
use super::shape::Shape;
use super::store::{Table, Versions};

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
pub(super) struct Builtin {
    /// Reads an object as its Go type would be read, and writes it again.
    pub(super) normalise: fn(Value) -> Result<Value, serde_json::Error>,
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

fn round_trip<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

const fn builtin<T: DeserializeOwned + Serialize>() -> Builtin {
    Builtin {
        normalise: round_trip::<T>,
        unconditional: true,
        create_on_update: false,
        status_at_creation: false,
        counts_generations: false,
        fields: &[],
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
        self.list().into_iter().find(|resource| resource.kind == kind && resource.api_version() == api_version)
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

struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    builtin: Builtin,
    shape: Shape,
}

fn row(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool, builtin: Builtin) -> Row {
    Row {
        group,
        version: "v1",
        plural,
        kind,
        short: &[],
        namespaced,
        has_status: false,
        builtin,
        shape: Shape::Open,
    }
}

fn conditions() -> Shape {
    Shape::list_by(&["type"], Shape::Open)
}

fn rows() -> Vec<Row> {
    let mut rows = core_rows();
    rows.extend(other_rows());
    rows.extend(rbac_rows());
    rows
}

fn core_rows() -> Vec<Row> {
    const CREATES: bool = true;
    let containers = || {
        let item = Shape::Open
            .with("ports", Shape::ports("containerPort"))
            .with("env", Shape::list_by(&["name"], Shape::Open))
            .with("volumeMounts", Shape::list_by(&["mountPath"], Shape::Open));
        Shape::list_by(&["name"], item)
    };
    vec![
        Row {
            short: &["ns"],
            has_status: true,
            shape: Shape::Open.with("status.conditions", conditions()),
            ..row("", "namespaces", "Namespace", false, Builtin {
                fields: &["status.phase"],
                ..builtin::<core::v1::Namespace>()
            })
        },
        Row {
            short: &["svc"],
            has_status: true,
            shape: Shape::Open
                .with("spec.ports", Shape::ports("port"))
                .with("spec.selector", Shape::Whole)
                .with("status.conditions", conditions())
                .with("status.loadBalancer.ingress", Shape::Whole),
            ..row("", "services", "Service", true, Builtin {
                create_on_update: CREATES,
                fields: &["spec.clusterIP", "spec.type"],
                ..builtin::<core::v1::Service>()
            })
        },
        Row {
            short: &["no"],
            has_status: true,
            shape: Shape::Open
                .with("spec.podCIDRs", Shape::Set)
                .with("status.conditions", conditions())
                .with("status.addresses", Shape::list_by(&["type"], Shape::Open)),
            ..row("", "nodes", "Node", false, Builtin {
                status_at_creation: true,
                fields: &["spec.unschedulable"],
                ..builtin::<core::v1::Node>()
            })
        },
        Row {
            short: &["po"],
            has_status: true,
            shape: Shape::Open
                .with("spec.containers", containers())
                .with("spec.initContainers", containers())
                .with("spec.volumes", Shape::list_by(&["name"], Shape::Open))
                .with("spec.nodeSelector", Shape::Whole)
                .with("status.conditions", conditions()),
            ..row("", "pods", "Pod", true, Builtin {
                fields: &["spec.nodeName", "spec.restartPolicy", "status.phase", "status.podIP"],
                ..builtin::<core::v1::Pod>()
            })
        },
        Row {
            short: &["ev"],
            ..row("", "events", "Event", true, Builtin {
                create_on_update: CREATES,
                fields: EVENT_FIELDS,
                ..builtin::<core::v1::Event>()
            })
        },
        Row {
            short: &["ep"],
            ..row("", "endpoints", "Endpoints", true, Builtin {
                create_on_update: CREATES,
                ..builtin::<core::v1::Endpoints>()
            })
        },
        Row { short: &["cm"], ..row("", "configmaps", "ConfigMap", true, builtin::<core::v1::ConfigMap>()) },
        Row { short: &["sa"], ..row("", "serviceaccounts", "ServiceAccount", true, builtin::<core::v1::ServiceAccount>()) },
    ]
}

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.apiVersion",
    "involvedObject.fieldPath",
    "involvedObject.kind",
    "involvedObject.name",
    "involvedObject.namespace",
    "involvedObject.resourceVersion",
    "involvedObject.uid",
    "reason",
    "reportingComponent",
    "source.component",
    "type",
];

fn other_rows() -> Vec<Row> {
    vec![
        row("discovery.k8s.io", "endpointslices", "EndpointSlice", true, Builtin {
            create_on_update: true,
            counts_generations: true,
            ..builtin::<discovery::v1::EndpointSlice>()
        }),
        // The one built-in type here whose PUT must say which version it replaces.
        row("coordination.k8s.io", "leases", "Lease", true, Builtin {
            create_on_update: true,
            unconditional: false,
            ..builtin::<coordination::v1::Lease>()
        }),
        Row {
            short: &["ds"],
            has_status: true,
            shape: Shape::Open.with("spec.selector", Shape::Whole).with("status.conditions", conditions()),
            ..row("apps", "daemonsets", "DaemonSet", true, Builtin {
                counts_generations: true,
                ..builtin::<apps::v1::DaemonSet>()
            })
        },
        Row {
            short: &["ev"],
            ..row("events.k8s.io", "events", "Event", true, Builtin {
                create_on_update: true,
                fields: &["reason", "type", "regarding.kind", "regarding.name", "regarding.namespace", "regarding.uid"],
                ..builtin::<events::v1::Event>()
            })
        },
        Row {
            short: &["crd", "crds"],
            has_status: true,
            shape: Shape::Open
                .with("spec.versions", Shape::Whole)
                .with("status.conditions", conditions()),
            ..row("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", false, Builtin {
                unconditional: false,
                counts_generations: true,
                ..builtin::<apiextensions::v1::CustomResourceDefinition>()
            })
        },
    ]
}

fn rbac_rows() -> Vec<Row> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    vec![
        row(GROUP, "roles", "Role", true, builtin::<rbac::v1::Role>()),
        row(GROUP, "clusterroles", "ClusterRole", false, builtin::<rbac::v1::ClusterRole>()),
        row(GROUP, "rolebindings", "RoleBinding", true, builtin::<rbac::v1::RoleBinding>()),
        row(GROUP, "clusterrolebindings", "ClusterRoleBinding", false, builtin::<rbac::v1::ClusterRoleBinding>()),
    ]
}
