//! Dumps of the kernel's tables, and why an observation fails.

use std::io;

use rtnetlink::packet_route::RouteNetlinkMessage;

use super::{
    exchange::{Exchange, ExchangeError},
    messages::Malformed,
};

/// Number of attempts at a dump. A network that still changes is observed later.
pub(super) const MAX_ATTEMPTS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    #[error("failed to subscribe to rtnetlink notifications")]
    Subscribe(#[source] io::Error),
    #[error("failed to receive rtnetlink notifications")]
    Receive(#[source] io::Error),
    #[error("failed to observe this host's {what}")]
    Observe {
        /// `links`, `addresses`, `routes`, `neighbours` or `neighbour proxies`.
        what: &'static str,
        #[source]
        source: ExchangeError,
    },
    #[error("failed to query the programs of tcx on interface {ifindex}")]
    Query {
        ifindex: u32,
        #[source]
        source: io::Error,
    },
}

pub(super) async fn dump<T>(
    what: &'static str,
    request: &RouteNetlinkMessage,
    parse: fn(&[u8]) -> Result<T, Malformed>,
) -> Result<Vec<T>, NetlinkError> {
    let attempt = async || {
        let mut found = Vec::new();
        let each = |payload: &[u8]| parse(payload).map(|one| found.push(one));
        Exchange::open()?.dump(request.clone(), each).await?;
        Ok(found)
    };
    until_settled(attempt).await.map_err(|source| NetlinkError::Observe { what, source })
}

/// Repeats a dump that a change interrupted: it may lack things that did not change.
///
/// If the attempts run out, the changes have left a notification, which leads to the next
/// observation.
pub(super) async fn until_settled<T>(
    mut attempt: impl AsyncFnMut() -> Result<T, ExchangeError>,
) -> Result<T, ExchangeError> {
    let mut result = attempt().await;
    for _ in 1..MAX_ATTEMPTS {
        if !matches!(result, Err(ExchangeError::Interrupted)) {
            break;
        }
        tokio::task::yield_now().await;
        result = attempt().await;
    }
    result
}
