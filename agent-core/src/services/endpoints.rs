//! Index of the endpoints of Services, by node.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{EndpointsRecord, ServiceRecord};
use crate::records::{HealthPort, Local, NodeName, Reach, ServiceName};

/// Progress of the list of slices. They are read when the first Service needs them, since in a large
/// cluster no other type changes as often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum List {
    #[default]
    Unneeded,
    Begun,
    Ended,
}

type SliceKey = (Arc<str>, Arc<str>);

/// A slice in the index. Most Services have one slice with few nodes,
/// so these are lists. The names are shared.
#[derive(PartialEq, Eq, Debug)]
struct Slice {
    name: Arc<str>,
    ready: Box<[NodeName]>,
    serving_terminating: Box<[NodeName]>,
    ready_elsewhere: bool,
    is_ipv6: bool,
}

#[derive(Debug, Default)]
pub(super) struct Endpoints {
    list: List,
    owners: BTreeMap<SliceKey, ServiceName>,
    by_service: BTreeMap<ServiceName, Vec<Slice>>,
    /// The name of each node that ever had endpoints, once.
    nodes: BTreeSet<NodeName>,
}

impl Endpoints {
    /// Records that a Service needs the slices. Returns true if it is the first one.
    pub(super) fn begin_list(&mut self) -> bool {
        let is_first = self.list == List::Unneeded;
        if is_first {
            self.list = List::Begun;
        }
        is_first
    }

    /// Records that the slices are known. Returns true if they were not known before.
    pub(super) fn end_list(&mut self) -> bool {
        std::mem::replace(&mut self.list, List::Ended) != List::Ended
    }

    pub(super) fn put(&mut self, record: EndpointsRecord) -> Vec<ServiceName> {
        let EndpointsRecord { slice: name, service, ready, serving_terminating, ready_elsewhere, is_ipv6 } =
            record;
        let slice = Slice {
            ready: self.share(ready),
            serving_terminating: self.share(serving_terminating),
            name: Arc::clone(&name),
            ready_elsewhere,
            is_ipv6,
        };
        let key = (Arc::clone(&service.namespace), name);
        if self.owners.get(&key) == Some(&service) && self.of(&service).contains(&slice) {
            return Vec::new();
        }
        // The label that names the Service can change.
        let (namespace, name) = key.clone();
        let mut changed = self.remove(namespace, name);
        self.owners.insert(key, service.clone());
        self.by_service.entry(service.clone()).or_insert_with(|| Vec::with_capacity(1)).push(slice);
        changed.push(service);
        changed
    }

    fn share(&mut self, names: BTreeSet<NodeName>) -> Box<[NodeName]> {
        let shared = names.into_iter().map(|name| {
            if let Some(known) = self.nodes.get(&name) {
                return known.clone();
            }
            self.nodes.insert(name.clone());
            name
        });
        shared.collect()
    }

    pub(super) fn remove(&mut self, namespace: Arc<str>, slice: Arc<str>) -> Vec<ServiceName> {
        let key = (namespace, slice);
        let Some(service) = self.owners.remove(&key) else { return Vec::new() };
        if let Some(slices) = self.by_service.get_mut(&service) {
            slices.retain(|slice| slice.name != key.1);
            if slices.is_empty() {
                self.by_service.remove(&service);
            }
        }
        vec![service]
    }

    /// Returns the nodes that can deliver a Service's traffic for a VIP. Endpoints of the other family
    /// do not count.
    ///
    /// With `externalTrafficPolicy: Local`, these are the nodes of the endpoints. If endpoints are
    /// ready and none of them has a node, these are all nodes. Without that policy, all nodes can
    /// deliver, except if `withdraw_without_endpoints` is set and the Service has no endpoint.
    pub(super) fn reach(
        &self,
        service: &ServiceRecord,
        vip: IpAddr,
        withdraw_without_endpoints: bool,
    ) -> Reach {
        if self.list != List::Ended && service.needs_endpoints(withdraw_without_endpoints) {
            return Reach::Unknown;
        }
        let slices = || self.of(&service.name).iter().filter(|slice| slice.is_ipv6 == vip.is_ipv6());
        let any_ready = slices().any(|slice| slice.ready_elsewhere || !slice.ready.is_empty());
        if service.local {
            let ready: BTreeSet<_> = slices().flat_map(|slice| slice.ready.iter().cloned()).collect();
            if ready.is_empty() && any_ready {
                return Reach::Anywhere;
            }
            let draining = slices().flat_map(|slice| slice.serving_terminating.iter().cloned()).collect();
            let is_ipv6 = vip.is_ipv6();
            let health_port = service.health_check_port.map(|number| HealthPort { number, is_ipv6 });
            Reach::On(Local { ready, draining, health_port })
        } else if !withdraw_without_endpoints
            || any_ready
            || slices().any(|slice| !slice.serving_terminating.is_empty())
        {
            Reach::Anywhere
        } else {
            Reach::On(Local::default())
        }
    }

    fn of(&self, service: &ServiceName) -> &[Slice] {
        self.by_service.get(service).map_or(&[], Vec::as_slice)
    }
}
