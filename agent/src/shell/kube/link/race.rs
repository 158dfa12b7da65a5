//! One request by several routes: the first good answer counts.
//!
//! A hedged request goes out by another route too when it has no answer in time, when its connection
//! fails, or when its route is given up. Reads, and writes that compare a version and swap, may be
//! carried out twice: the second time changes nothing.
//!
//! | the first answer | of a write that another attempt may have carried out |
//! |---|---|
//! | success | it counts. The other attempt gets 409, or none |
//! | a refusal with 4xx | the object is read. If it is as written, the write has succeeded; else it is in doubt |
//! | 404 to a deletion | it counts: the object is gone, whichever attempt came first |
//! | 408, 429, 5xx, a connection that fails | another attempt's answer counts, if there is one in time |

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use http::Method;
use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    call::Call,
    error::RequestError,
    servers::{Route, Servers},
};

#[cfg(test)]
mod tests;

/// Most attempts of a request.
const MOST_ATTEMPTS: usize = 3;

pub(super) struct Attempt {
    pub(super) route: Route,
    /// The number of the connections.
    pub(super) number: u64,
    pub(super) sent_at: Instant,
}

/// The attempts of one request.
pub(super) struct Race<T> {
    most: usize,
    hedge: Duration,
    turn: usize,
    pub(super) tried: Vec<Route>,
    /// The attempts without an answer.
    pub(super) open: Vec<Attempt>,
    answers: FuturesUnordered<BoxFuture<'static, (Route, Result<T, RequestError>)>>,
    falls: FuturesUnordered<BoxFuture<'static, Route>>,
    hedge_at: Instant,
    /// True if the next attempt is due.
    pub(super) is_due: bool,
    /// True if an attempt with an open answer may have been carried out.
    is_doubtful: bool,
    /// The last answer that leaves open what was done.
    pub(super) last: Option<Result<T, RequestError>>,
}

pub(super) enum Step<T> {
    Answered(Attempt, Result<T, RequestError>),
    /// The last attempt is late.
    Late,
    /// The connections of an open attempt's route were given up.
    Fallen,
    /// No attempt is open, and none is possible.
    Over(Result<T, RequestError>),
}

impl<T: 'static> Race<T> {
    pub(super) fn start(is_hedged: bool, hedge: Duration, turn: usize) -> Self {
        Self {
            most: if is_hedged { MOST_ATTEMPTS } else { 1 },
            hedge,
            turn,
            tried: Vec::new(),
            open: Vec::new(),
            answers: FuturesUnordered::new(),
            falls: FuturesUnordered::new(),
            hedge_at: Instant::now() + hedge,
            is_due: true,
            is_doubtful: false,
            last: None,
        }
    }

    fn may_go_on(&self) -> bool {
        self.tried.len() < self.most
    }

    /// Returns the route of the next attempt, if one is due and there is another route.
    pub(super) fn next(&mut self, servers: &Servers) -> Option<Route> {
        if !std::mem::take(&mut self.is_due) || !self.may_go_on() {
            return None;
        }
        let route = servers.next(&self.tried, self.most > 1, self.turn, Instant::now())?;
        self.tried.push(route);
        Some(route)
    }

    pub(super) fn add(
        &mut self,
        route: Route,
        number: u64,
        answer: BoxFuture<'static, Result<T, RequestError>>,
        mut falls: watch::Receiver<u64>,
    ) {
        let sent_at = Instant::now();
        self.open.push(Attempt { route, number, sent_at });
        self.hedge_at = sent_at + self.hedge;
        self.answers.push(answer.map(move |result| (route, result)).boxed());
        // It fails if the route is gone.
        let fall = async move {
            let _ = falls.changed().await;
            route
        };
        self.falls.push(fall.boxed());
    }

    /// Waits for what comes next. Safe to cancel.
    pub(super) async fn wait(&mut self) -> Step<T> {
        let may_go_on = self.may_go_on();
        loop {
            tokio::select! {
                answer = self.answers.next() => {
                    let Some((route, result)) = answer else {
                        let last = self.last.take();
                        return Step::Over(last.expect("invariant: without a route there is an error"));
                    };
                    let place = self.open.iter().position(|attempt| attempt.route == route);
                    let place = place.expect("invariant: an attempt is open until it is answered");
                    return Step::Answered(self.open.swap_remove(place), result);
                }
                () = sleep_until(self.hedge_at), if may_go_on => {
                    self.hedge_at = Instant::now() + self.hedge;
                    return Step::Late;
                }
                Some(route) = self.falls.next(), if may_go_on => {
                    // An attempt that fails makes its route fall. It is answered, and no longer open.
                    if self.open.iter().any(|attempt| attempt.route == route) {
                        return Step::Fallen;
                    }
                }
            }
        }
    }

    /// Records an open answer of an attempt. The next attempt is due, unless the server asks for time.
    pub(super) fn goes_on_after(&mut self, result: Result<T, RequestError>) {
        let Err(error) = &result else { return };
        self.is_doubtful |= !error.is_certainly_undone();
        self.is_due = !error.asks_for_time();
        self.last = Some(result);
    }

    /// Returns true if another attempt than the last one that was answered may have been carried out.
    pub(super) fn may_be_done(&self) -> bool {
        self.is_doubtful || !self.open.is_empty()
    }
}

/// Returns true if a result leaves open whether the request was carried out, so that another
/// attempt's answer is better.
pub(super) fn is_open<T>(result: &Result<T, RequestError>) -> bool {
    match result {
        Ok(_) => false,
        Err(RequestError::Refused { status, .. }) => matches!(status.code, 408 | 429 | 500..),
        Err(_) => true,
    }
}

impl Call {
    /// Returns true if a refusal does not show what became of another attempt of this call. A deletion has
    /// succeeded if the object is gone.
    pub(super) fn is_in_doubt_after(&self, refusal: &RequestError) -> bool {
        let is_gone = refusal.is_status(404) && !refusal.is_unknown_type();
        match *self.request.method() {
            Method::GET => false,
            Method::DELETE if is_gone => false,
            _ => refusal.code().is_some_and(|code| (400..500).contains(&code)),
        }
    }

    /// Returns the read of the object that this call writes. None: it writes none.
    pub(super) fn read_back(&self) -> Option<Self> {
        let path = self.request.uri().path();
        let path = match *self.request.method() {
            Method::PATCH => path.to_owned(),
            Method::POST => {
                let object: Value = serde_json::from_slice(self.request.body()).ok()?;
                format!("{path}/{}", object["metadata"]["name"].as_str()?)
            }
            _ => return None,
        };
        let request = http::Request::get(path).body(Vec::new()).ok()?;
        Some(Self { resource: self.resource, verb: "get", request })
    }

    /// Returns true if an object is as this call, a creation or a merge patch, has written it.
    pub(super) fn has_written(&self, stored: &str) -> bool {
        let parsed = serde_json::from_str(stored).ok().zip(serde_json::from_slice(self.request.body()).ok());
        parsed.is_some_and(|(stored, mut written): (Value, Value)| {
            if let Some(metadata) = written["metadata"].as_object_mut() {
                // The version that the write expected, which it has replaced.
                metadata.remove("resourceVersion");
            }
            has(&stored, &written)
        })
    }
}

/// Returns true if a value has all that was written. Null stands for a field that is not there.
fn has(stored: &Value, written: &Value) -> bool {
    match written {
        Value::Object(fields) => fields.iter().all(|(name, field)| has(&stored[name.as_str()], field)),
        written => stored == written,
    }
}
