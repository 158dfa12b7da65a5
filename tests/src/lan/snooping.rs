//! Makes a switch snoop MLD.

use std::fs;

use anyhow::{Context, Result};
use rtnetlink::LinkBridge;

use super::{BRIDGE, Lan, NetNs};

/// Time between two queries, in hundredths of a second.
const QUERY_INTERVAL: u64 = 50;

impl Lan {
    /// Makes the switch snoop MLD as the querier of its LAN: some seconds later it passes frames for a
    /// multicast group to members alone. It forgets a port 1.5 s after its last report, or a
    /// moment after the last member has left.
    pub fn snoop_mld(&self) -> Result<()> {
        let switch = self.switch();
        // A querier has a link-local address.
        switch.set_ipv6(BRIDGE, true)?;
        let bridge = LinkBridge::new(BRIDGE)
            .mcast_query_response_interval(QUERY_INTERVAL / 2)
            .mcast_query_interval(QUERY_INTERVAL)
            .mcast_startup_query_interval(QUERY_INTERVAL)
            .mcast_membership_interval(QUERY_INTERVAL * 3)
            .mcast_last_member_interval(QUERY_INTERVAL / 5)
            .mcast_querier(true)
            .mcast_snooping(true)
            .build();
        switch
            .netlink(async |handle| handle.link().change(bridge).execute().await)
            .context("failed to make the switch snoop")
    }
}

impl NetNs {
    /// Switches IPv6 on or off for an interface.
    pub fn set_ipv6(&self, interface: &str, on: bool) -> Result<()> {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
        self.run(|| fs::write(&path, if on { "0" } else { "1" }))
            .with_context(|| format!("failed to write {path}"))
    }
}
