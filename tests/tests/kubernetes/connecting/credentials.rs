//! Credentials in files, which are replaced while agents run.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use vipward_tests::{
    agent::{ClusterMember, VIP},
    apiserver::{FIRST, SECOND, certificate_in},
    cluster::{Cluster, ClusterOptions, NodeId, PATIENCE, ServiceSpec, Watch, scenario},
};

fn token(id: NodeId, number: u8) -> String {
    format!("token-{number}-of-{id}")
}

/// Returns a kubeconfig that names the files of a CA and a token.
fn kubeconfig(cluster: &Cluster, directory: &Path, id: NodeId) -> String {
    let server = format!("https://{}", cluster.forwarder.address());
    let (ca, token) = (directory.join("ca.crt"), directory.join(id.to_string()));
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": "u", "user": {"tokenFile": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    });
    kubeconfig.to_string()
}

/// Gives each agent's user the token of that number, and writes it to the agent's file.
fn issue_tokens(cluster: &mut Cluster, directory: &Path, number: u8) -> Result<()> {
    for id in cluster.ids() {
        let user = cluster.user_of(id);
        let server = cluster.api_mut().in_this_process().context("it is in this process")?;
        server.add_user(&token(id, number), &user);
        fs::write(directory.join(id.to_string()), format!("{}\n", token(id, number)))?;
    }
    Ok(())
}

/// Checks that every Lease is renewed within this time.
fn assert_all_renew(cluster: &Cluster, watch: &Watch, limit: Duration) -> Result<()> {
    let before = renewals(cluster)?;
    watch.let_pass(limit)?;
    let after = renewals(cluster)?;
    assert_eq!((before.len(), after.len()), (cluster.ids().len(), cluster.ids().len()));
    let all = before.iter().zip(&after).all(|(before, after)| before != after);
    assert!(all, "a Lease is not renewed: {before:?}, then {after:?}");
    Ok(())
}

/// Returns the times of the last renewals.
fn renewals(cluster: &Cluster) -> Result<Vec<Value>> {
    Ok(cluster.leases()?.into_iter().map(|lease| lease["spec"]["renewTime"].clone()).collect())
}

#[test]
fn a_new_ca_and_new_tokens_are_used_within_seconds_by_agents_that_run() -> Result<()> {
    /// Time in which every lease deadline passes if no renewal succeeds, and every Lease expires.
    const A_WHILE: Duration = Duration::from_secs(8);
    let options = ClusterOptions { api_in_process: true, ..ClusterOptions::default() };
    scenario("credentials", options, |cluster| {
        let directory = TempDir::new()?;
        let ca = directory.path().join("ca.crt");
        fs::write(&ca, certificate_in(FIRST))?;
        cluster.api_mut().in_this_process().context("no server")?.set_certificate(FIRST.as_bytes())?;
        issue_tokens(cluster, directory.path(), 1)?;
        for id in cluster.ids() {
            let member = ClusterMember {
                node_name: cluster.node_name(id),
                lease_namespace: cluster.system_namespace().to_owned(),
                pod_name: None,
                kubeconfig: kubeconfig(cluster, directory.path(), id),
            };
            cluster.terminate(id)?;
            cluster.member_mut(id)?.agent_mut()?.set_member(member)?;
            cluster.restart_agent(id)?;
        }
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        let epoch = cluster.epoch(VIP)?;
        let sessions = cluster.ids().into_iter().map(|id| cluster.session(id)).collect::<Result<Vec<_>>>()?;
        let watch = cluster.watch(&[VIP])?;

        watch.step("half of the new CA is in the file");
        fs::write(&ca, &certificate_in(SECOND)[..200])?;
        let path = ca.display().to_string();
        for id in cluster.ids() {
            let agent = cluster.member_mut(id)?.agent_mut()?;
            agent.wait_for_log(PATIENCE, "that the CA is bad", |line| {
                line.message().starts_with("the credentials cannot be read again")
                    && line.field("error").is_some_and(|error| error.to_string().contains(&path))
            })?;
        }
        // They go on with the last good CA.
        assert_all_renew(cluster, &watch, A_WHILE / 4)?;

        watch.step("the CA, the certificate and the tokens are others; the old tokens are refused");
        issue_tokens(cluster, directory.path(), 2)?;
        fs::write(&ca, certificate_in(SECOND))?;
        let server = cluster.api_mut().in_this_process().context("no server")?;
        server.set_certificate(SECOND.as_bytes())?;
        for id in cluster.ids() {
            let server = cluster.api_mut().in_this_process().context("no server")?;
            server.revoke(&token(id, 1));
        }
        watch.let_pass(A_WHILE)?;
        for _ in 0..3 {
            assert_all_renew(cluster, &watch, cluster.options().renewal * 2)?;
        }

        watch.stop()?.assert_seamless(VIP);
        assert_eq!((cluster.holder(VIP)?, cluster.epoch(VIP)?), (Some(holder), epoch));
        let now = cluster.ids().into_iter().map(|id| cluster.session(id)).collect::<Result<Vec<_>>>()?;
        assert_eq!(now, sessions);
        Ok(())
    })
}
