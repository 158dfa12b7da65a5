//! Events: tells people about Services and VIPs what they would otherwise have to ask for, and never too often.
//!
//! The same message about the same object is one Event: said again, it is counted, and the count is written at most
//! every 10 minutes. That is so on all nodes together: an Event's name follows from what it says, and a node that finds it
//! there counts it. All Events together are limited as well, so that ten thousand VIPs that move at once are no
//! flood. What is too much is not told, and counted in the log. While the API server does not answer, it is tried again for
//! some minutes.

mod again;
mod series;

use std::{
    future::pending,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::Ipv4Addr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, interval, sleep_until},
};
use tracing::{debug, warn};

use self::{
    again::{Again, Job},
    series::{Series, Step},
};
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
const QUEUE: usize = 64;
/// The last places are only for what is wrong.
const FOR_WARNINGS: usize = 16;
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
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    _tasks: JoinSet<()>,
}

struct Shared {
    kube: Kube,
    began: Instant,
    series: Mutex<Series>,
    /// What nobody will hear of.
    lost: AtomicU64,
}

impl Shared {
    fn series(&self) -> MutexGuard<'_, Series> {
        self.series.lock().expect("invariant: nobody panics with this lock")
    }

    fn lose_one(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Begins; needs a tokio runtime.
    pub fn start(kube: &Kube) -> Result<Self, ConnectError> {
        let (jobs, receiver) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            kube: kube.clone(),
            began: Instant::now(),
            series: Mutex::default(),
            lost: AtomicU64::new(0),
        });
        let connections = Connections::open(&kube.server)?;
        let writer = Writer { shared: Arc::clone(&shared), connections, again: Again::default() };
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(receiver));
        Ok(Self { shared, jobs, _tasks: tasks })
    }

    /// Tells it, soon; at once if there is time, and not at all when too much is told. Never waits.
    pub fn tell(&self, message: Message) {
        if !self.offer(message) {
            self.shared.lose_one();
        }
    }

    /// Tells it, as [`Recorder::tell`], or says that there is no room for it: then it may be offered again.
    pub fn offer(&self, mut message: Message) -> bool {
        let kept = match message.kind {
            Kind::Normal => FOR_WARNINGS,
            Kind::Warning => 0,
        };
        let Ok(place) = self.jobs.try_reserve() else { return false };
        // One of them is reserved already.
        if self.jobs.capacity() < kept {
            return false;
        }
        message.note.truncate(text::clipped_bytes(&message.note, MAX_NOTE).len());
        let said = self.shared.began.elapsed();
        let identity = identity(&message, &self.shared.kube);
        let step = self.shared.series().on_message(&message, identity, said);
        let (name, count) = match step {
            Step::Nothing => return true,
            Step::TooMuch => return false,
            Step::Create { name } => (name, None),
            Step::Count { name, count } => (name, Some(count)),
        };
        place.send(Job { message, name, count, at: text::wall_clock(), said, failures: 0 });
        true
    }
}

struct Writer {
    shared: Arc<Shared>,
    connections: Connections,
    again: Again,
}

impl Writer {
    async fn run(mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut summary = interval(SUMMARY);
        loop {
            let due = self.again.next_due().map(|due| self.shared.began + due);
            tokio::select! {
                // What waits here bounds what waits there, and so what is offered.
                job = jobs.recv(), if self.again.has_room() => match job {
                    Some(job) => self.write(job).await,
                    None => return,
                },
                () = until(due) => {
                    let due = self.again.take_due(self.shared.began.elapsed());
                    if let Some(job) = due {
                        self.write(job).await;
                    }
                }
                _ = summary.tick() => self.sum_up().await,
            }
        }
    }

    async fn sum_up(&mut self) {
        let lost = self.shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!(
                events = lost,
                "Events were not written: too many at once, or the API server did not take them"
            );
        }
        let said = self.shared.began.elapsed();
        let due = self.shared.series().due(said);
        for (message, name, count) in due {
            let at = text::wall_clock();
            self.write(Job { message, name, count: Some(count), at, said, failures: 0 }).await;
        }
    }

    async fn write(&mut self, mut job: Job) {
        let mut answer = self.ask(&job).await;
        // Another node has said it, or this one before it was started anew.
        if job.count.is_none() && answer.as_ref().is_err_and(|error| error.is_status(ALREADY_EXISTS)) {
            if job.failures > 0 {
                // Most likely it is this node's own, whose answer got lost.
                return;
            }
            job.count = Some(self.shared.series().already_told(&job.message));
            answer = self.ask(&job).await;
        }
        let Err(error) = answer else { return };
        let now = self.shared.began.elapsed();
        let lost = if is_passing(&error) { self.again.put(job, fastrand::f64(), now) } else { Some(job) };
        if let Some(Job { message, .. }) = lost {
            let error: &dyn std::error::Error = &error;
            debug!(reason = message.reason, error, "an Event was not written");
            self.shared.lose_one();
            // It is made anew when it is said again: it may have been there too long, or never.
            self.shared.series().forget(&message);
        }
    }

    async fn ask(&self, job: &Job) -> Result<String, RequestError> {
        let Job { message, name, count, at, .. } = job;
        let kube = &self.shared.kube;
        let call = match count {
            None => Call::post(path(message, None), &event(message, name, kube, *at)),
            Some(count) => {
                let series = json!({"series": {"count": count, "lastObservedTime": text::micro_time(*at)}});
                Call::patch(path(message, Some(name)), MERGE, &series)
            }
        };
        self.connections.ask(call, kube.server.limits().request()).await
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

/// Whether the same request may be answered otherwise soon.
fn is_passing(error: &RequestError) -> bool {
    error.code().is_none_or(|code| matches!(code, 408 | 429 | 500..))
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
