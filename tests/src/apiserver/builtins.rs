//! The types of Kubernetes itself that the server knows, and what is peculiar to each.

use k8s_openapi::api::{apps, coordination, core, discovery, events, rbac};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::Builtin;
use super::shape::Shape;
use super::validation;

fn round_trip<T: DeserializeOwned + Serialize>(value: Value) -> Result<Value, serde_json::Error> {
    validation::micro_times(&value)?;
    serde_json::to_value(serde_json::from_value::<T>(value)?)
}

const fn builtin<T: DeserializeOwned + Serialize>() -> Builtin {
    Builtin {
        normalise: round_trip::<T>,
        check: validation::nothing,
        unconditional: true,
        create_on_update: false,
        status_at_creation: false,
        counts_generations: false,
        fields: &[],
    }
}

/// A built-in resource.
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) plural: &'static str,
    pub(super) kind: &'static str,
    pub(super) short: &'static [&'static str],
    pub(super) namespaced: bool,
    pub(super) has_status: bool,
    pub(super) builtin: Builtin,
    pub(super) shape: Shape,
}

fn row(
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    builtin: Builtin,
) -> Row {
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

/// All of them.
pub(super) fn rows() -> Vec<Row> {
    let mut rows = core_rows();
    rows.extend(more_core_rows());
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
            ..row(
                "",
                "namespaces",
                "Namespace",
                false,
                Builtin { fields: &["status.phase"], ..builtin::<core::v1::Namespace>() },
            )
        },
        Row {
            short: &["svc"],
            has_status: true,
            shape: Shape::Open
                .with("spec.ports", Shape::ports("port"))
                .with("spec.selector", Shape::Whole)
                .with("status.conditions", conditions())
                .with("status.loadBalancer.ingress", Shape::Whole),
            ..row(
                "",
                "services",
                "Service",
                true,
                Builtin {
                    create_on_update: CREATES,
                    fields: &["spec.clusterIP", "spec.type"],
                    ..builtin::<core::v1::Service>()
                },
            )
        },
        Row {
            short: &["no"],
            has_status: true,
            shape: Shape::Open
                .with("spec.podCIDRs", Shape::Set)
                .with("status.conditions", conditions())
                .with("status.addresses", Shape::list_by(&["type"], Shape::Open)),
            ..row(
                "",
                "nodes",
                "Node",
                false,
                Builtin {
                    status_at_creation: true,
                    fields: &["spec.unschedulable"],
                    ..builtin::<core::v1::Node>()
                },
            )
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
            ..row(
                "",
                "pods",
                "Pod",
                true,
                Builtin {
                    fields: &["spec.nodeName", "spec.restartPolicy", "status.phase", "status.podIP"],
                    ..builtin::<core::v1::Pod>()
                },
            )
        },
    ]
}

fn more_core_rows() -> Vec<Row> {
    const CREATES: bool = true;
    vec![
        Row {
            short: &["ev"],
            ..row(
                "",
                "events",
                "Event",
                true,
                Builtin { create_on_update: CREATES, fields: EVENT_FIELDS, ..builtin::<core::v1::Event>() },
            )
        },
        Row {
            short: &["ep"],
            ..row(
                "",
                "endpoints",
                "Endpoints",
                true,
                Builtin { create_on_update: CREATES, ..builtin::<core::v1::Endpoints>() },
            )
        },
        Row { short: &["cm"], ..row("", "configmaps", "ConfigMap", true, builtin::<core::v1::ConfigMap>()) },
        Row {
            short: &["sa"],
            ..row("", "serviceaccounts", "ServiceAccount", true, builtin::<core::v1::ServiceAccount>())
        },
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
        row(
            "discovery.k8s.io",
            "endpointslices",
            "EndpointSlice",
            true,
            Builtin {
                create_on_update: true,
                counts_generations: true,
                ..builtin::<discovery::v1::EndpointSlice>()
            },
        ),
        // The one built-in type here whose PUT must say which version it replaces.
        row(
            "coordination.k8s.io",
            "leases",
            "Lease",
            true,
            Builtin {
                check: validation::lease,
                create_on_update: true,
                unconditional: false,
                ..builtin::<coordination::v1::Lease>()
            },
        ),
        Row {
            short: &["ds"],
            has_status: true,
            shape: Shape::Open.with("spec.selector", Shape::Whole).with("status.conditions", conditions()),
            ..row(
                "apps",
                "daemonsets",
                "DaemonSet",
                true,
                Builtin { counts_generations: true, ..builtin::<apps::v1::DaemonSet>() },
            )
        },
        Row {
            short: &["ev"],
            ..row(
                "events.k8s.io",
                "events",
                "Event",
                true,
                Builtin {
                    check: validation::event,
                    create_on_update: true,
                    fields: &[
                        "reason",
                        "type",
                        "regarding.kind",
                        "regarding.name",
                        "regarding.namespace",
                        "regarding.uid",
                    ],
                    ..builtin::<events::v1::Event>()
                },
            )
        },
        Row {
            short: &["crd", "crds"],
            has_status: true,
            shape: Shape::Open.with("spec.versions", Shape::Whole).with("status.conditions", conditions()),
            ..row(
                "apiextensions.k8s.io",
                "customresourcedefinitions",
                "CustomResourceDefinition",
                false,
                Builtin {
                    unconditional: false,
                    counts_generations: true,
                    ..builtin::<apiextensions::v1::CustomResourceDefinition>()
                },
            )
        },
    ]
}

fn rbac_rows() -> Vec<Row> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    vec![
        row(GROUP, "roles", "Role", true, builtin::<rbac::v1::Role>()),
        row(GROUP, "clusterroles", "ClusterRole", false, builtin::<rbac::v1::ClusterRole>()),
        row(GROUP, "rolebindings", "RoleBinding", true, builtin::<rbac::v1::RoleBinding>()),
        row(
            GROUP,
            "clusterrolebindings",
            "ClusterRoleBinding",
            false,
            builtin::<rbac::v1::ClusterRoleBinding>(),
        ),
    ]
}
