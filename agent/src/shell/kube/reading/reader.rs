//! Reads objects: lists each type once, and then watches it.
//!
//! Each type has a task. It lists page by page, and then watches from the version of the list. The list
//! is without `resourceVersion=0`, so that decisions rest on a reading of etcd. It parses objects one
//! by one, and delivers them through one bounded channel. Memory holds at most one page of a type, and
//! the name of each delivered object.
//!
//! A watch ends, and begins anew at the version that it has reached, when
//! - the API server ends it, as requested, after 30 to 60 seconds;
//! - its connection fails, which the kernel notices within the lease duration (`link::connect`);
//! - the API server is 5 seconds late to end it: the connection lives, but the server does not answer;
//! - it is the watch of the Leases, and nothing has come for half a lease duration, although nodes
//!   renew every second. All other watches begin anew too, as they do when this node's renewals
//!   fail ([`super::alarm`]).
//!
//! So the agent notices a dead way to the API server within the lease duration. It notices a single
//! watch that stalls behind a live connection within 65 seconds. Ownership is safe meanwhile: a stale
//! view can only cause writes that conflict.
//!
//! A watch ends, and everything is listed anew, when
//! - the API server has forgotten the changes since its version (410), or refuses the version;
//! - the watch of the Leases delivers nothing twice in a row although this node's renewals succeed: its
//!   version may be in the future of a store that went back ([`Silence`]);
//! - a caller requests it ([`Kube::list_anew`]);
//! - the list of another type is older than the known state: etcd was restored from a snapshot.
//!   Every object of a list is delivered whatever its version, since the lower may be the newer.
//!
//! Each type is listed at most once a second.

mod delivery;
mod refusals;
mod silence;

use std::{convert::Infallible, error::Error, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    api::{ListParams, WatchParams},
    core::{ObjectList, WatchEvent},
};
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout_at},
};
use tracing::{debug, info};
use vipward_core::records::Version;

use self::{
    delivery::{Closed, Delivery},
    refusals::{Refusals, pause},
    silence::{Remedy, Silence},
};
use super::{
    alarm::Listener,
    objects::{self, Reading},
    read_error::{ReadError, Verb},
    seen::Seen,
    shared::Kube,
};
use crate::shell::kube::{
    kinds::resource::Resource,
    link::{connect::ConnectError, error::RequestError, http::Connections},
};

const QUEUE: usize = 256;
const PAGE: u32 = 500;
/// Number of objects in a page after a larger page did not come in time.
const SMALL_PAGE: u32 = 50;
/// Requested duration of a watch in seconds, random so that not all watches begin anew at once.
const WATCH_SECONDS: std::ops::Range<u32> = 30..60;
/// Longest delay with which the API server ends a watch.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// Shortest duration of a watch. One that ends sooner, without an event, has failed.
const WATCH_TOO_SHORT: Duration = Duration::from_secs(1);
const PACE: Duration = Duration::from_secs(1);
/// The time between two lists of a type that the API server does not know.
const UNKNOWN_PACE: Duration = Duration::from_mins(5);

/// A reader that runs until it is dropped.
pub struct Reader {
    kube: Kube,
    reading: Reading,
    connections: Arc<Connections>,
    seen: mpsc::Sender<Seen>,
    tasks: JoinSet<()>,
}

impl Reader {
    /// Starts to read; needs a tokio runtime.
    ///
    /// The receiver must be emptied, or reading stops. It gets each type's objects first, then
    /// [`Seen::Synced`], then changes. After a gap in the changes, it gets the objects again, and those
    /// that are gone, before the next [`Seen::Synced`].
    pub fn start(
        kube: &Kube,
        resources: &[Resource],
        reading: Reading,
    ) -> Result<(Self, mpsc::Receiver<Seen>), ConnectError> {
        let (seen, receiver) = mpsc::channel(QUEUE);
        let connections = Arc::new(Connections::open(&kube.server)?);
        let mut reader = Self { kube: kube.clone(), reading, connections, seen, tasks: JoinSet::new() };
        for resource in resources {
            reader.read(*resource);
        }
        Ok((reader, receiver))
    }

    pub fn read(&mut self, resource: Resource) {
        let one = One {
            resource,
            reading: self.reading,
            kube: self.kube.clone(),
            connections: Arc::clone(&self.connections),
            delivery: Delivery::new(resource, self.reading, self.kube.clone(), self.seen.clone()),
            alarm: self.kube.alarm.listen(),
            failures: 0,
            refusals: Refusals::default(),
            page: PAGE,
            version: String::new(),
            listed: None,
            silence: Silence::default(),
        };
        self.tasks.spawn(one.run());
    }
}

enum Halt {
    Closed,
    ReadError(ReadError),
}

impl From<ReadError> for Halt {
    fn from(error: ReadError) -> Self {
        Self::ReadError(error)
    }
}

impl From<Closed> for Halt {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// An end that lets the next watch go on at the same version.
    Over,
    /// An end after which a new list is due: later changes are unknown, or the version was refused.
    Expired,
}

struct One {
    resource: Resource,
    reading: Reading,
    kube: Kube,
    connections: Arc<Connections>,
    delivery: Delivery,
    alarm: Listener,
    /// Number of attempts in a row that failed.
    failures: u32,
    refusals: Refusals,
    page: u32,
    /// The version that the last list, and the watch since, have reached; empty before the first
    /// list.
    version: String,
    /// The end of the last attempt to list.
    listed: Option<Instant>,
    silence: Silence,
}

impl One {
    async fn run(mut self) {
        let Err(Closed) = self.read_on().await;
    }

    async fn read_on(&mut self) -> Result<Infallible, Closed> {
        loop {
            if let Some(listed) = self.listed {
                sleep_until(listed + PACE).await;
            }
            let listed = self.list().await;
            self.listed = Some(Instant::now());
            match listed {
                Ok(()) => self.follow().await?,
                Err(Halt::ReadError(error)) if self.reading.does_without(self.resource, &error) => {
                    if error.is_forbidden() {
                        self.delivery.failed(error).await?;
                        self.delivery.keep_list().await?;
                    } else {
                        self.delivery.end_list(false).await?;
                    }
                    sleep(UNKNOWN_PACE).await;
                }
                Err(halt) => self.halt(halt).await?,
            }
        }
    }

    /// Watches from the last list on, until a new one is due.
    async fn follow(&mut self) -> Result<(), Closed> {
        loop {
            self.alarm.forget();
            if self.alarm.wants_list() {
                return Ok(());
            }
            let (began, version) = (Instant::now(), self.version.clone());
            let ended = self.watch().await;
            let was_short = began.elapsed() < WATCH_TOO_SHORT && self.version == version;
            match ended {
                Ok(ended) => {
                    if !was_short {
                        self.failures = 0;
                    } else if !self.alarm.wants_list() {
                        self.pause().await;
                    }
                    if ended == Ended::Expired {
                        info!(resource = %self.resource, "changes were missed; listing anew");
                        return Ok(());
                    }
                }
                Err(halt) => self.halt(halt).await?,
            }
        }
    }

    /// Reports the problem that ended an attempt, and waits for the next one.
    async fn halt(&mut self, halt: Halt) -> Result<(), Closed> {
        match halt {
            Halt::Closed => Err(Closed),
            Halt::ReadError(error) => {
                self.delivery.failed(error).await?;
                self.pause().await;
                Ok(())
            }
        }
    }

    /// Waits before the next attempt. Stops waiting as soon as the attempt may succeed.
    async fn pause(&mut self) {
        let pause = pause(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        tokio::select! {
            () = sleep(pause) => {}
            () = self.alarm.raised() => self.alarm.forget(),
        }
    }

    async fn list(&mut self) -> Result<(), Halt> {
        self.alarm.begin_list();
        self.delivery.begin_list();
        let mut version = None;
        let mut next = None;
        loop {
            let text = self.list_page(next).await?;
            let ObjectList::<&RawValue> { metadata, items, .. } =
                serde_json::from_str(&text).map_err(|error| self.unreadable(Verb::List, error))?;
            for item in items {
                self.delivery.object(item.get()).await?;
            }
            let version = version.get_or_insert(metadata.resource_version.unwrap_or_default());
            next = metadata.continue_.filter(|next| !next.is_empty());
            if next.is_none() {
                self.end_list(std::mem::take(version));
                self.delivery.end_list(true).await?;
                self.delivery.recovered().await?;
                return Ok(());
            }
        }
    }

    async fn list_page(&mut self, next: Option<String>) -> Result<String, ReadError> {
        let params = ListParams {
            limit: Some(self.page),
            continue_token: next,
            field_selector: self.resource.selector().map(str::to_owned),
            ..ListParams::default()
        };
        let call = self.kube.collection(self.resource).list(&params);
        self.connections.send(call, self.kube.server.limits().request()).await.map_err(|error| {
            if matches!(error, RequestError::Deadline { .. }) {
                self.page = SMALL_PAGE;
            }
            ReadError::of(Verb::List, self.resource, error)
        })
    }

    /// Continues from the version of a list. If that is older than the
    /// known state, all other types are listed too.
    fn end_list(&mut self, version: String) {
        let known = std::mem::replace(&mut self.version, version);
        let went_back = Version::from(&*self.version).is_older_than(&Version::from(&*known));
        if self.alarm.end_list(went_back) {
            info!(
                resource = %self.resource,
                known,
                listed = self.version,
                "the list is older than what was known; everything is listed anew"
            );
        }
    }

    /// Watches once, and moves the version on.
    async fn watch(&mut self) -> Result<Ended, Halt> {
        let limits = self.kube.server.limits();
        let seconds = fastrand::u32(WATCH_SECONDS);
        let mut params = WatchParams::default().timeout(seconds);
        params.field_selector = self.resource.selector().map(str::to_owned);
        let call = self.kube.collection(self.resource).watch(&params, &self.version);
        let mut events = match self.connections.watch(call, limits.request()).await {
            Ok(events) => events,
            Err(error) => return self.refused(error),
        };
        self.delivery.recovered().await?;

        let end = Instant::now() + Duration::from_secs(seconds.into()) + WATCH_GRACE;
        self.silence.begin(self.alarm.renewals());
        loop {
            let deadline = match self.resource {
                Resource::Leases => end.min(Instant::now() + limits.silence()),
                Resource::Services
                | Resource::EndpointSlices
                | Resource::ApiServers
                | Resource::Nodes
                | Resource::Namespaces
                | Resource::ServiceCidrs
                | Resource::VirtualIps
                | Resource::VipPools
                | Resource::MetalLb(_)
                | Resource::WireSecret => end,
            };
            let event = tokio::select! {
                event = timeout_at(deadline, events.next()) => event,
                () = self.alarm.raised() => {
                    debug!(resource = %self.resource, "the watch ends, since it may be dead or a list is due");
                    return Ok(Ended::Over);
                }
            };
            match event {
                Ok(Some(Ok(event))) => {
                    self.silence.received(self.alarm.renewals());
                    if let Some(ended) = self.take(event).await? {
                        return Ok(ended);
                    }
                }
                Ok(Some(Err(error @ (RequestError::Refused { .. } | RequestError::Unreadable(_))))) => {
                    return self.refused(error);
                }
                Ok(Some(Err(error))) => {
                    debug!(resource = %self.resource, error = &error as &dyn Error, "the watch broke");
                    return Ok(Ended::Over);
                }
                Ok(None) => {
                    self.refusals.forget();
                    return Ok(Ended::Over);
                }
                Err(_) => {
                    self.found_silent();
                    return Ok(Ended::Over);
                }
            }
        }
    }

    /// Acts on a watch that has delivered nothing for too long.
    fn found_silent(&mut self) {
        match self.silence.found(self.alarm.renewals()) {
            Remedy::Begin => {}
            Remedy::BeginAll => {
                info!(resource = %self.resource, "a watch delivers nothing; all watches begin anew");
                self.alarm.raise();
            }
            Remedy::ListAll => {
                info!(resource = %self.resource, "a watch still delivers nothing; everything is listed anew");
                self.alarm.list_anew();
            }
        }
    }

    /// Ends a watch that the API server refused. A list is due if another version may be accepted.
    fn refused(&mut self, error: RequestError) -> Result<Ended, Halt> {
        if self.refusals.needs_list(&error) {
            return Ok(Ended::Expired);
        }
        Err(ReadError::of(Verb::Watch, self.resource, error).into())
    }

    async fn take(&mut self, event: WatchEvent<Box<RawValue>>) -> Result<Option<Ended>, Halt> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                if self.resource == Resource::VirtualIps {
                    self.kube.overload.count(Instant::now());
                }
                self.delivery.object(object.get()).await?
            }
            WatchEvent::Deleted(object) => {
                let identity = objects::identity(object.get());
                let identity = identity.map_err(|error| self.unreadable(Verb::Watch, error))?;
                self.delivery.gone(&identity.name).await?;
                identity.version
            }
            WatchEvent::Bookmark(bookmark) => bookmark.metadata.resource_version,
            WatchEvent::Error(status) => {
                return self.refused(RequestError::Refused { status, retry_after: None }).map(Some);
            }
        };
        self.refusals.forget();
        self.version = version;
        Ok(None)
    }

    fn unreadable(&self, verb: Verb, error: serde_json::Error) -> ReadError {
        ReadError::of(verb, self.resource, RequestError::Unreadable(error))
    }
}
