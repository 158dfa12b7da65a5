//! The dead node also ran one of several API servers.

use std::time::Duration;

use anyhow::{Context, Result};
use vipward_tests::{
    cluster::{ClusterOptions, N1, N2, N3, NodeId, ServiceSpec, scenario},
    frames::Family,
};

/// Time in which the node is replaced, on a busy machine. With connections that lead to the dead server it
/// took up to 4.4 s.
const SOON: Duration = Duration::from_millis(2_500);
/// Time in which the agents open connections to all servers: the endpoints are read, and each of the
/// connections gets a renewal.
const CONNECTED: Duration = Duration::from_secs(8);
/// Crashes in a row. Connections lead to the dead server by chance.
const CRASHES: usize = 3;

/// Switches the holder off, which is one of so many API servers, and checks that another node answers
/// soon.
fn switch_a_server_off(name: &str, others: usize) -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..ClusterOptions::with_wire(3, 1) };
    scenario(name, options, |cluster| {
        cluster.start_with_tls()?;
        cluster.make_wire_key()?;
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        for crash in 1..=CRASHES {
            let old = cluster.wait_until_all_held(&Family::vips())?;
            let others = [N1, N2, N3].into_iter().filter(|id| *id != old).take(others);
            let servers: Vec<NodeId> = others.chain([old]).collect();
            cluster.run_api_servers_on(&servers)?;
            cluster.wait_until_witnessed(old)?;
            cluster.replace_dead(old, CONNECTED, SOON).with_context(|| format!("crash {crash}"))?;
            cluster.power_on(old)?;
            cluster.restart_agent(old)?;
        }
        Ok(())
    })
}

#[test]
fn a_node_that_dies_with_one_of_two_api_servers_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_a_server_off("api2", 1)
}

#[test]
fn a_node_that_dies_with_one_of_three_api_servers_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_a_server_off("api3", 2)
}
