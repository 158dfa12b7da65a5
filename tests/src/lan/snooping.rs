//! Makes a switch snoop MLD.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv6Addr;
use std::process::Command;

use anyhow::{Context, Result};
use rtnetlink::LinkBridge;
use serde_json::Value;

use super::{
    netns::NetNs,
    switch::{BRIDGE, Lan},
};
use crate::kit::output_of;

/// Time between two queries, in hundredths of a second: Linux takes no shorter one.
const QUERY_INTERVAL: u64 = 100;

impl Lan {
    /// Makes the switch snoop MLD, as [`NetNs::snoop_mld`] does.
    pub fn snoop_mld(&self) -> Result<()> {
        self.switch().snoop_mld(BRIDGE)
    }

    /// Returns the names of the hosts that the snooping switch knows as members of a group.
    pub fn members_of(&self, group: Ipv6Addr) -> Result<BTreeSet<String>> {
        let mut command = Command::new("bridge");
        command.args(["-json", "mdb", "show", "dev", BRIDGE]);
        self.switch().adopt(&mut command);
        let printed = output_of(command)?;
        let tables: Value =
            serde_json::from_str(&printed).with_context(|| format!("bridge printed: {printed}"))?;
        let entries = tables[0]["mdb"].as_array().cloned().unwrap_or_default();
        let of_group = entries.iter().filter(|entry| entry["grp"] == group.to_string());
        // A port is named after its number and its host.
        let hosts = of_group.filter_map(|entry| Some(entry["port"].as_str()?.split_once('-')?.1.to_owned()));
        Ok(hosts.collect())
    }
}

impl NetNs {
    /// Makes a bridge snoop MLD as the querier of its LAN: soon it passes frames for a multicast
    /// group to members alone. It forgets a port 3 s after its last report, or a moment after the
    /// last member has left.
    pub fn snoop_mld(&self, bridge: &str) -> Result<()> {
        // A querier has a link-local address.
        self.set_ipv6(bridge, true)?;
        let times = LinkBridge::new(bridge)
            .mcast_query_response_interval(QUERY_INTERVAL / 2)
            .mcast_query_interval(QUERY_INTERVAL)
            .mcast_startup_query_interval(QUERY_INTERVAL)
            .mcast_membership_interval(QUERY_INTERVAL * 3)
            .mcast_last_member_interval(QUERY_INTERVAL / 10)
            .build();
        // A new querier floods for the response interval that it begins with. Hosts then receive each
        // other's reports, and in MLDv1 keep back their own.
        let snooping = LinkBridge::new(bridge).mcast_querier(true).mcast_snooping(true).build();
        self.netlink(async |handle| {
            handle.link().change(times).execute().await?;
            handle.link().change(snooping).execute().await
        })
        .with_context(|| format!("failed to make {bridge} snoop"))
    }

    pub fn set_ipv6(&self, interface: &str, on: bool) -> Result<()> {
        let path = format!("/proc/sys/net/ipv6/conf/{interface}/disable_ipv6");
        self.run(|| fs::write(&path, if on { "0" } else { "1" }))
            .with_context(|| format!("failed to write {path}"))
    }
}
