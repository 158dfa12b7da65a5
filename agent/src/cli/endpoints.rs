//! The arguments of the HTTP endpoints: where they are served, and what the metrics leave out.

use std::{
    net::{AddrParseError, IpAddr},
    str::FromStr,
};

use clap::Args;
use thiserror::Error;

/// The port of an agent's HTTP endpoints.
pub const PORT: u16 = 9_647;
/// The most VIPs that have series of their own, unless the operator sets another number.
const DEFAULT_MAX_VIPS: usize = 1_000;

/// The addresses that serve `/metrics`, `/livez`, `/readyz` and `/debug/state`.
#[derive(Args, Debug)]
#[command(next_help_heading = "HTTP endpoints")]
pub struct EndpointArgs {
    /// Serve /metrics, /livez, /readyz and (for this host only) /debug/state on this address;
    /// repeatable. `none`: nowhere. Default: 127.0.0.1, and in a cluster the pod's address too.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Vec<ListenAddress>,
    /// The port of the endpoints, on all of their addresses.
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub listen_port: u16,
    /// With more VIPs than this, none has metrics of its own.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_VIPS)]
    pub metrics_max_vips: usize,
}

impl EndpointArgs {
    /// Returns where to listen, in a cluster with the pod's address.
    pub fn listen(&self, pod: Option<IpAddr>, needs_loopback: bool) -> Listen {
        Listen { addresses: self.listen.clone(), port: self.listen_port, pod, needs_loopback }
    }
}

/// The operator's choice of where to serve the endpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The addresses; if empty, the default ones.
    pub addresses: Vec<ListenAddress>,
    /// The port on all of them.
    pub port: u16,
    /// The pod's address, a default one in a cluster.
    pub pod: Option<IpAddr>,
    /// True if the agent must listen on the default loopback address, and ends if it cannot. The
    /// kubelet sends its probes there, and would end the agent anyway.
    pub needs_loopback: bool,
}

/// An address, or none at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    Nowhere,
    At(IpAddr),
}

#[derive(Debug, Error)]
#[error("it must be an IP address, or `none`")]
pub struct ListenAddressError(#[source] AddrParseError);

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::Nowhere),
            address => address.parse().map(Self::At).map_err(ListenAddressError),
        }
    }
}
