//! Where the endpoints of Services are.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::records::{EndpointsRecord, ServiceRecord};
use crate::core::cluster::{NodeName, ServiceName};

/// The nodes that a Service's traffic can be delivered on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    /// Any of them.
    Anywhere,
    /// Only these, at least one.
    On(BTreeSet<NodeName>),
    /// None: it has no endpoint.
    Nowhere,
}

/// A slice's namespace and name.
type SliceKey = (Arc<str>, Arc<str>);

/// All `EndpointSlice`s.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    slices: BTreeMap<SliceKey, EndpointsRecord>,
    by_service: BTreeMap<ServiceName, BTreeSet<Arc<str>>>,
}

impl Endpoints {
    /// Returns the Services that this changes something for.
    pub(super) fn put(&mut self, record: EndpointsRecord) -> Vec<ServiceName> {
        let key = (Arc::clone(&record.service.namespace), Arc::clone(&record.slice));
        if self.slices.get(&key) == Some(&record) {
            return Vec::new();
        }
        let (namespace, slice) = key.clone();
        // Its label, which names the Service, can be changed.
        let mut changed = self.remove(namespace, slice);
        self.by_service.entry(record.service.clone()).or_default().insert(Arc::clone(&record.slice));
        changed.push(record.service.clone());
        self.slices.insert(key, record);
        changed
    }

    /// Returns the Services that this changes something for.
    pub(super) fn remove(&mut self, namespace: Arc<str>, slice: Arc<str>) -> Vec<ServiceName> {
        let Some(record) = self.slices.remove(&(namespace, slice)) else { return Vec::new() };
        if let Some(slices) = self.by_service.get_mut(&record.service) {
            slices.remove(&record.slice);
            if slices.is_empty() {
                self.by_service.remove(&record.service);
            }
        }
        vec![record.service]
    }

    /// Where a Service's traffic can be delivered. Endpoints that are terminating and still serve count while no
    /// other is ready.
    pub(super) fn reach(&self, service: &ServiceRecord, withdraw_without_endpoints: bool) -> Reach {
        let any_ready = self.of(&service.name).any(|slice| slice.ready_elsewhere || !slice.ready.is_empty());
        let usable = self
            .of(&service.name)
            .map(|slice| if any_ready { &slice.ready } else { &slice.serving_terminating });
        if service.local {
            let nodes: BTreeSet<_> = usable.flatten().cloned().collect();
            return if nodes.is_empty() { Reach::Nowhere } else { Reach::On(nodes) };
        }
        let mut usable = usable;
        if !withdraw_without_endpoints || any_ready || usable.any(|nodes| !nodes.is_empty()) {
            Reach::Anywhere
        } else {
            Reach::Nowhere
        }
    }

    fn of(&self, service: &ServiceName) -> impl Iterator<Item = &EndpointsRecord> {
        let names = self.by_service.get(service).into_iter().flatten();
        let namespace = Arc::clone(&service.namespace);
        names.filter_map(move |slice| self.slices.get(&(Arc::clone(&namespace), Arc::clone(slice))))
    }
}
