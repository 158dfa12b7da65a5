//! The `ServiceL2Status` objects of `MetalLB`'s: which node holds the addresses of a Service.
//!
//! Each node writes one object for each Service of which it holds an address. The object's name follows
//! from node and Service, so no object is read. One task sends one request at a time, and repeats those
//! that fail. The objects are for operators and dashboards; the event loop never waits for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::pending,
    net::IpAddr,
    sync::Arc,
};

use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};
use vipward_core::{
    agent::HeldVip,
    base::{retrying::Writes, time::Monotonic},
    ownership::weight,
    records::{NodeName, ServiceName, object_name},
};

use crate::shell::{
    kube::{
        kinds::{metallb, virtual_ip::VirtualIP},
        link::{call::Collection, connect::ConnectError, error::RequestError, http::Connections},
        reading::shared::Kube,
    },
    logging::errors::chain,
};

#[cfg(test)]
mod tests;

/// A Service, and the node that the object is about.
type Key = (ServiceName, NodeName);

/// The contents of an object: the interfaces that have addresses, and the `VirtualIP` that owns it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Status {
    interfaces: BTreeSet<Arc<str>>,
    owner: Option<(IpAddr, Arc<str>)>,
}

/// A writer of the objects that runs until it is dropped.
pub struct L2Statuses {
    node: NodeName,
    held: BTreeMap<IpAddr, HeldVip>,
    /// What each Service of this node shows, or is about to.
    shown: BTreeMap<ServiceName, Status>,
    jobs: mpsc::UnboundedSender<(Key, Option<Status>)>,
    _tasks: JoinSet<()>,
}

impl L2Statuses {
    /// Starts a task; needs a tokio runtime.
    pub fn start(kube: &Kube) -> Result<Self, ConnectError> {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let connections = Connections::open(&kube.server)?;
        tasks.spawn(write_on(kube.clone(), connections, waiting));
        let (held, shown) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { node: kube.node.clone(), held, shown, jobs, _tasks: tasks })
    }

    /// Shows that this node holds an address, or that it does not.
    pub fn show(&mut self, vip: IpAddr, held: Option<HeldVip>) {
        if self.held.get(&vip) == held.as_ref() {
            return;
        }
        let mut touched: BTreeSet<_> = held.iter().flat_map(|held| &held.services).cloned().collect();
        let before = match held {
            Some(held) => self.held.insert(vip, held),
            None => self.held.remove(&vip),
        };
        touched.extend(before.into_iter().flat_map(|held| held.services));
        for service in touched {
            let status = self.status(&service);
            if self.shown.get(&service) == status.as_ref() {
                continue;
            }
            match &status {
                Some(status) => self.shown.insert(service.clone(), status.clone()),
                None => self.shown.remove(&service),
            };
            self.send((service, self.node.clone()), status);
        }
    }

    pub fn held(&self) -> impl Iterator<Item = (IpAddr, &HeldVip)> {
        self.held.iter().map(|(vip, held)| (*vip, held))
    }

    /// Removes what a dead node has shown of Services.
    pub fn forget(&self, services: &[ServiceName], node: &NodeName) {
        for service in services {
            self.send((service.clone(), node.clone()), None);
        }
    }

    fn send(&self, key: Key, status: Option<Status>) {
        // The task ends only when this value is dropped.
        let _ = self.jobs.send((key, status));
    }

    fn status(&self, service: &ServiceName) -> Option<Status> {
        let mut of_it = self.held.iter().filter(|(_, held)| held.services.contains(service)).peekable();
        let (vip, first) = of_it.peek()?;
        let owner = first.uid.as_ref().map(|uid| (**vip, Arc::clone(uid)));
        let interfaces = of_it.map(|(_, held)| Arc::clone(&held.interface)).collect();
        Some(Status { interfaces, owner })
    }
}

/// Writes what comes, one object at a time, until it is written.
async fn write_on(
    kube: Kube,
    connections: Connections,
    mut waiting: mpsc::UnboundedReceiver<(Key, Option<Status>)>,
) {
    let begun = Instant::now();
    let now = || Monotonic::default() + begun.elapsed();
    let mut writes: Writes<Key, Option<Status>> = Writes::default();
    let mut troubled = false;
    loop {
        let next = writes.next_deadline().map(|at| begun + at.saturating_since(Monotonic::default()));
        let due = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => pending().await,
            }
        };
        tokio::select! {
            job = waiting.recv() => {
                let Some((key, status)) = job else { return };
                writes.begin(key, status, now());
            }
            () = due => {}
        }
        while let Ok((key, status)) = waiting.try_recv() {
            writes.begin(key, status, now());
        }
        for (key, status) in writes.due(now()) {
            kube.let_claims_pass().await;
            let result = match write(&kube, &connections, &key, status.as_ref()).await {
                // The API server does not know the type or the namespace, or the object is gone.
                Err(error) if error.is_status(404) => Ok(()),
                result => result,
            };
            if let Err(error) = &result {
                let (service, problem) = (&key.0, chain(error));
                if std::mem::replace(&mut troubled, true) {
                    debug!(%service, problem, "a ServiceL2Status is not written; trying again");
                } else {
                    warn!(%service, problem, "a ServiceL2Status is not written; trying again");
                }
            } else {
                troubled = false;
            }
            writes.on_result(&key, result.is_ok(), fastrand::f64(), now());
        }
    }
}

async fn write(
    kube: &Kube,
    connections: &Connections,
    (service, node): &Key,
    status: Option<&Status>,
) -> Result<(), RequestError> {
    let objects = Collection::at(metallb::VERSION, "servicel2statuses", &kube.metallb);
    let (name, limit) = (name(service, node), kube.server.limits().request());
    let send = async |call| connections.send(call, limit).await.map(drop);
    match status {
        None => send(objects.delete(&name, &DeleteParams::default())).await,
        Some(status) => {
            let object = object(service, node, status);
            match send(objects.create(&object)).await {
                Err(error) if error.is_status(409) => send(objects.merge(&name, &object)).await,
                created => created,
            }?;
            send(objects.merge_status(&name, &json!({"status": object["status"]}))).await
        }
    }
}

/// Returns the name of a node's object about a Service.
fn name(service: &ServiceName, node: &NodeName) -> String {
    format!("l2-{:016x}", weight(node.as_str(), service.to_string().bytes()))
}

/// Returns the whole object. Its labels are those by which `MetalLB`'s own are found.
fn object(service: &ServiceName, node: &NodeName, status: &Status) -> Value {
    let owners = status.owner.iter().map(|(vip, uid)| {
        use kube::Resource as _;
        json!({
            "apiVersion": VirtualIP::api_version(&()),
            "kind": VirtualIP::kind(&()),
            "name": object_name(*vip),
            "uid": &**uid,
        })
    });
    let interfaces = status.interfaces.iter().map(|name| json!({"name": &**name}));
    json!({
        "apiVersion": metallb::VERSION,
        "kind": "ServiceL2Status",
        "metadata": {
            "name": name(service, node),
            "labels": {
                "metallb.io/node": node.as_str(),
                "metallb.io/service-name": &*service.name,
                "metallb.io/service-namespace": &*service.namespace,
            },
            "ownerReferences": owners.collect::<Vec<_>>(),
        },
        "spec": {},
        "status": {
            "node": node.as_str(),
            "serviceName": &*service.name,
            "serviceNamespace": &*service.namespace,
            "interfaces": interfaces.collect::<Vec<_>>(),
        },
    })
}
