//! The API servers: the routes to them, and which of them are avoided for now.
//!
//! The endpoints of the Service `kubernetes` are the API servers. If there are several, requests go to the
//! endpoints themselves. The configured address may be that of the Service: kube-proxy sends a share of
//! the new connections to a dead server until its endpoint is gone, which takes 10 to 15 seconds.
//!
//! A route on which a request fails is avoided for a while, and so is one to a node that the failure
//! detector finds unresponsive. With one API server there is one route, which is never avoided.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use vipward_core::records::NodeName;

#[cfg(test)]
mod tests;

/// Time for which a route is avoided after its first failure. It doubles with each further one.
const AVOIDED: Duration = Duration::from_secs(2);
/// Most endpoints that are used. Whoever edits them must not cost any number of requests that fail.
const MOST_ENDPOINTS: usize = 16;
const AVOIDED_AT_MOST: Duration = Duration::from_mins(5);

/// A way to an API server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Route {
    /// To an endpoint of the Service `kubernetes`.
    Direct(SocketAddr),
    /// By the configured address. A second one has connections of its own, which may lead to another
    /// server.
    Configured(u8),
}

impl Route {
    /// Returns the address to connect to, if it is not the configured one.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Direct(address) => Some(address),
            Self::Configured(_) => None,
        }
    }
}

/// The routes. All connections of an agent share them.
#[derive(Debug)]
pub(crate) struct Servers {
    /// False if the configured address is more than that of an API server, so that its endpoints cannot
    /// stand for it.
    has_direct: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    endpoints: Vec<SocketAddr>,
    nodes: BTreeMap<NodeName, Vec<IpAddr>>,
    routes: BTreeMap<Route, Known>,
    /// The nodes that were unresponsive a moment ago, with the time.
    unresponsive: BTreeMap<NodeName, Instant>,
}

#[derive(Debug, Default)]
struct Known {
    /// Time of the last answer.
    answered: Option<Instant>,
    /// Number of failures since.
    failures: u32,
    avoided_until: Option<Instant>,
    /// Number of times that its connections were given up.
    falls: watch::Sender<u64>,
    /// Number of requests without an answer in time. What connected before may be dead.
    hangs: u64,
}

impl Known {
    fn is_avoided(&self, now: Instant) -> bool {
        self.avoided_until.is_some_and(|until| now < until)
    }

    fn fail(&mut self, now: Instant) {
        let longer = 2_u32.saturating_pow(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.avoided_until = Some(now + AVOIDED.saturating_mul(longer).min(AVOIDED_AT_MOST));
    }

    fn fall(&self) {
        self.falls.send_modify(|falls| *falls += 1);
    }

    /// Returns the order in which routes are taken; the least first. Only the first attempt of a hedged
    /// request takes an endpoint that is not proven: whoever edits the endpoints must not stop requests.
    fn rank(&self, route: Route, may_prove: bool, now: Instant) -> u8 {
        let is_proven = self.answered.is_some() && self.failures == 0;
        match route {
            _ if self.is_avoided(now) => 3,
            Route::Direct(_) if !may_prove && !is_proven => 2,
            Route::Configured(_) => 1,
            Route::Direct(_) => 0,
        }
    }
}

impl Servers {
    /// Starts with the configured address alone.
    pub(crate) fn start(has_direct: bool) -> Self {
        let routes = BTreeMap::from([(Route::Configured(0), Known::default())]);
        Self { has_direct, state: Mutex::new(State { routes, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("invariant: no thread panics with this lock")
    }

    /// Sets the endpoints of the Service `kubernetes`. Those above the limit are left out.
    pub(crate) fn set_endpoints(&self, mut endpoints: Vec<SocketAddr>) {
        endpoints.truncate(MOST_ENDPOINTS);
        let state = &mut *self.state();
        let mut routes: Vec<Route> = endpoints.iter().copied().map(Route::Direct).collect();
        state.endpoints = endpoints;
        let are_several = routes.len() > 1;
        routes.retain(|_| are_several && self.has_direct);
        routes.extend(are_several.then_some(Route::Configured(1)));
        routes.push(Route::Configured(0));
        state.routes.retain(|route, _| routes.contains(route));
        for route in routes {
            state.routes.entry(route).or_default();
        }
    }

    /// Sets the addresses of a node. None: it is gone.
    pub(crate) fn set_node(&self, node: NodeName, addresses: Vec<IpAddr>) {
        let nodes = &mut self.state().nodes;
        if addresses.is_empty() {
            nodes.remove(&node);
        } else {
            nodes.insert(node, addresses);
        }
    }

    /// Avoids the routes to a node that is unresponsive, and gives up all connections that may lead
    /// there. Further news of the same failure change nothing.
    pub(crate) fn avoid(&self, node: &NodeName, now: Instant) {
        let State { endpoints, nodes, routes, unresponsive } = &mut *self.state();
        unresponsive.retain(|_, since| now < *since + AVOIDED);
        if unresponsive.contains_key(node) {
            return;
        }
        unresponsive.insert(node.clone(), now);
        let of_node = nodes.get(node).map(Vec::as_slice).unwrap_or_default();
        let mut endpoints = endpoints.iter();
        // Which server a connection by the configured address leads to is not known.
        let may_run_one = of_node.is_empty() || endpoints.any(|endpoint| of_node.contains(&endpoint.ip()));
        if routes.len() < 2 || !may_run_one {
            return;
        }
        for (route, known) in routes {
            match route {
                Route::Direct(address) if of_node.contains(&address.ip()) => {
                    known.fail(now);
                    known.fall();
                }
                Route::Direct(_) => {}
                Route::Configured(_) => known.fall(),
            }
        }
    }

    /// Returns the route for the next attempt of a request, other than those of its earlier ones. Equal
    /// routes take turns.
    pub(crate) fn next(&self, tried: &[Route], is_hedged: bool, turn: usize, now: Instant) -> Option<Route> {
        let routes = &mut self.state().routes;
        let may_prove = is_hedged && tried.is_empty();
        let rank = |(route, known): (&Route, &Known)| (known.rank(*route, may_prove, now), *route);
        let untried = routes.iter().filter(|(route, _)| !tried.contains(route)).map(rank);
        let ranked: Vec<(u8, Route)> = untried.collect();
        let best = ranked.iter().map(|(rank, _)| *rank).min()?;
        let best: Vec<Route> =
            ranked.into_iter().filter(|(rank, _)| *rank == best).map(|(_, route)| route).collect();
        let route = best[turn % best.len()];
        let known = routes.get_mut(&route)?;
        if known.failures > 0 && !known.is_avoided(now) {
            // One request finds out if it works again. The others wait for its answer.
            known.avoided_until = Some(now + AVOIDED);
        }
        Some(route)
    }

    /// Returns the number of times that a route's connections were given up. It shows changes. A route
    /// that is gone has no more changes, and [`watch::Receiver::changed`] fails.
    pub(crate) fn falls(&self, route: Route) -> watch::Receiver<u64> {
        let state = self.state();
        state
            .routes
            .get(&route)
            .map_or_else(|| watch::Sender::new(0).subscribe(), |known| known.falls.subscribe())
    }

    /// Returns the number of requests by a route that had no answer in time.
    pub(crate) fn hangs(&self, route: Route) -> u64 {
        self.state().routes.get(&route).map_or(0, |known| known.hangs)
    }

    /// Records that a request had no answer in time, and that nothing else had one since it was sent: requests go
    /// over new connections. Watches have their own deadlines.
    pub(crate) fn hung(&self, route: Route, sent_at: Instant) {
        if let Some(known) = self.state().routes.get_mut(&route).filter(|it| it.answered < Some(sent_at)) {
            known.hangs += 1;
        }
    }

    pub(crate) fn answered(&self, route: Route, now: Instant) {
        if let Some(known) = self.state().routes.get_mut(&route) {
            (known.answered, known.failures, known.avoided_until) = (Some(now), 0, None);
        }
    }

    /// Avoids a route on which a request has failed, and gives up its connections, unless it has
    /// answered since the request was sent.
    pub(crate) fn failed(&self, route: Route, sent_at: Instant, now: Instant) {
        self.with_silent(route, sent_at, |known| {
            known.fail(now);
            known.fall();
        });
    }

    /// Avoids a route by which a request has no answer although it was sent later by another route, and
    /// has one there. After the first time the connections stay: all servers may just be slow.
    pub(crate) fn overtaken(&self, route: Route, sent_at: Instant, now: Instant) {
        self.with_silent(route, sent_at, |known| {
            if known.failures > 0 {
                known.fall();
            }
            known.fail(now);
        });
    }

    fn with_silent(&self, route: Route, sent_at: Instant, act: impl FnOnce(&mut Known)) {
        let routes = &mut self.state().routes;
        let is_only = routes.len() < 2;
        let known = routes.get_mut(&route).filter(|known| known.answered < Some(sent_at) && !is_only);
        known.map(act);
    }

    pub(crate) fn is_avoided(&self, route: Route, now: Instant) -> bool {
        self.state().routes.get(&route).is_none_or(|known| known.is_avoided(now))
    }
}
