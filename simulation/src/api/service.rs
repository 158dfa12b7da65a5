//! Services with their endpoints, as the agents see them.

use std::{collections::BTreeSet, sync::Arc};

use vipward_core::{
    agent::cluster::Seen,
    records::{NodeName, ServiceName},
    services::{AnnotationValues, EndpointsRecord, Event, Port, Protocol, ServiceRecord},
};

/// The key of all Services. A stranger has guessed it.
const SHARE: &str = "key";

/// A Service with its endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Service {
    record: ServiceRecord,
    endpoints: BTreeSet<NodeName>,
}

impl Service {
    /// Makes a Service that asks for these addresses, created at `created`. With `on`, only these
    /// nodes have endpoints, and it has the policy Local.
    pub(crate) fn new(
        name: ServiceName,
        addresses: &str,
        (created, port): (i64, u16),
        on: Option<BTreeSet<NodeName>>,
    ) -> Self {
        let annotations = AnnotationValues {
            addresses: Some(addresses.into()),
            share: Some(SHARE.into()),
            ..AnnotationValues::default()
        };
        let uid = format!("{name}-{created}").into();
        let record = ServiceRecord {
            created,
            annotations: annotations.into(),
            local: on.is_some(),
            ..ServiceRecord::new(name, uid, vec![Port { port, protocol: Protocol::Tcp }])
        };
        Self { record, endpoints: on.unwrap_or_default() }
    }

    /// Returns what an agent gets about it. A Service with the policy Local comes after its
    /// endpoints, any other one before them, so that nothing between the two decides.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let slice = EndpointsRecord {
            slice: Arc::clone(&self.record.name.name),
            service: self.record.name.clone(),
            ready: self.endpoints.clone(),
            serving_terminating: BTreeSet::new(),
            ready_elsewhere: false,
            is_ipv6: false,
        };
        let service = Event::Service(Box::new(self.record.clone())).into();
        let slice = Event::Slice(slice).into();
        if self.record.local { vec![slice, service] } else { vec![service, slice] }
    }

    /// Returns what an agent gets about a Service that is gone.
    pub(crate) fn gone(name: ServiceName) -> Vec<Seen> {
        let slice =
            Event::SliceGone { namespace: Arc::clone(&name.namespace), slice: Arc::clone(&name.name) };
        vec![Event::ServiceGone(name).into(), slice.into()]
    }
}
