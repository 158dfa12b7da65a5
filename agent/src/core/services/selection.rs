//! Whether a Service is served.

use super::{Settings, records::ServiceRecord};

/// Whether a Service is served, or why not.
pub(super) type Selection = Result<(), Unselected>;

/// Why a Service is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unselected {
    /// It is of another type.
    NotLoadBalancer,
    /// It is being deleted.
    Deleting,
    /// It is of another class, or of none when only ours is served.
    Class,
    /// Its namespace is not served.
    Namespace,
    /// Its labels are not those that are asked for.
    Labels,
    /// An annotation says so.
    Ignored,
}

/// `namespace_matches`: whether the namespace has the labels that are asked for.
pub(super) fn select(
    record: &ServiceRecord,
    ignored: bool,
    namespace_matches: bool,
    settings: &Settings,
) -> Selection {
    let class = match &record.class {
        Some(class) => *class == settings.class,
        None => !settings.class_only,
    };
    let namespace = settings.namespaces.is_empty() || settings.namespaces.contains(&record.name.namespace);
    let labels = settings.service_selector.as_ref().is_none_or(|selector| selector.matches(&record.labels));
    if !record.load_balancer {
        Err(Unselected::NotLoadBalancer)
    } else if record.deleting {
        Err(Unselected::Deleting)
    } else if !class {
        Err(Unselected::Class)
    } else if !namespace || !namespace_matches {
        Err(Unselected::Namespace)
    } else if !labels {
        Err(Unselected::Labels)
    } else if ignored {
        Err(Unselected::Ignored)
    } else {
        Ok(())
    }
}
