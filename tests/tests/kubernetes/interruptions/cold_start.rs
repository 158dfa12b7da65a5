//! Cold starts with hundreds of VIPs: every node gets its share, and a healthy start is no reason
//! to complain.

use std::{collections::BTreeMap, net::Ipv4Addr, thread::sleep, time::Duration};

use anyhow::{Context, Result};
use ipnet::Ipv4Net;
use serde_json::Value;
use vipward_tests::{
    cluster::{Cluster, ClusterOptions, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::interrupt,
};

const VIPS: u32 = 300;
/// Least number of VIPs of each of three nodes: half of a fair share.
const LEAST_SHARE: usize = 50;
/// Largest number of lines that an agent logs.
const MOST_LINES: usize = 60;
/// Pause between two readings of the claims.
const LOOK: Duration = Duration::from_millis(100);

/// Returns an address in the subnet of the VIPs, which has room for hundreds.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 64, 0, 0)) + number)
}

/// Returns the number of VIPs that each node holds, by its name.
fn shares(cluster: &Cluster) -> Result<BTreeMap<String, usize>> {
    let mut shares = BTreeMap::new();
    for claim in cluster.virtual_ips()? {
        if let Value::String(holder) = &claim["spec"]["holder"] {
            *shares.entry(holder.clone()).or_default() += 1;
        }
    }
    Ok(shares)
}

#[test]
fn agents_that_start_together_share_hundreds_of_new_vips_and_have_nothing_to_complain_about() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..ClusterOptions::default() };
    scenario("cold-start", options, |cluster| {
        for id in cluster.ids() {
            let [.., host] = id.address().octets();
            let net = Ipv4Net::new(address(host.into()), 16).context("16 is a prefix length")?;
            cluster.member(id)?.host.add_address(SEGMENT, net)?;
        }
        for number in 0..VIPS {
            let vip = address(256 + number);
            cluster.create_service(&ServiceSpec::new(&format!("web-{number}"), vip))?;
        }
        cluster.ids().into_iter().try_for_each(|id| cluster.start_agent(id))?;
        let vips = usize::try_from(VIPS)?;
        let shares = interrupt::wait(PATIENCE, "all VIPs to be held", || {
            sleep(LOOK);
            let shares = shares(cluster)?;
            Ok((shares.values().sum::<usize>() == vips).then_some(shares))
        })?;
        let least = shares.values().min().copied().unwrap_or_default();
        assert!(shares.len() == cluster.ids().len() && least >= LEAST_SHARE, "{shares:?}");

        cluster.wait_until_all_renew()?;
        let (errors, warnings) = cluster.complaints()?;
        assert!(errors.is_empty() && warnings.is_empty(), "{errors:#?} {warnings:#?}");
        for id in cluster.ids() {
            let log = cluster.member(id)?.agent().context("the agent was started")?.logs()?;
            let lines = log.iter().filter(|line| line.level() != "DEBUG").count();
            assert!(lines <= MOST_LINES, "{id} has logged {lines} lines");
        }
        Ok(())
    })
}
