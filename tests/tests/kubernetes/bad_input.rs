//! Faults at the start or later: the message helps, and no VIP suffers.

use anyhow::Result;
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, ClusterMember, VIP},
    cluster::{ClusterOptions, N1, N2, PATIENCE, ServiceSpec, scenario},
    kit::wait_until,
};

const NOT_ALONE: i32 = 5;

fn one_node() -> ClusterOptions {
    ClusterOptions { nodes: 1, ..ClusterOptions::default() }
}

#[test]
fn without_an_api_server_at_its_start_an_agent_keeps_what_is_pinned_and_goes_on_with_it_later() -> Result<()>
{
    scenario("noapi", one_node(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held_by(VIP, N1)?;
        let (session, epoch) = (cluster.session(N1)?, cluster.epoch(VIP)?);
        let watch = cluster.watch(&[VIP])?;

        watch.step("its agent ends, and the API server goes away");
        cluster.terminate(N1)?;
        cluster.forwarder.refuse_all();
        watch.step("its agent is started");
        let seen = cluster.member_mut(N1)?.agent_mut()?.logs()?.len();
        cluster.start_agent(N1)?;
        let said = cluster.member_mut(N1)?.agent_mut()?.wait_for_log_after(
            seen,
            PATIENCE,
            "that it cannot read",
            |line| line.level() == "WARN" && line.message().contains("not read from the API server"),
        )?;
        let problem = said.field("problem").and_then(Value::as_str).unwrap_or_default();
        let address = cluster.forwarder.address().to_string();
        assert_eq!(problem.matches(&address).count(), 1, "{said}");
        watch.let_pass(cluster.options().failover_limit())?;
        let ready = cluster.page(N1, "/readyz")?;
        assert_eq!(ready.status, 503, "{}", ready.body);
        assert!(ready.body.contains("the cluster has not been read yet"), "{}", ready.body);
        assert_eq!(cluster.page(N1, "/livez")?.status, 200);

        watch.step("the API server is back");
        cluster.heal()?;
        cluster.wait_until_renewing(N1)?;
        watch.let_pass(cluster.options().lease)?;

        watch.stop()?.assert_seamless(VIP);
        assert_eq!((cluster.session(N1)?, cluster.epoch(VIP)?), (session, epoch));
        wait_until(PATIENCE, "the node to be ready", || Ok(cluster.page(N1, "/readyz")?.status == 200))
    })
}

#[test]
fn the_second_of_two_agents_with_one_name_ends_and_the_first_goes_on() -> Result<()> {
    let options = ClusterOptions { nodes: 2, start_agents: false, ..ClusterOptions::default() };
    scenario("twins", options, |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.start_agent(N1)?;
        cluster.wait_until_held_by(VIP, N1)?;
        let session = cluster.session(N1)?;
        let watch = cluster.watch(&[VIP])?;

        watch.step("another agent is started under its name");
        let twin = N2;
        let member = ClusterMember {
            node_name: cluster.node_name(N1),
            lease_namespace: cluster.system_namespace().to_owned(),
            pod_name: None,
            kubeconfig: cluster.kubeconfig_of(twin)?,
        };
        let bpffs = Bpffs::mount()?;
        let host = cluster.member(twin)?.host.clone();
        let options = AgentOptions::new(bpffs.pin_dir("twin"));
        let mut agent = Agent::start_in_cluster(&host, member, options)?;
        let ended = agent.wait(PATIENCE)?;
        assert_eq!(ended.code(), Some(NOT_ALONE), "{}", agent.transcript());
        let said = agent.transcript();
        assert!(
            said.contains("another agent runs under the node name") && said.contains("--node-name"),
            "{said}"
        );
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_seamless(VIP);
        assert_eq!((cluster.holder(VIP)?, cluster.session(N1)?), (Some(N1), session));
        Ok(())
    })
}
