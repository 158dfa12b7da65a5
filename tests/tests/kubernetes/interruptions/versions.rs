//! Upgrade to an invented next version, whose pinned maps have another layout, and the way back. No
//! VIP moves and no request goes unanswered, also while the API server is away.

use std::time::Duration;

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, VIP},
    cluster::{Cluster, ClusterOptions, NodeId, PATIENCE, ServiceSpec, Watch, scenario},
};

/// Kills the agent of a node, and starts an agent of another version.
fn change(cluster: &mut Cluster, id: NodeId, to_next: bool) -> Result<()> {
    cluster.kill9(id)?;
    let agent = cluster.member_mut(id)?.agent_mut()?;
    let seen = agent.logs()?.len();
    agent.options.binary = if to_next { Some(Agent::next_binary()?) } else { None };
    cluster.start_agent(id)?;
    let agent = cluster.member_mut(id)?.agent_mut()?;
    agent.wait_for_log_after(seen, PATIENCE, "that it migrated everything", |line| {
        line.message() == "data plane migrated from another layout" && line.has("dropped", 0)
    })?;
    agent.wait_for_log_after(seen, PATIENCE, "that it runs", |line| {
        line.message().starts_with("agent is running")
    })?;
    Ok(())
}

/// Checks that the VIP stays with its holder, in its epoch and session, and is answered throughout.
fn nothing_changes(name: &str, steps: impl FnOnce(&mut Cluster, &Watch, NodeId) -> Result<()>) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        let sessions = |cluster: &Cluster| {
            cluster.ids().into_iter().map(|id| cluster.session(id)).collect::<Result<Vec<_>>>()
        };
        let (before, epoch) = (sessions(cluster)?, cluster.epoch(VIP)?);
        let peers = cluster.status(holder)?["peers"].clone();
        let watch = cluster.watch(&[VIP])?;

        steps(cluster, &watch, holder)?;
        cluster.wait_until_all_renew()?;
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_seamless(VIP);
        assert_eq!((cluster.holder(VIP)?, cluster.epoch(VIP)?), (Some(holder), epoch));
        assert_eq!(sessions(cluster)?, before, "every process goes on with its node's session");
        assert_eq!(cluster.status(holder)?["peers"], peers);
        Ok(())
    })
}

#[test]
fn an_upgrade_of_all_nodes_and_the_rollback_move_nothing() -> Result<()> {
    nothing_changes("versions", |cluster, watch, _| {
        for (version, to_next) in [("the next version", true), ("this version", false)] {
            for id in cluster.ids() {
                watch.step(format!("{id} gets {version}"));
                change(cluster, id, to_next)?;
                cluster.wait_until_renewing(id)?;
            }
        }
        Ok(())
    })
}

#[test]
fn an_upgrade_and_the_rollback_move_nothing_while_the_api_server_is_away() -> Result<()> {
    nothing_changes("versionsaway", |cluster, watch, holder| {
        watch.step("no node reaches the API server");
        cluster.cut_everyone_off();
        watch.let_pass(cluster.options().lease)?;
        assert_eq!(cluster.status(holder)?["lease_deadline"]["state"], "grace period");
        for (version, to_next) in [("the next version", true), ("this version", false)] {
            for id in cluster.ids() {
                watch.step(format!("{id} gets {version}"));
                change(cluster, id, to_next)?;
            }
            let status = cluster.status(holder)?;
            assert_eq!(status["lease_deadline"]["state"], "grace period", "with {version}");
            let left =
                status["lease_deadline"]["hold_left_seconds"].as_f64().context("status has no such time")?;
            assert!(left > 0.0, "{version} goes on to answer in the grace period");
            watch.let_pass(Duration::from_secs(3))?;
        }
        watch.step("all nodes reach it again");
        cluster.heal()
    })
}
