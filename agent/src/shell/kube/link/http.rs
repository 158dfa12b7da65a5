//! Connections to the API servers: each request has a deadline, and one result.
//!
//! kube's `Client` sends. Its `request_text` is not used for single answers: it hides the header
//! `Retry-After`, has no limit for the length, and holds each answer twice.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::BoxStream};
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::BodyExt as _;
use kube::{
    Client,
    client::Body,
    core::{Status, WatchEvent},
};
use serde_json::value::RawValue;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, timeout},
};
use vipward_core::base::legible::Excerpt;

use super::{
    call::Call,
    connect::{ConnectError, Server},
    error::{ConnectionError, RequestError},
    race::{Attempt, Race, Step, is_open},
    servers::Route,
};

#[cfg(test)]
mod tests;

/// Length of the longest answer that is read, in bytes. A page of the largest objects that the API
/// server stores is far shorter.
const MAX_ANSWER: usize = 256 * 1024 * 1024;
/// Length to which the text of a refusal is cut, in characters, when it may be a page of HTML.
const MAX_TEXT: usize = 512;

/// The time for which an operator's command waits for an API server that is busy.
pub(crate) const BUSY: Duration = Duration::from_secs(5);

/// Most requests of these connections that go out twice because they are late.
const MOST_LATE: usize = 4;

/// The events of a watch. A drop ends the watch. Waiting for the next event is safe to cancel.
pub(crate) type Events = BoxStream<'static, Result<WatchEvent<Box<RawValue>>, RequestError>>;

/// Connections to the API servers for one purpose.
pub(crate) struct Connections {
    server: Server,
    /// True if a request is sent by another route too when it has no answer in time.
    is_hedged: bool,
    /// Places for requests that are late and go out twice. They are few, so that servers which are slow
    /// get no more requests for it.
    late: Semaphore,
    clients: Mutex<BTreeMap<Route, Numbered>>,
    /// Number of requests so far.
    turns: AtomicUsize,
}

struct Numbered {
    number: u64,
    /// The number of the credentials.
    credentials: u64,
    /// Shows when the route's connections are given up.
    falls: watch::Receiver<u64>,
    /// The value of [`Servers::hangs`](super::servers::Servers::hangs) when they were opened. None: a
    /// request over them had no answer in time.
    hangs: Option<u64>,
    client: Client,
}

/// Sends a request once. The receiver shows when the route's connections are given up.
trait Sends<T>:
    Fn(Client, Request<Vec<u8>>, watch::Receiver<u64>) -> BoxFuture<'static, Result<T, RequestError>>
{
}

impl<T, F> Sends<T> for F where
    F: Fn(Client, Request<Vec<u8>>, watch::Receiver<u64>) -> BoxFuture<'static, Result<T, RequestError>>
{
}

impl Connections {
    /// Opens connections that send each request once.
    pub(crate) fn open(server: &Server) -> Result<Self, ConnectError> {
        Self::new(server, false)
    }

    /// Opens connections that send a request by another route too when it has no answer in time. Its
    /// writes must be creations or merge patches that expect a version.
    pub(crate) fn hedged(server: &Server) -> Result<Self, ConnectError> {
        Self::new(server, true)
    }

    fn new(server: &Server, is_hedged: bool) -> Result<Self, ConnectError> {
        let clients = Mutex::new(BTreeMap::new());
        let (late, turns) = (Semaphore::new(MOST_LATE), AtomicUsize::new(0));
        let this = Self { server: server.clone(), is_hedged, late, clients, turns };
        this.client(Route::Configured(0))?;
        Ok(this)
    }

    /// Returns the text of a good answer, if it comes completely within `limit`.
    pub(crate) async fn send(&self, call: Call, limit: Duration) -> Result<String, RequestError> {
        let end = Instant::now() + limit;
        let (answer, may_be_done) = self.send_within(&call, limit).await;
        match answer {
            Err(error) if may_be_done && call.is_in_doubt_after(&error) => {
                self.read_back(&call, error, end).await
            }
            answer => answer,
        }
    }

    /// Sends a request of an operator. Sends it again for `patience` while the API server is busy: it is for a
    /// moment after a definition has changed.
    pub(crate) async fn insist(
        &self,
        call: Call,
        limit: Duration,
        patience: Duration,
    ) -> Result<String, RequestError> {
        const AGAIN: Duration = Duration::from_millis(250);

        let deadline = Instant::now() + patience;
        loop {
            match self.send(call.clone(), limit).await {
                Err(error) if error.is_status(429) && Instant::now() < deadline => {
                    tokio::time::sleep(AGAIN).await;
                }
                answer => return answer,
            }
        }
    }

    async fn send_within(&self, call: &Call, limit: Duration) -> (Result<String, RequestError>, bool) {
        let server: Arc<str> = self.server.url().into();
        self.within(call, limit, self.is_hedged, |client: Client, request: Request<Vec<u8>>, _| {
            let server = Arc::clone(&server);
            async move {
                let answer = client.send(request.map(Body::from)).await;
                read(answer.map_err(|error| failed(&server, error))?, &server).await
            }
            .boxed()
        })
        .await
    }

    /// Finds out by the object if another attempt of a refused write was carried out. An object that is not
    /// as it was written shows nothing: another node may have read it, and written its own since.
    async fn read_back(
        &self,
        call: &Call,
        refusal: RequestError,
        end: Instant,
    ) -> Result<String, RequestError> {
        let in_doubt = Err(RequestError::InDoubt(refusal.into()));
        let Some(get) = call.read_back() else { return in_doubt };
        let object = self.send_within(&get, end.saturating_duration_since(Instant::now())).await.0;
        object.ok().filter(|object| call.has_written(object)).map_or(in_doubt, Ok)
    }

    /// Returns the events of a watch, if it begins within `limit`. They end when its route is given up.
    pub(crate) async fn watch(&self, call: Call, limit: Duration) -> Result<Events, RequestError> {
        let server: Arc<str> = self.server.url().into();
        let begun = self.within(&call, limit, true, |client: Client, request, mut falls| {
            let server = Arc::clone(&server);
            async move {
                let events = client.request_events(request).await.map_err(|error| failed(&server, error))?;
                let events = events.map(move |event| event.map_err(|error| failed(&server, error)));
                Ok(events.take_until(Box::pin(async move { falls.changed().await })).boxed())
            }
            .boxed()
        });
        begun.await.0
    }

    /// Runs `send` within `limit`, by one route after the other if it is hedged, and counts the requests
    /// and a failure. Also returns true if another attempt than the one that was answered may have been
    /// carried out.
    async fn within<T: 'static>(
        &self,
        call: &Call,
        limit: Duration,
        is_hedged: bool,
        send: impl Sends<T>,
    ) -> (Result<T, RequestError>, bool) {
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        let mut race = Race::start(is_hedged, self.server.limits().hedge(), turn);
        let in_time = timeout(limit, self.run(&mut race, call, send)).await;
        let result = in_time.unwrap_or_else(|_| {
            for attempt in &race.open {
                self.server.servers().failed(attempt.route, attempt.sent_at, Instant::now());
                self.server.servers().hung(attempt.route, attempt.sent_at);
                self.give_up(attempt);
            }
            let none = || Err(RequestError::Deadline { server: self.server.url(), limit });
            race.last.take().unwrap_or_else(none)
        });
        if let Err(error) = &result {
            self.server.requests().failed(call.resource, error.kind());
        }
        (result, race.may_be_done())
    }

    async fn run<T: 'static>(
        &self,
        race: &mut Race<T>,
        call: &Call,
        send: impl Sends<T>,
    ) -> Result<T, RequestError> {
        let servers = self.server.servers();
        let mut late = None;
        loop {
            if let Some(route) = race.next(servers) {
                match self.client(route) {
                    Ok((number, client, falls)) => {
                        self.server.requests().sent(call.resource, call.verb);
                        race.add(route, number, send(client, call.request.clone(), falls.clone()), falls);
                    }
                    Err(error) => race.last = Some(Err(error.into())),
                }
            }
            match race.wait().await {
                Step::Answered(attempt, result) => {
                    self.judge(&attempt, &race.open, &result);
                    if !is_open(&result) {
                        return result;
                    }
                    race.goes_on_after(result);
                }
                Step::Late => {
                    late = late.or_else(|| self.late.try_acquire().ok());
                    let is_avoided = |attempt: &Attempt| servers.is_avoided(attempt.route, Instant::now());
                    race.is_due = late.is_some() || race.open.iter().any(is_avoided);
                }
                Step::Fallen => race.is_due = true,
                Step::Over(result) => return result,
            }
        }
    }

    /// Records what the answer to an attempt shows about its route, and about those of attempts that
    /// have none yet.
    fn judge<T>(&self, attempt: &Attempt, open: &[Attempt], result: &Result<T, RequestError>) {
        let (servers, now) = (self.server.servers(), Instant::now());
        if !is_open(result) {
            servers.answered(attempt.route, now);
            for late in open {
                servers.overtaken(late.route, late.sent_at, now);
            }
        } else if !matches!(result, Err(RequestError::Refused { .. })) {
            servers.failed(attempt.route, attempt.sent_at, now);
        }
    }

    /// Returns the present connections of a route: new ones if the credentials have changed, or if they
    /// were given up or a request hung. A watch keeps the connection on which it began.
    fn client(&self, route: Route) -> Result<(u64, Client, watch::Receiver<u64>), ConnectError> {
        let credentials = self.server.credentials();
        let mut clients = self.clients.lock().expect("invariant: no thread panics with this lock");
        let known = clients.get(&route);
        let hangs = Some(self.server.servers().hangs(route));
        let is_good = |known: &Numbered| {
            known.credentials == credentials
                && known.hangs == hangs
                && known.falls.has_changed().is_ok_and(|fallen| !fallen)
        };
        if !known.is_some_and(is_good) {
            let number = known.map_or(0, |known| known.number + 1);
            let falls = self.server.servers().falls(route);
            match self.server.connect(route) {
                Ok((credentials, client)) => {
                    // Those of routes that are gone are of no use.
                    clients.retain(|_, known| known.falls.has_changed().is_ok());
                    clients.insert(route, Numbered { number, credentials, falls, hangs, client });
                }
                Err(error) if known.is_none() => return Err(error),
                Err(_) => {}
            }
        }
        let known = clients.get(&route).expect("invariant: it was there, or was made");
        Ok((known.number, known.client.clone(), known.falls.clone()))
    }

    /// Has the next request by a route open new connections: if one hangs, all may be dead.
    fn give_up(&self, attempt: &Attempt) {
        let mut clients = self.clients.lock().expect("invariant: no thread panics with this lock");
        let known = clients.get_mut(&attempt.route).filter(|known| known.number == attempt.number);
        if let Some(known) = known {
            known.hangs = None;
        }
    }
}

/// Returns the text of a good answer, or else the refusal.
async fn read(answer: Response<Body>, server: &str) -> Result<String, RequestError> {
    let status = answer.status();
    let header = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let text = collect(answer.into_body(), server).await;
    if status.is_success() { text } else { Err(refusal(status, &text.unwrap_or_default(), header)) }
}

/// Returns the error that a refusal describes.
fn refusal(code: StatusCode, text: &str, retry_after_seconds: Option<u32>) -> RequestError {
    let parsed = serde_json::from_str::<Status>(text).ok().filter(|parsed| parsed.code != 0);
    let mut status = parsed.unwrap_or_else(|| {
        let words = text.trim();
        let words = if words.is_empty() { code.to_string() } else { words.to_owned() };
        Status::failure(&words, "")
    });
    shorten(&mut status);
    let details = status.details.as_ref().map(|details| details.retry_after_seconds);
    let retry_after = retry_after_seconds.or(details.filter(|seconds| *seconds > 0));
    RequestError::Refused {
        status: status.with_code(code.as_u16()).boxed(),
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.into())),
    }
}

/// Shortens the API server's message, which repeats values of users.
fn shorten(status: &mut Status) {
    status.message = Excerpt::of(&status.message, MAX_TEXT).to_string();
}

fn failed(server: &str, error: kube::Error) -> RequestError {
    match error {
        kube::Error::Api(mut status) => {
            shorten(&mut status);
            RequestError::Refused { status, retry_after: None }
        }
        kube::Error::SerdeError(source) => RequestError::Unreadable(source),
        error => RequestError::Connection { server: server.to_owned(), source: ConnectionError::new(error) },
    }
}

async fn collect(mut body: Body, server: &str) -> Result<String, RequestError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| failed(server, error))?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() > MAX_ANSWER {
            return Err(RequestError::TooLong { limit_bytes: MAX_ANSWER });
        }
    }
    String::from_utf8(bytes).map_err(RequestError::NotText)
}
