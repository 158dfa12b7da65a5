//! Selection of the Services that are served.

use super::super::{ServiceRecord, Settings};

pub(crate) type Selection = Result<(), Unselected>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unselected {
    NotLoadBalancer,
    Deleting,
    /// The Service has another class, or no class although one is required.
    Class,
    Namespace,
    Labels,
    /// The Service opts out by an annotation.
    Ignored,
}

/// Selects a Service, or returns the reason why it is not served. `namespace_matches`
/// is true if its namespace has the configured labels.
pub(crate) fn select(
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
