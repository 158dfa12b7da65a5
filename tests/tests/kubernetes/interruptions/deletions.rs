//! Nodes, Leases and claims that an administrator deletes or restores.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;
use vipward_tests::{
    agent::VIP,
    cluster::{ClusterOptions, Kind, PATIENCE, ServiceSpec, scenario},
    kit::wait_until,
};

/// Time for late effects.
const AFTERWARDS: Duration = Duration::from_secs(2);
/// Longest time until an address is probed and answered, beside that of a session that ends.
const TAKEN: Duration = Duration::from_secs(3);

#[test]
fn a_machine_whose_node_lease_and_power_go_together_is_replaced_as_after_a_crash() -> Result<()> {
    scenario("deleted", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let old = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        let (node, lease) = (cluster.node_object(old), cluster.lease_of(old)?.context("it has a Lease")?);
        let watch = cluster.watch(&[VIP])?;

        let off = watch.step(format!("{old} is deleted, and loses power"));
        cluster.admin().delete(&node)?;
        cluster.admin().delete(&lease)?;
        cluster.power_off(old)?;
        let new = cluster.wait_until_held_by_another(VIP, old)?;
        watch.wait_until_received_by(VIP, new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        seen.assert_flows_again(VIP, off, cluster.options().failover_limit());
        seen.assert_no_doubles(VIP);
        Ok(())
    })
}

#[test]
fn a_restored_claim_of_a_node_that_does_not_exist_does_not_wait_a_minute() -> Result<()> {
    scenario("ghost", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.admin().put(&json!({
            "apiVersion": Kind::VIRTUAL_IP.api_version(), "kind": Kind::VIRTUAL_IP.name(),
            "metadata": {"name": VIP.to_string(), "finalizers": ["vipward.io/claim"]},
            "spec": {
                "address": VIP.to_string(), "epoch": 7, "holder": "gone-in-march", "session": "00000000000000ab",
                "mac": "02:00:5e:00:00:99", "interface": "eth0",
            },
        }))?;
        let created = Instant::now();
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        let took = created.elapsed();
        let limit = cluster.options().failover_limit() + TAKEN;
        assert!(took <= limit, "it is held after {took:?}, and not within {limit:?}");
        assert!(cluster.epoch(VIP)?.is_some_and(|epoch| epoch > 7), "its epoch grows");
        wait_until(PATIENCE, "the Service's status", || Ok(cluster.ingress("web")? == [VIP.to_string()]))
    })
}
