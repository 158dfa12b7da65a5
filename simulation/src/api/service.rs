//! Services with their endpoints, as the agents see them.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use vipward_core::{
    agent::cluster::Seen,
    records::{NodeName, ServiceName, Version},
    services::{
        AnnotationValues, EndpointsRecord, Event, FIELD_MANAGER, Ingress, IpMode, Port, Protocol,
        ServiceRecord,
    },
};

use crate::schedule::{Asks, names};

/// The key of all Services. A stranger has guessed it.
const SHARE: &str = "key";

/// A Service with its endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Service {
    record: ServiceRecord,
    endpoints: BTreeSet<NodeName>,
}

impl Service {
    /// Makes a Service that requests these addresses, created at `created`. With `on`, only these
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

    /// Has it a `healthCheckNodePort`.
    #[must_use]
    pub(crate) fn with_health_port(mut self, port: u16) -> Self {
        self.record.health_check_port = Some(port);
        self
    }

    /// Makes a tenant's Service, the so many-th of its name.
    pub(crate) fn of_tenant(
        number: usize,
        born: u32,
        (asks, load_balancer): (Asks, bool),
        on: Option<BTreeSet<NodeName>>,
    ) -> Self {
        let port = 80 + u16::try_from(number).expect("invariant: runs are small");
        let mut service = Self::new(names::tenants_service(number), "", (i64::from(born), port), on);
        let (addresses, pool) = match asks {
            Asks::Any => (None, None),
            Asks::Pool(pool) => (None, Some(names::pool(pool.into()))),
            Asks::Vip(vip) => (Some(names::vip(vip.into()).to_string()), None),
        };
        let annotations = AnnotationValues {
            addresses: addresses.map(Into::into),
            pool: pool.map(|pool| Box::from(&*pool)),
            share: Some(SHARE.into()),
            ..AnnotationValues::default()
        };
        (service.record.annotations, service.record.load_balancer) = (annotations.into(), load_balancer);
        service
    }

    /// Returns the same with the status of another one, if that is an earlier version of the same.
    #[must_use]
    pub(crate) fn with_status_of(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|before| before.record.uid == self.record.uid) {
            self.record.ingress.clone_from(&before.record.ingress);
            self.record.status_manager.clone_from(&before.record.status_manager);
        }
        self
    }

    /// Writes the addresses of its status, or takes back what was written.
    pub(crate) fn write_status(&mut self, addresses: Option<&[IpAddr]>) {
        let ingress = |ip: &IpAddr| Ingress { ip: Some(*ip), mode: IpMode::Vip };
        self.record.ingress = addresses.unwrap_or_default().iter().map(ingress).collect();
        self.record.status_manager = addresses.map(|_| FIELD_MANAGER.into());
    }

    pub(crate) fn record(&self) -> &ServiceRecord {
        &self.record
    }

    /// Returns the addresses of its status.
    pub(crate) fn status(&self) -> impl Iterator<Item = IpAddr> {
        self.record.ingress.iter().filter_map(|ingress| ingress.ip)
    }

    /// Returns the nodes with endpoints, if they decide.
    pub(crate) fn local(&self) -> Option<&BTreeSet<NodeName>> {
        self.record.local.then_some(&self.endpoints)
    }

    /// Gives it the version of a write.
    pub(super) fn at(&mut self, version: Version) {
        self.record.version = version;
    }

    /// Returns what a process gets about it, with its endpoints. A Service with the policy Local comes
    /// after its endpoints, any other one before them, so that nothing between the two decides.
    pub(super) fn seen_with_slice(&self) -> Vec<Seen> {
        let [service, slice] = [self.seen(), self.slice()];
        if self.record.local { vec![slice, service] } else { vec![service, slice] }
    }

    pub(super) fn seen(&self) -> Seen {
        Event::Service(Box::new(self.record.clone())).into()
    }

    pub(super) fn slice(&self) -> Seen {
        let slice = EndpointsRecord {
            slice: Arc::clone(&self.record.name.name),
            service: self.record.name.clone(),
            ready: self.endpoints.clone(),
            serving_terminating: BTreeSet::new(),
            ready_elsewhere: false,
            is_ipv6: false,
        };
        Event::Slice(slice).into()
    }

    /// Returns that the endpoints of a Service are gone.
    pub(super) fn slice_gone(name: &ServiceName) -> Seen {
        Event::SliceGone { namespace: Arc::clone(&name.namespace), slice: Arc::clone(&name.name) }.into()
    }
}
