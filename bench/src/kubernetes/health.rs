//! Health of the agents, as they report it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use vipward_tests::lan::{Host, http};

/// Address of the HTTP endpoints of an agent.
const HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9647);
const PATIENCE: Duration = Duration::from_secs(3);

/// Returns whether the agent on a host reports that it is ready.
pub(super) fn is_ready(host: &Host) -> bool {
    // Without an answer, the agent does not listen yet or is busy. It is not ready in either case.
    http::get_as(host, HEALTH, "/readyz", "*/*", PATIENCE).is_ok_and(|answer| answer.status == 200)
}
