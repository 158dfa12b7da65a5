//! Delivery of one type of object to the core: parses each object, and keeps only its name.

use std::{collections::BTreeMap, error::Error, sync::Arc};

use tokio::sync::mpsc;
use tracing::{debug, warn};
use vipward_core::{
    base::legible::Excerpt,
    reports::outbox::{ApiObject, ObjectFault},
};

use super::super::{
    objects::{self, ObjectError, Parsed, Reading},
    read_error::ReadError,
    seen::Seen,
    shared::Kube,
};
use crate::shell::{
    kube::kinds::{metallb::MetalLb, resource::Resource},
    logging::errors::chain,
};

/// Error of a delivery whose receiver is gone.
pub(super) struct Closed;

pub(super) struct Delivery {
    resource: Resource,
    reading: Reading,
    kube: Kube,
    seen: mpsc::Sender<Seen>,
    /// Names of the delivered objects that are not gone. The value is
    /// true if the present list has the object.
    names: BTreeMap<Box<str>, bool>,
    /// The delivered objects with annotations that have no effect.
    faulty: BTreeMap<Box<str>, ApiObject>,
    /// The last problem that was reported, until it is over.
    failing: Option<Arc<ReadError>>,
    /// True if the API server was too busy, and has not answered since.
    was_busy: bool,
}

impl Delivery {
    pub(super) fn new(resource: Resource, reading: Reading, kube: Kube, seen: mpsc::Sender<Seen>) -> Self {
        Self {
            resource,
            reading,
            kube,
            seen,
            names: BTreeMap::new(),
            faulty: BTreeMap::new(),
            failing: None,
            was_busy: false,
        }
    }

    pub(super) fn begin_list(&mut self) {
        self.names.values_mut().for_each(|is_listed| *is_listed = false);
    }

    /// Reports the objects that the list lacks as gone, then the end of the list. `is_known` is false if
    /// the API server does not know the type.
    pub(super) async fn end_list(&mut self, is_known: bool) -> Result<(), Closed> {
        if self.resource == Resource::MetalLb(MetalLb::L2Advertisements) {
            self.send(Seen::Advertised(is_known)).await?;
        }
        let vanished = self.names.iter().filter(|(_, is_listed)| !**is_listed);
        let vanished: Vec<_> = vanished.map(|(name, _)| name.clone()).collect();
        for name in vanished {
            self.gone(&name).await?;
        }
        self.send(Seen::Synced(self.resource)).await
    }

    /// Reports the end of a list that was refused. What was delivered before stays.
    pub(super) async fn keep_list(&self) -> Result<(), Closed> {
        self.send(Seen::Synced(self.resource)).await
    }

    pub(super) async fn object(&mut self, object: &str) -> Result<String, Closed> {
        let parsed = match objects::parse(self.resource, object, &self.kube, self.reading) {
            Ok(parsed) => parsed,
            Err(error) => return self.unreadable(object, &error).await,
        };
        let Parsed { identity, seen, is_used, fault } = parsed;
        self.fault(&identity.name, fault).await?;
        if let Some(is_listed) = self.names.get_mut(&identity.name) {
            *is_listed = true;
        } else if is_used {
            self.names.insert(identity.name, true);
        } else {
            return Ok(identity.version);
        }
        self.send(seen).await?;
        Ok(identity.version)
    }

    /// Sends the fault of an object, or that its former fault is over.
    async fn fault(&mut self, name: &str, fault: Option<(ApiObject, ObjectFault)>) -> Result<(), Closed> {
        let is_same = |before: &ApiObject| fault.as_ref().is_some_and(|(object, _)| object == before);
        if let Some(before) = self.faulty.remove(name).filter(|before| !is_same(before)) {
            self.send(Seen::Fault(before, None)).await?;
        }
        if let Some((object, fault)) = fault {
            self.faulty.insert(name.into(), object.clone());
            self.send(Seen::Fault(object, Some(fault))).await?;
        }
        Ok(())
    }

    /// Treats an object that cannot be read as absent.
    async fn unreadable(&mut self, object: &str, error: &ObjectError) -> Result<String, Closed> {
        let identity = objects::identity(object).unwrap_or_default();
        let error: &(dyn Error + Sync) = error;
        let error = Excerpt::from(&*chain(error));
        warn!(resource = %self.resource, name = &*identity.name, %error, "an object cannot be read");
        self.gone(&identity.name).await?;
        Ok(identity.version)
    }

    pub(super) async fn gone(&mut self, name: &str) -> Result<(), Closed> {
        self.fault(name, None).await?;
        if self.names.remove(name).is_none() {
            return Ok(());
        }
        match objects::gone(self.resource, name, &self.kube) {
            Some(gone) => self.send(gone).await,
            None => Ok(()),
        }
    }

    /// Reports a problem, unless it is like the last one. A busy API server is a problem when it refuses
    /// twice in a row: it refuses the first watch of a type that it has just learnt.
    pub(super) async fn failed(&mut self, error: ReadError) -> Result<(), Closed> {
        if error.is_busy() && !std::mem::replace(&mut self.was_busy, true) {
            debug!(resource = %self.resource, error = chain(&error), "the API server is busy");
            return Ok(());
        }
        if self.failing.as_ref().is_some_and(|reported| reported.is_like(&error)) {
            return Ok(());
        }
        let error = Arc::new(error);
        self.failing = Some(Arc::clone(&error));
        self.send(Seen::Unreadable { resource: self.resource, error }).await
    }

    /// Reports that the last problem is over, if there was one.
    pub(super) async fn recovered(&mut self) -> Result<(), Closed> {
        self.was_busy = false;
        match self.failing.take() {
            Some(_) => self.send(Seen::Readable { resource: self.resource }).await,
            None => Ok(()),
        }
    }

    async fn send(&self, seen: Seen) -> Result<(), Closed> {
        self.seen.send(seen).await.map_err(|_| Closed)
    }
}
