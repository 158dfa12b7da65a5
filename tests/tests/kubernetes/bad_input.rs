//! Faults at the start or later: the message helps, and no VIP suffers.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, AgentOptions, Bpffs, ClusterMember, VIP},
    cluster::{Cluster, ClusterOptions, N1, N2, PATIENCE, ServiceSpec, scenario},
    kit::{Process, SpawnOptions, wait_for, wait_until},
};

/// The agent's exit codes.
const BAD_CONFIGURATION: i32 = 3;
const NOT_ALONE: i32 = 5;

fn one_node() -> ClusterOptions {
    ClusterOptions { nodes: 1, ..ClusterOptions::default() }
}

/// Runs a `vipward kubernetes` that ends at once, on the first
/// node. Returns its exit code and its output.
fn ends_with(cluster: &mut Cluster, kubeconfig: &str, args: &[&str]) -> Result<(Option<i32>, String)> {
    let bpffs = Bpffs::mount()?;
    let mut command = cluster.member(N1)?.host.command(Agent::default_binary());
    command.args(["kubernetes", "--kubeconfig", kubeconfig, "--pin-dir"]).arg(bpffs.pin_dir("n1"));
    command.args(["--node-name", "n1"]).args(args);
    let mut process = Process::spawn(command, &SpawnOptions::default())?;
    let status = process.wait(PATIENCE)?;
    assert_eq!(status.signal(), None, "{}", process.transcript());
    Ok((status.code(), process.transcript()))
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
fn a_kubeconfig_that_is_missing_or_wrong_is_named() -> Result<()> {
    scenario("kubeconf", ClusterOptions { start_agents: false, ..one_node() }, |cluster| {
        let (code, said) = ends_with(cluster, "/nonexistent/kubeconfig", &[])?;
        assert_eq!(code, Some(BAD_CONFIGURATION), "{said}");
        assert!(said.contains("/nonexistent/kubeconfig"), "{said}");

        let file = tempfile::NamedTempFile::new()?;
        let path = file.path().to_str().context("a path that is no text")?;
        std::fs::write(path, "{apiVersion: v1, kind: Config, current-context: gone}")?;
        let (code, said) = ends_with(cluster, path, &[])?;
        assert_eq!(code, Some(BAD_CONFIGURATION), "{said}");
        assert!(said.contains(path), "{said}");
        Ok(())
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

#[test]
fn an_annotation_that_cannot_be_read_is_one_event_however_many_agents_see_it() -> Result<()> {
    const HELD: &str = "everywhere (";
    const NOWHERE: &str = "192.0.2.300";
    scenario("oneevent", ClusterOptions::default(), |cluster| {
        cluster.wait_until_all_renew()?;
        cluster.create_service(&ServiceSpec::new("held", VIP).annotation("vipward.io/nodes", HELD))?;
        let nowhere = ServiceSpec::without_address("nowhere").annotation("vipward.io/addresses", NOWHERE);
        cluster.create_service(&nowhere)?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_for_event("held", &[HELD])?;
        cluster.wait_for_event("nowhere", &[NOWHERE])?;
        for id in cluster.ids() {
            for value in [HELD, NOWHERE] {
                let agent = cluster.member_mut(id)?.agent_mut()?;
                agent.wait_for_log(PATIENCE, &format!("of {value:?}"), |line| {
                    line.to_string().contains(value)
                })?;
            }
        }
        // Another agent would have reported it by then.
        std::thread::sleep(Duration::from_secs(3));
        for (service, value, teller) in [("held", HELD, holder), ("nowhere", NOWHERE, N1)] {
            let events = cluster.event_objects_about(service, value)?;
            assert_eq!(events.len(), 1, "{events:#?}");
            assert_eq!(events[0]["reportingInstance"], cluster.node_name(teller), "{events:#?}");
            assert!(events[0].get("series").is_none(), "it was reported twice: {events:#?}");
        }

        cluster.kill9(N1)?;
        cluster.restart_agent(N1)?;
        wait_for(PATIENCE, "the Event to be reported again by a new process", || {
            let events = cluster.event_objects_about("nowhere", NOWHERE)?;
            Ok(events.iter().any(|event| event["series"]["count"] == 2).then_some(()))
        })?;
        let events = cluster.event_objects_about("nowhere", NOWHERE)?;
        assert_eq!(events.len(), 1, "{events:#?}");
        Ok(())
    })
}
