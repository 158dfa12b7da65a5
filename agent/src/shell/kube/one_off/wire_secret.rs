//! Creates the Secret with the keys of the failure detector, and replaces its key.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{api::ListParams, core::ObjectList};
use serde_json::{Value, json, value::RawValue};
use thiserror::Error;
use tokio::time::sleep;
use vipward_core::{
    base::time::Monotonic,
    liveness::Acceptance,
    records::{KeyId, NodeName},
};

use crate::shell::{
    kernel::{
        clock,
        liveness::{Fault, Key},
    },
    kube::{
        kinds::{
            leases,
            resource::Resource,
            secret::{NEWEST, Read, SECRET, creation, read, value_of},
        },
        link::{
            call::{Call, Collection},
            connect::{Access, ConnectError, Limits, Server},
            error::RequestError,
            http::{BUSY, Connections},
        },
        reading::shared::Kube,
    },
};

/// The deadline of one request of an administrator.
const LIMIT: Duration = Duration::from_secs(5);
/// The time between two readings of the Leases.
const LOOK: Duration = Duration::from_millis(500);

/// Reason why the Secret was not created, or its key not replaced.
#[derive(Debug, Error)]
pub enum WireSecretError {
    #[error("failed to find the cluster")]
    Connect(#[from] ConnectError),
    #[error(
        "Secret {namespace}/{SECRET} exists already: nothing was changed (`vipward wire rotate` replaces \
         its key)"
    )]
    Exists { namespace: String },
    #[error("there is no Secret {namespace}/{SECRET}: `vipward wire init` creates it")]
    Missing { namespace: String },
    #[error(
        "Secret {namespace}/{SECRET} was edited: {}; nothing was changed (correct it, or delete it and call \
         `vipward wire init`)",
        fault_text(fault.as_ref())
    )]
    Edited {
        namespace: String,
        /// The entry. None if there is no key.
        fault: Option<Fault>,
    },
    #[error("another program changed Secret {namespace}/{SECRET} meanwhile: call it again to go on")]
    Changed { namespace: String },
    #[error("failed to {what}")]
    Request {
        what: String,
        #[source]
        source: RequestError,
    },
    #[error(
        "after {}, the agents of {} do not accept key {} yet; both keys stay, and every agent accepts key {} \
         (`kubectl logs` of these agents says why; call `vipward wire rotate` again to go on)",
        humantime::format_duration(*timeout), names(missing), id.0, used.0
    )]
    NotAccepted { id: KeyId, used: KeyId, missing: Vec<NodeName>, timeout: Duration },
    #[error("failed to make a key")]
    Random(#[source] getrandom::Error),
    #[error("failed to read the clock")]
    Clock(#[from] nix::Error),
}

fn fault_text(fault: Option<&Fault>) -> String {
    fault.map_or_else(|| "it has no key".to_owned(), Fault::to_string)
}

fn names(nodes: &[NodeName]) -> String {
    nodes.iter().map(NodeName::as_str).collect::<Vec<_>>().join(", ")
}

fn secrets(namespace: &str) -> Collection {
    Collection::of::<Secret>(Some(namespace))
}

/// A step of a rotation, to report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rotating {
    Added(KeyId),
    /// It was there already: an earlier rotation was interrupted.
    Found(KeyId),
    /// Some agents do not accept it yet.
    Waiting {
        missing: Vec<NodeName>,
        /// The number of agents that take part.
        of: usize,
    },
    /// All agents use it. The other keys go after this time.
    Used {
        id: KeyId,
        linger: Duration,
    },
    Removed(Vec<KeyId>),
}

pub struct WireSecret {
    connections: Connections,
    namespace: String,
    limit: Duration,
}

impl WireSecret {
    /// Finds the API server. `namespace` has the Leases.
    pub async fn connect(access: &Access, namespace: &str) -> Result<Self, WireSecretError> {
        let limits = Limits { lease: LIMIT * 2, margin: Duration::ZERO };
        let server = Server::find(access, limits).await?;
        Ok(Self { connections: Connections::open(&server)?, namespace: namespace.to_owned(), limit: LIMIT })
    }

    pub fn of(kube: &Kube) -> Result<Self, WireSecretError> {
        let limit = kube.server.limits().request();
        Ok(Self {
            connections: Connections::open(&kube.server)?,
            namespace: kube.namespace.as_ref().to_owned(),
            limit,
        })
    }

    /// Creates the Secret with a new key. Returns false if it exists. That needs the right to create
    /// Secrets, and none to read them.
    pub async fn create(&self) -> Result<bool, WireSecretError> {
        let key = Key::random().map_err(WireSecretError::Random)?;
        match self.send("create", secrets(&self.namespace).create(&creation(&key))).await {
            Ok(_) => Ok(true),
            Err(WireSecretError::Changed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn send(&self, what: &str, call: Call) -> Result<String, WireSecretError> {
        let namespace = self.namespace.clone();
        self.connections.insist(call, self.limit, BUSY).await.map_err(|source| match source.code() {
            Some(409) => WireSecretError::Changed { namespace },
            Some(404) if what != "create" => WireSecretError::Missing { namespace },
            _ => WireSecretError::Request { what: format!("{what} Secret {namespace}/{SECRET}"), source },
        })
    }

    pub async fn init(&self) -> Result<(), WireSecretError> {
        if self.create().await? {
            Ok(())
        } else {
            Err(WireSecretError::Exists { namespace: self.namespace.clone() })
        }
    }

    async fn read(&self) -> Result<Read, WireSecretError> {
        let text = self.send("read", secrets(&self.namespace).get(SECRET)).await?;
        let read = read(&text).map_err(RequestError::Unreadable);
        let read = read.map_err(|source| WireSecretError::Request {
            what: format!("read Secret {}/{SECRET}", self.namespace),
            source,
        })?;
        if read.keys.ids().is_empty() || !read.faults.is_empty() {
            let fault = read.faults.into_iter().next();
            return Err(WireSecretError::Edited { namespace: self.namespace.clone(), fault });
        }
        Ok(read)
    }

    async fn patch(&self, version: &str, patch: &mut Value) -> Result<(), WireSecretError> {
        patch["metadata"]["resourceVersion"] = version.into();
        self.send("change", secrets(&self.namespace).merge(SECRET, patch)).await.map(drop)
    }

    /// Replaces the key: adds one, waits until all agents accept it, and removes the others after
    /// `linger`. Whenever this ends early, all agents have a key in common, and the next call goes on.
    pub async fn rotate(
        &self,
        timeout: Duration,
        linger: Duration,
        mut progress: impl FnMut(Rotating),
    ) -> Result<KeyId, WireSecretError> {
        let Read { version, keys, .. } = self.read().await?;
        let ids = keys.ids();
        let (id, used) = if let [.., used, newest] = ids[..] {
            progress(Rotating::Found(newest));
            (newest, used)
        } else {
            let (id, key) = (keys.next_id(), Key::random().map_err(WireSecretError::Random)?);
            let mut patch = json!({
                "metadata": {"annotations": {(NEWEST): id.0.to_string()}},
                "data": {(id.0.to_string()): value_of(&key)},
            });
            self.patch(&version, &mut patch).await?;
            progress(Rotating::Added(id));
            (id, ids[0])
        };
        self.wait_until_accepted(id, used, timeout, &mut progress).await?;
        progress(Rotating::Used { id, linger });
        sleep(linger).await;
        // An agent that has started since has read the Secret with the new key. An edit is an error.
        let Read { version, keys, .. } = self.read().await?;
        let others: Vec<KeyId> = keys.ids().into_iter().filter(|other| *other != id).collect();
        if keys.get(id).is_none() || keys.ids().last() != Some(&id) {
            return Err(WireSecretError::Changed { namespace: self.namespace.clone() });
        }
        let gone: serde_json::Map<_, _> =
            others.iter().map(|KeyId(other)| (other.to_string(), Value::Null)).collect();
        self.patch(&version, &mut json!({"data": gone})).await?;
        progress(Rotating::Removed(others));
        Ok(id)
    }

    async fn wait_until_accepted(
        &self,
        id: KeyId,
        used: KeyId,
        timeout: Duration,
        progress: &mut impl FnMut(Rotating),
    ) -> Result<(), WireSecretError> {
        let began = now()?;
        let mut acceptance = Acceptance::of(id);
        let mut notified = None;
        loop {
            let leases = self.leases().await?;
            let at = now()?;
            acceptance.see(leases, at);
            let missing = acceptance.missing(at);
            if missing.is_empty() {
                return Ok(());
            }
            if notified.as_ref() != Some(&missing) {
                progress(Rotating::Waiting { missing: missing.clone(), of: acceptance.taking_part() });
                notified = Some(missing.clone());
            }
            if at.saturating_since(began) >= timeout {
                return Err(WireSecretError::NotAccepted { id, used, missing, timeout });
            }
            sleep(LOOK).await;
        }
    }

    async fn leases(&self) -> Result<Vec<vipward_core::records::LeaseRecord>, WireSecretError> {
        let what = || format!("list the Leases in {}", self.namespace);
        let call = Resource::Leases.collection(&self.namespace).list(&ListParams::default());
        let failed = |source| WireSecretError::Request { what: what(), source };
        let text = self.connections.insist(call, self.limit, BUSY).await.map_err(failed)?;
        let list: Result<ObjectList<&RawValue>, _> = serde_json::from_str(&text);
        let list = list.map_err(|error| failed(RequestError::Unreadable(error)))?;
        let ours = list.items.into_iter().filter_map(|object| leases::read(object.get()).ok());
        Ok(ours.filter(|read| read.is_ours).map(|read| read.record).collect())
    }
}

fn now() -> Result<Monotonic, WireSecretError> {
    Ok(Monotonic::from_nanos(clock::monotonic_ns()?))
}
