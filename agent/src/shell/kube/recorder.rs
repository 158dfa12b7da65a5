//! Events: tells people about Services and VIPs what they would otherwise have to ask for, and never too often.
//!
//! The same message about the same object is one Event: said again, it is counted, and the count is written at most
//! every 10 minutes. That is so on all nodes together: an Event's name follows from what it says, and a node that finds it
//! there counts it. All Events together are limited as well, so that ten thousand VIPs that move at once are no
//! flood. What is too much is not told, and counted in the log.

mod series;

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::Ipv4Addr,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, interval},
};
use tracing::{debug, warn};

use self::series::{Series, Step};
use super::{
    Kube, MANAGED_BY, MANAGER,
    connect::ConnectError,
    escaped,
    http::{Call, Connections, MERGE, RequestError},
    text,
};
use crate::core::cluster::ServiceName;

#[cfg(test)]
mod tests;

/// Messages that may wait to be sent.
const QUEUE: usize = 256;
/// The API's limit for a note, in bytes.
const MAX_NOTE: usize = 1_024;
/// The API's limit for the name of who reports, in bytes: shorter than a Node's name may be.
const MAX_INSTANCE: usize = 128;
/// Where Events about objects without a namespace are.
const CLUSTER_NAMESPACE: &str = "default";
/// The API server's answer when there is an object of this name.
const ALREADY_EXISTS: u16 = 409;
/// How often the log says how much was not told.
const SUMMARY: Duration = Duration::from_mins(1);

/// What an Event is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Regarding {
    /// A Service.
    Service {
        /// Its name.
        name: ServiceName,
        /// Its uid, by which `kubectl describe` finds its Events.
        uid: Option<Arc<str>>,
    },
    /// A VIP's claim.
    VirtualIp(Ipv4Addr),
}

/// How an Event is meant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// For information.
    Normal,
    /// Something is wrong.
    Warning,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What an Event says.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Message {
    /// About what.
    pub regarding: Regarding,
    /// How it is meant.
    pub kind: Kind,
    /// Why, in one word in `CamelCase`, for programs.
    pub reason: &'static str,
    /// In a sentence, for people; what is beyond 1,024 bytes is cut off.
    pub note: String,
}

/// Writes Events until it is dropped.
pub struct Recorder {
    messages: mpsc::Sender<Message>,
    _tasks: JoinSet<()>,
}

impl Recorder {
    /// Begins; needs a tokio runtime.
    pub fn start(kube: &Kube) -> Result<Self, ConnectError> {
        let (messages, receiver) = mpsc::channel(QUEUE);
        let writer = Writer {
            kube: kube.clone(),
            connections: Connections::open(&kube.server)?,
            began: Instant::now(),
            series: Series::default(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(receiver));
        Ok(Self { messages, _tasks: tasks })
    }

    /// Tells it, soon; at once if there is time, and not at all when too much is told. Never waits.
    pub fn tell(&self, message: Message) {
        // While the API server is away, what would be told then is old news.
        let _ = self.messages.try_send(message);
    }
}

struct Writer {
    kube: Kube,
    connections: Connections,
    began: Instant,
    series: Series,
}

impl Writer {
    async fn run(mut self, mut messages: mpsc::Receiver<Message>) {
        let mut summary = interval(SUMMARY);
        loop {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.take(message).await,
                    None => return,
                },
                _ = summary.tick() => {
                    let swallowed = self.series.swallowed();
                    if swallowed > 0 {
                        warn!(events = swallowed, "too many Events at once; some were not written");
                    }
                    for (message, name, count) in self.series.due(self.began.elapsed()) {
                        self.count(&message, &name, count).await;
                    }
                }
            }
        }
    }

    async fn take(&mut self, mut message: Message) {
        message.note.truncate(text::clipped_bytes(&message.note, MAX_NOTE).len());
        match self.series.on_message(&message, identity(&message, &self.kube), self.began.elapsed()) {
            Step::Nothing => {}
            Step::Create { name } => self.create(&message, &name).await,
            Step::Count { name, count } => self.count(&message, &name, count).await,
        }
    }

    async fn create(&mut self, message: &Message, name: &str) {
        let event = event(message, name, &self.kube, text::wall_clock());
        let call = Call::post(path(message, None), &event);
        let limit = self.kube.server.limits().request();
        match self.connections.ask(call, limit).await {
            Ok(_) => {}
            // Another node has said it, or this one before it was started anew.
            Err(error) if error.is_status(ALREADY_EXISTS) => {
                let count = self.series.already_told(message);
                self.count(message, name, count).await;
            }
            Err(error) => self.failed(message, &error),
        }
    }

    async fn count(&mut self, message: &Message, name: &str, count: u32) {
        let series = json!({"series": {
            "count": count,
            "lastObservedTime": text::micro_time(text::wall_clock()),
        }});
        let call = Call::patch(path(message, Some(name)), MERGE, &series);
        let limit = self.kube.server.limits().request();
        if let Err(error) = self.connections.ask(call, limit).await {
            self.failed(message, &error);
        }
    }

    fn failed(&mut self, message: &Message, error: &RequestError) {
        let error: &dyn std::error::Error = error;
        debug!(reason = message.reason, error, "an Event was not written");
        // It is made anew when it is said again: it may have been there too long, or never.
        self.series.forget(message);
    }
}

fn uid_of(message: &Message, kube: &Kube) -> Option<Arc<str>> {
    match &message.regarding {
        Regarding::Service { uid, .. } => uid.clone(),
        Regarding::VirtualIp(vip) => kube.claims.latest(*vip).and_then(|known| known.uid).map(Into::into),
    }
}

/// The same on every node for the same message about the same object, and another one when that was made anew.
fn identity(message: &Message, kube: &Kube) -> u64 {
    // Between versions of agents it may differ: then there are two Events.
    let mut hasher = DefaultHasher::new();
    (message, uid_of(message, kube)).hash(&mut hasher);
    hasher.finish()
}

fn namespace(message: &Message) -> &str {
    match &message.regarding {
        Regarding::Service { name, .. } => &name.namespace,
        Regarding::VirtualIp(_) => CLUSTER_NAMESPACE,
    }
}

fn path(message: &Message, name: Option<&str>) -> String {
    let namespace = escaped(namespace(message));
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    match name {
        Some(name) => format!("{events}/{}?fieldManager={MANAGER}", escaped(name)),
        None => format!("{events}?fieldManager={MANAGER}"),
    }
}

/// The object that makes an Event.
fn event(message: &Message, name: &str, kube: &Kube, now: Timestamp) -> Value {
    let Message { regarding, kind, reason, note } = message;
    let regarding = match regarding {
        Regarding::Service { name: ServiceName { namespace, name }, uid } => json!({
            "apiVersion": "v1", "kind": "Service", "namespace": &**namespace, "name": &**name, "uid": uid.as_deref(),
        }),
        Regarding::VirtualIp(vip) => json!({
            "apiVersion": "vipward.io/v1alpha1",
            "kind": "VirtualIP",
            "name": vip,
            "uid": uid_of(message, kube).as_deref(),
        }),
    };
    json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": namespace(message),
            "labels": {MANAGED_BY: MANAGER},
        },
        "eventTime": text::micro_time(now),
        "type": kind.as_str(),
        "reason": reason,
        "action": reason,
        "note": text::clipped_bytes(note, MAX_NOTE),
        "regarding": regarding,
        "reportingController": "vipward.io/agent",
        "reportingInstance": text::clipped_bytes(kube.node.as_str(), MAX_INSTANCE),
    })
}
