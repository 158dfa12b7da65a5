//! Claims and Leases that somebody deletes or edits by hand: the owner
//! repairs them, and the wire shows nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, NodeId, ServiceSpec, Watch, scenario},
};

/// Returns the holder, the session and the MAC in a claim, or the holder in a Lease.
fn named(object: Option<&Value>) -> Value {
    let spec = object.map(|object| &object["spec"]);
    spec.map_or(Value::Null, |spec| {
        json!([spec["holder"], spec["session"], spec["mac"], spec["holderIdentity"]])
    })
}

/// Runs `edit`, and checks that within a lease the claim names its holder again.
fn is_repaired(name: &str, edit: impl FnOnce(&Cluster, &Watch, NodeId) -> Result<()>) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        // Some agents may not have seen a new claim yet.
        let claim = cluster.virtual_ip(VIP);
        let before = cluster.admin().get(&claim)?;
        let epoch = cluster.epoch(VIP)?;
        let watch = cluster.watch(&[VIP])?;

        edit(cluster, &watch, holder)?;
        let edited = Instant::now();
        let lease = cluster.options().lease;
        cluster
            .admin()
            .wait_for(lease, &claim, "to be repaired", |now| named(now) == named(before.as_ref()))?;
        watch.step(format!("repaired after {:?}", edited.elapsed()));
        watch.let_pass(cluster.options().failover_limit() + Duration::from_secs(1))?;

        watch.stop()?.assert_seamless(VIP);
        let after = cluster.admin().get(&claim)?;
        assert_eq!(named(after.as_ref()), named(before.as_ref()), "and it stays so");
        assert!(cluster.epoch(VIP)? >= epoch, "an epoch only grows");
        cluster.wait_until_held_by(VIP, holder)
    })
}

#[test]
fn a_lease_that_is_deleted_is_made_again_by_its_node_in_the_same_session() -> Result<()> {
    is_repaired("noleases", |cluster, watch, holder| {
        let lease = cluster.lease_of(holder)?.context("the holder has a Lease")?;
        let before = cluster.session(holder)?;
        watch.step(format!("{lease} is deleted"));
        cluster.admin().delete(&lease)?;
        let limit = cluster.options().lease;
        let again = cluster.admin().wait_for(limit, &lease, "to be there again", |lease| lease.is_some())?;
        let again = again.context("it was waited for")?;
        assert_eq!(again["spec"]["holderIdentity"].as_str(), before.as_deref());
        Ok(())
    })
}

#[test]
fn a_lease_whose_holder_is_blanked_ends_the_session_and_the_vip_is_answered_again() -> Result<()> {
    scenario("blanklease", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let lease = cluster.lease_of(holder)?.context("the holder has a Lease")?;
        let before = cluster.session(holder)?;
        let watch = cluster.watch(&[VIP])?;

        let blanked = watch.step(format!("the holder of {lease} is blanked"));
        cluster.admin().merge(&lease, &json!({"spec": {"holderIdentity": null}}))?;
        let limit = cluster.options().failover_limit();
        cluster.admin().wait_for(limit, &lease, "to have a session again", |lease| {
            lease.is_some_and(|lease| {
                lease["spec"]["holderIdentity"].as_str().is_some_and(|it| !it.is_empty())
            })
        })?;
        let new = cluster.wait_until_held(VIP)?;
        watch.wait_until_received_by(VIP, new)?;
        watch.let_pass(limit)?;

        let seen = watch.stop()?;
        seen.assert_flows_again(VIP, blanked, limit);
        let wire = seen.wire.vip(VIP)?;
        assert!(wire.longest_gap() <= limit, "{seen}");
        assert!(before.is_some());
        seen.assert_no_doubles(VIP);
        Ok(())
    })
}

#[test]
fn a_claim_that_is_deleted_is_made_again_by_its_holder() -> Result<()> {
    is_repaired("noclaim", |cluster, watch, _| {
        watch.step("the VirtualIP is deleted");
        cluster.admin().delete(&cluster.virtual_ip(VIP)).map(drop)
    })
}

#[test]
fn a_claim_that_is_deleted_with_its_finalizers_is_made_again_by_its_holder() -> Result<()> {
    is_repaired("nofinal", |cluster, watch, _| {
        watch.step("the VirtualIP is deleted for good");
        let claim = cluster.virtual_ip(VIP);
        cluster.admin().merge(&claim, &json!({"metadata": {"finalizers": null}}))?;
        cluster.admin().delete(&claim).map(drop)
    })
}

#[test]
fn a_claim_that_is_edited_to_name_another_node_is_put_right() -> Result<()> {
    is_repaired("stolen", |cluster, watch, holder| {
        let thief = cluster.ids().into_iter().find(|id| *id != holder).context("there is but one node")?;
        let patch = json!({"spec": {"holder": cluster.node_name(thief)}});
        watch.step(format!("the claim is edited to name {thief}"));
        cluster.admin().merge(&cluster.virtual_ip(VIP), &patch).map(drop)
    })
}

#[test]
fn a_claim_that_is_blanked_is_put_right() -> Result<()> {
    is_repaired("blank", |cluster, watch, _| {
        let patch = json!({"spec": {"holder": null, "session": null, "mac": null, "interface": null}});
        watch.step("the claim is blanked");
        cluster.admin().merge(&cluster.virtual_ip(VIP), &patch).map(drop)
    })
}

#[test]
fn a_claim_whose_epoch_is_set_back_moves_nothing() -> Result<()> {
    scenario("epoch", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let watch = cluster.watch(&[VIP])?;

        watch.step("the epoch is set to 0");
        cluster.admin().merge(&cluster.virtual_ip(VIP), &json!({"spec": {"epoch": 0}}))?;
        let lease = cluster.options().lease;
        cluster.admin().wait_for(lease, &cluster.virtual_ip(VIP), "to have its epoch again", |claim| {
            claim.is_some_and(|claim| claim["spec"]["epoch"].as_i64() >= Some(1))
        })?;
        watch.let_pass(cluster.options().failover_limit())?;

        watch.stop()?.assert_seamless(VIP);
        cluster.wait_until_held_by(VIP, holder)
    })
}
