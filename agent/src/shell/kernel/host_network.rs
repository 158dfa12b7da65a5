//! The addresses, gateways and DNS servers of this host, which no VIP may take.

use std::{fs, io};

use tracing::debug;
use vipward_core::{
    host::{interfaces, net::NetView},
    records::NodeName,
    services::HostNetwork,
};

/// The file with the DNS servers, in this mount namespace. With the `dnsPolicy` of the manifests,
/// the kubelet copies the node's file there.
const RESOLVERS: &str = "/etc/resolv.conf";

/// Returns what a snapshot and the resolvers' file show. The arguments are those of
/// [`HostNetwork::of`].
pub(crate) fn host_network(node: NodeName, view: &NetView, attached: &[u32]) -> HostNetwork {
    let text = fs::read_to_string(RESOLVERS).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            debug!(%error, file = RESOLVERS, "the DNS servers are not read");
        }
        String::new()
    });
    HostNetwork::of(node, view, attached, interfaces::name_servers(&text))
}
