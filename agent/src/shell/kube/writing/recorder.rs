//! Sends the requests that write Events, one at a time, and returns their outcomes.

use k8s_openapi::{api::events::v1::Event, jiff::Timestamp};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet};
use tracing::debug;
use vipward_core::{
    records::object_name,
    reports::outbox::{Message, Object, Outcome, Write},
};

use crate::shell::{
    kube::{
        Kube, MANAGER,
        kinds::{
            meta::{MANAGED_BY, VERSION},
            text,
        },
        link::{
            call::{Call, Collection},
            connect::ConnectError,
            error::RequestError,
            http::Connections,
        },
    },
    logging::errors::chain,
};

#[cfg(test)]
mod tests;

/// The API's limit for the name of the reporting node, in bytes. A Node's name may be longer.
const MAX_INSTANCE: usize = 128;
/// The namespace of Events about objects without a namespace.
const CLUSTER_NAMESPACE: &str = "default";

/// A writer of Events that runs until it is dropped.
pub struct Recorder {
    writes: mpsc::UnboundedSender<Write>,
    outcomes: mpsc::UnboundedReceiver<(Outcome, Option<String>)>,
    /// The last error, with its causes.
    pub(super) last_error: Option<String>,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Starts a task; needs a tokio runtime.
    pub fn start(kube: &Kube) -> Result<Self, ConnectError> {
        let (writes, mut jobs) = mpsc::unbounded_channel();
        let (replies, outcomes) = mpsc::unbounded_channel();
        let writer = Writer { kube: kube.clone(), connections: Connections::open(&kube.server)? };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Some(write) = jobs.recv().await {
                if replies.send(writer.write(&write).await).is_err() {
                    return;
                }
            }
        });
        Ok(Self { writes, outcomes, last_error: None, _tasks: tasks })
    }

    /// Sends a request; [`Recorder::outcome`] follows.
    pub fn write(&self, write: Write) {
        // The task ends only when this value is dropped.
        let _ = self.writes.send(write);
    }

    /// Returns the outcome of the next request. Safe to cancel.
    pub async fn outcome(&mut self) -> Option<Outcome> {
        let (outcome, error) = self.outcomes.recv().await?;
        self.last_error = error.or(self.last_error.take());
        Some(outcome)
    }
}

struct Writer {
    kube: Kube,
    connections: Connections,
}

impl Writer {
    async fn write(&self, write: &Write) -> (Outcome, Option<String>) {
        self.kube.let_claims_pass().await;
        let answer =
            self.connections.send(call(write, &self.kube), self.kube.server.limits().request()).await;
        let Err(error) = answer else { return (Outcome::Done, None) };
        let chain = chain(&error);
        debug!(event = write.name, error = chain, "failed to write an Event");
        (outcome(&error), Some(chain))
    }
}

fn outcome(error: &RequestError) -> Outcome {
    match error.code() {
        Some(409) => Outcome::Exists,
        Some(404) => Outcome::Missing,
        Some(408 | 429 | 500..) | None => Outcome::Unknown,
        Some(_) => Outcome::Refused,
    }
}

fn call(write: &Write, kube: &Kube) -> Call {
    let at = text::wall_clock() - write.age;
    let events = Collection::of::<Event>(Some(namespace(&write.message.object)));
    match write.count {
        None => events.create(&event(write, kube, at)),
        Some(count) => {
            let series = json!({"series": {"count": count, "lastObservedTime": text::micro_time(at)}});
            events.merge(&write.name, &series)
        }
    }
}

fn namespace(object: &Object) -> &str {
    match object {
        Object::Service(service) => &service.namespace,
        Object::Other(object) if !object.namespace.is_empty() => &object.namespace,
        Object::Other(_) | Object::VirtualIp(_) => CLUSTER_NAMESPACE,
    }
}

fn event(write: &Write, kube: &Kube, at: Timestamp) -> Value {
    let Message { object, uid, reason, .. } = &write.message;
    let regarding = match object {
        Object::Service(service) => json!({
            "apiVersion": "v1",
            "kind": "Service",
            "namespace": &*service.namespace,
            "name": &*service.name,
            "uid": uid.as_deref(),
        }),
        Object::Other(object) => json!({
            "apiVersion": object.version,
            "kind": object.kind,
            "namespace": &*object.namespace,
            "name": &*object.name,
            "uid": uid.as_deref(),
        }),
        Object::VirtualIp(vip) => json!({
            "apiVersion": VERSION,
            "kind": "VirtualIP",
            "name": object_name(*vip),
            // The claim may have been created, or made anew, after the message was posted.
            "uid": kube.claim_uid(*vip).or_else(|| uid.clone()).as_deref(),
        }),
    };
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": write.name,
            "namespace": namespace(object),
            "labels": {MANAGED_BY: MANAGER},
        },
        "eventTime": text::micro_time(at),
        "type": reason.kind().name(),
        "reason": reason.name(),
        "action": reason.name(),
        "note": write.message.note(),
        "regarding": regarding,
        "reportingController": "vipward.io/agent",
        "reportingInstance": text::clipped_bytes(kube.node.as_str(), MAX_INSTANCE),
    })
}
