//! Reading: each type of object is listed once and then watched, and what is used of each object is passed on.
//!
//! One task a type. It lists page by page without `resourceVersion=0` (what decides is read from etcd), and watches
//! from the version of that list. Objects are parsed one by one into what is used of them, and passed on through one
//! bounded channel, so that no more than one page a type is in memory however many there are; of an object that was
//! passed on only its name is kept, to tell after a new list what has vanished meanwhile.
//!
//! A watch ends, and begins anew at the version it has come to, when
//! - the API server ends it, which it is asked to do after 30 to 60 seconds;
//! - its connection fails, which the kernel notices within the lease duration even if the other end just vanishes
//!   ([`super::connect`]);
//! - the API server does not end it 5 seconds after it was to: the connection lives, and what is behind it does not;
//! - it is the watch of the Leases, and nothing has come for half a lease duration, while renewals come through it
//!   every second; the others then begin anew too, as they do when renewals fail ([`super::alarm`]).
//!
//! So a dead way to the API server is noticed within the lease duration, and one watch that alone is stalled behind a
//! live connection within 65 seconds. Ownership is safe in either case: a stale view can only make writes that
//! conflict.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};
use tracing::{debug, info, warn};

use super::{
    Kube, Resource, Seen,
    alarm::Listener,
    connect::ConnectError,
    http::{Call, Connections, Lines, RequestError},
    meta::{Line, Page, Status},
    objects::{self, ObjectError, Parsed},
    problem::{Problem, Verb},
};
use crate::shell::causes::chain;

#[cfg(test)]
mod tests;

/// What waits to be taken; so many objects more are in memory.
const QUEUE: usize = 256;
/// Objects a page.
const PAGE: usize = 500;
/// And when a page of that size does not come in time.
const SMALL_PAGE: usize = 50;
/// How long a watch is asked to last, in seconds: not all at once begin anew.
const WATCH_SECONDS: std::ops::Range<u64> = 30..60;
/// The API server ends a watch that late at most.
const WATCH_GRACE: Duration = Duration::from_secs(5);
/// A watch that ends sooner, and has told nothing, has failed.
const WATCH_TOO_SHORT: Duration = Duration::from_secs(1);
/// The shortest and the longest time between two attempts.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// What is to be read besides what always is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    /// Namespaces.
    pub namespaces: bool,
    /// The labels of Services.
    pub service_labels: bool,
}

/// Reads until it is dropped.
pub struct Reader {
    _tasks: JoinSet<()>,
}

impl Reader {
    /// Begins to read; needs a tokio runtime.
    ///
    /// What is read comes out of the receiver, which must be emptied for reading to go on. Each type's objects come
    /// first, then [`Seen::Synced`], then changes; the same again after a gap in the changes, with what has vanished
    /// before the next [`Seen::Synced`].
    pub fn start(kube: &Kube, reading: Reading) -> Result<(Self, mpsc::Receiver<Seen>), ConnectError> {
        let (seen, receiver) = mpsc::channel(QUEUE);
        let connections = Arc::new(Connections::open(&kube.server)?);
        let mut tasks = JoinSet::new();
        for resource in Resource::ALL {
            if resource == Resource::Namespaces && !reading.namespaces {
                continue;
            }
            let one = One {
                resource,
                reading,
                kube: kube.clone(),
                connections: Arc::clone(&connections),
                seen: seen.clone(),
                alarm: kube.alarm.listen(),
                names: BTreeSet::new(),
                api_servers: BTreeMap::new(),
                trouble: None,
                failures: 0,
                page: PAGE,
                lively: false,
            };
            tasks.spawn(one.run());
        }
        Ok((Self { _tasks: tasks }, receiver))
    }
}

/// Why an attempt has ended.
enum Halt {
    /// Nobody listens any more.
    Closed,
    Problem(Problem),
}

impl From<Problem> for Halt {
    fn from(problem: Problem) -> Self {
        Self::Problem(problem)
    }
}

/// Nobody listens any more.
struct Closed;

impl From<Closed> for Halt {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// How a watch has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// It can go on from where it is.
    Over,
    /// What happened since is no longer known: a new list is due.
    Expired,
}

/// Reads one type of object.
struct One {
    resource: Resource,
    reading: Reading,
    kube: Kube,
    connections: Arc<Connections>,
    seen: mpsc::Sender<Seen>,
    alarm: Listener,
    /// What was passed on and not told to be gone.
    names: BTreeSet<Box<str>>,
    /// The API servers, by the `EndpointSlice` that names them.
    api_servers: BTreeMap<Box<str>, BTreeSet<IpAddr>>,
    /// What was told to be wrong.
    trouble: Option<Arc<Problem>>,
    /// Attempts that failed, in a row.
    failures: u32,
    page: usize,
    /// Whether something has come through the watch since it was last found silent.
    lively: bool,
}

impl One {
    async fn run(mut self) {
        let Err(Closed) = self.read_on().await;
    }

    async fn read_on(&mut self) -> Result<Infallible, Closed> {
        loop {
            match self.list().await {
                Ok(version) => self.follow(version).await?,
                Err(Halt::Closed) => return Err(Closed),
                Err(Halt::Problem(problem)) => {
                    self.tell_trouble(problem).await?;
                    self.pause().await;
                }
            }
        }
    }

    /// Watches from `version` on, until a new list is due.
    async fn follow(&mut self, mut version: String) -> Result<(), Closed> {
        loop {
            let began = Instant::now();
            let version_then = version.clone();
            let ended = self.watch(&mut version).await;
            let was_short = began.elapsed() < WATCH_TOO_SHORT && version == version_then;
            match ended {
                Ok(ended) => {
                    if was_short {
                        self.pause().await;
                    } else {
                        self.failures = 0;
                    }
                    if ended == Ended::Expired {
                        info!(resource = %self.resource, "changes were missed; listing anew");
                        return Ok(());
                    }
                }
                Err(Halt::Closed) => return Err(Closed),
                Err(Halt::Problem(problem)) => {
                    self.tell_trouble(problem).await?;
                    self.pause().await;
                }
            }
        }
    }

    /// Lists everything, and says which version that was.
    async fn list(&mut self) -> Result<String, Halt> {
        let mut version = None;
        let mut listed = BTreeSet::new();
        let mut next = String::new();
        loop {
            let text = self.list_page(&next).await?;
            let failed = |source| Problem::of(Verb::List, self.resource, RequestError::Unreadable(source));
            let Page { metadata, items } = serde_json::from_str(&text).map_err(failed)?;
            for item in items.unwrap_or_default() {
                if let Some(name) = self.pass_on(item.get()).await?.name {
                    listed.insert(name);
                }
            }
            let version = version.get_or_insert(metadata.resource_version);
            next = metadata.next.unwrap_or_default();
            if next.is_empty() {
                let vanished: Vec<_> = self.names.difference(&listed).cloned().collect();
                for name in vanished {
                    self.tell_gone(&name).await?;
                }
                self.tell(Seen::Synced(self.resource)).await?;
                self.tell_no_trouble().await?;
                return Ok(std::mem::take(version));
            }
        }
    }

    async fn list_page(&mut self, next: &str) -> Result<String, Problem> {
        let mut path = format!("{}?limit={}", self.kube.path(self.resource), self.page);
        if !next.is_empty() {
            path.push_str("&continue=");
            path.push_str(&super::escaped(next));
        }
        let answer = self.connections.ask(Call::get(path), self.kube.server.limits().request()).await;
        answer.map_err(|error| {
            if matches!(error, RequestError::Deadline { .. }) {
                self.page = SMALL_PAGE;
            }
            Problem::of(Verb::List, self.resource, error)
        })
    }

    /// Watches once, and moves `version` on.
    async fn watch(&mut self, version: &mut String) -> Result<Ended, Halt> {
        let limits = self.kube.server.limits();
        let seconds = fastrand::u64(WATCH_SECONDS);
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={seconds}",
            self.kube.path(self.resource),
            super::escaped(version),
        );
        self.alarm.forget();
        let body = match self.connections.stream(Call::get(path), limits.request()).await {
            Ok(body) => body,
            Err(error) if error.is_status(410) => return Ok(Ended::Expired),
            Err(error) => return Err(Problem::of(Verb::Watch, self.resource, error).into()),
        };
        self.tell_no_trouble().await?;

        let mut lines = Lines::new(body);
        let end = Instant::now() + Duration::from_secs(seconds) + WATCH_GRACE;
        loop {
            let deadline = match self.resource {
                Resource::Leases => end.min(Instant::now() + limits.silence()),
                Resource::Services
                | Resource::EndpointSlices
                | Resource::Nodes
                | Resource::Namespaces
                | Resource::VirtualIps => end,
            };
            let line = tokio::select! {
                line = timeout_at(deadline, lines.next()) => line,
                () = self.alarm.raised() => {
                    debug!(resource = %self.resource, "the watch may be dead; it begins anew");
                    return Ok(Ended::Over);
                }
            };
            match line {
                Ok(Ok(Some(line))) => {
                    self.lively = true;
                    let text = lines.text(line);
                    if let Some(ended) = self.take_line(text, version).await? {
                        return Ok(ended);
                    }
                }
                Ok(Ok(None)) => return Ok(Ended::Over),
                Ok(Err(error)) => {
                    debug!(resource = %self.resource, error = &error as &dyn std::error::Error, "the watch broke");
                    return Ok(Ended::Over);
                }
                Err(_) => {
                    self.found_silent();
                    return Ok(Ended::Over);
                }
            }
        }
    }

    /// Nothing has come for too long.
    fn found_silent(&mut self) {
        // Once: while nobody renews, there is nothing to be heard.
        if std::mem::take(&mut self.lively) {
            info!(resource = %self.resource, "the watch is silent; all watches begin anew");
            self.alarm.raise();
        }
    }

    async fn take_line(&mut self, text: &[u8], version: &mut String) -> Result<Option<Ended>, Halt> {
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let unreadable = |source| Problem::of(Verb::Watch, self.resource, RequestError::Unreadable(source));
        let Line { kind, object } = serde_json::from_slice(text).map_err(unreadable)?;
        match &*kind {
            "ERROR" => {
                let status: Status = serde_json::from_str(object.get()).map_err(unreadable)?;
                if status.code == 410 {
                    return Ok(Some(Ended::Expired));
                }
                let Status { message, reason, code, details: _ } = status;
                let refused =
                    RequestError::Status { code, reason, message, causes: Vec::new(), retry_after: None };
                return Err(Problem::of(Verb::Watch, self.resource, refused).into());
            }
            "DELETED" => {
                let bare = objects::identity(object.get()).map_err(unreadable)?;
                self.tell_gone(&bare.name).await?;
                *version = bare.version;
            }
            "BOOKMARK" => *version = objects::identity(object.get()).map_err(unreadable)?.version,
            // ADDED and MODIFIED are the same to us.
            _ => *version = self.pass_on(object.get()).await?.version,
        }
        Ok(None)
    }

    /// Passes an object on.
    async fn pass_on(&mut self, object: &str) -> Result<Passed, Halt> {
        let parsed = match objects::parse(self.resource, object, &self.kube, self.reading) {
            Ok(parsed) => parsed,
            Err(error) => return self.pass_over(object, &error).await,
        };
        let Parsed { name, version, seen, is_ours, api_servers } = parsed;
        let is_known = self.names.contains(&name);
        if !is_ours && !is_known {
            return Ok(Passed { name: None, version });
        }
        if !is_known {
            self.names.insert(name.clone());
        }
        self.tell(seen).await?;
        if let Some(api_servers) = api_servers {
            self.api_servers.insert(name.clone(), api_servers);
            self.tell_api_servers().await?;
        }
        Ok(Passed { name: Some(name), version })
    }

    /// Takes an object that cannot be read for one that is not there.
    async fn pass_over(&mut self, object: &str, error: &ObjectError) -> Result<Passed, Halt> {
        let identity = objects::identity(object).unwrap_or_default();
        let error: &(dyn std::error::Error + Sync) = error;
        warn!(resource = %self.resource, name = &*identity.name, error = chain(error), "an object cannot be read");
        self.tell_gone(&identity.name).await?;
        Ok(Passed { name: None, version: identity.version })
    }

    async fn tell_api_servers(&self) -> Result<(), Closed> {
        self.tell(Seen::ApiEndpoints(self.api_servers.values().flatten().copied().collect())).await
    }

    async fn tell_gone(&mut self, name: &str) -> Result<(), Closed> {
        if !self.names.remove(name) {
            return Ok(());
        }
        if let Some(gone) = objects::gone(self.resource, name, &self.kube) {
            self.tell(gone).await?;
        }
        if self.api_servers.remove(name).is_some() {
            self.tell_api_servers().await?;
        }
        Ok(())
    }

    async fn tell_trouble(&mut self, problem: Problem) -> Result<(), Closed> {
        if self.trouble.as_ref().is_some_and(|told| told.is_like(&problem)) {
            return Ok(());
        }
        let problem = Arc::new(problem);
        self.trouble = Some(Arc::clone(&problem));
        self.tell(Seen::Trouble { resource: self.resource, problem }).await
    }

    async fn tell_no_trouble(&mut self) -> Result<(), Closed> {
        match self.trouble.take() {
            Some(_) => self.tell(Seen::TroubleOver { resource: self.resource }).await,
            None => Ok(()),
        }
    }

    async fn tell(&self, seen: Seen) -> Result<(), Closed> {
        self.seen.send(seen).await.map_err(|_| Closed)
    }

    /// Waits before the next attempt; not longer than until somebody thinks that it may succeed.
    async fn pause(&mut self) {
        let pause = pause(self.failures, fastrand::f64());
        self.failures = self.failures.saturating_add(1);
        tokio::select! {
            () = sleep(pause) => {}
            () = self.alarm.raised() => self.alarm.forget(),
        }
    }
}

/// An object that was looked at: its name, if it was passed on, and its version.
struct Passed {
    name: Option<Box<str>>,
    version: String,
}

/// How long to wait after `failures` failures in a row, with `random` in 0..1.
fn pause(failures: u32, random: f64) -> Duration {
    let (shortest, longest) = PAUSE;
    let most = shortest.saturating_mul(2_u32.saturating_pow(failures.saturating_add(1))).min(longest);
    shortest + most.saturating_sub(shortest).mul_f64(random)
}
