//! The DNS servers of this host, which no VIP may take.

use std::{collections::BTreeSet, fs, io, net::IpAddr};

use tracing::debug;
use vipward_core::host::interfaces;

/// The file with the DNS servers, in this mount namespace. With the `dnsPolicy` of the manifests,
/// the kubelet copies the node's file there.
const RESOLVERS: &str = "/etc/resolv.conf";

pub(crate) fn name_servers() -> BTreeSet<IpAddr> {
    let text = fs::read_to_string(RESOLVERS).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            debug!(%error, file = RESOLVERS, "the DNS servers are not read");
        }
        String::new()
    });
    interfaces::name_servers(&text)
}
