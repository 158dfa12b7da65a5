//! Claims and Leases that an operator deletes or edits by hand: the owner
//! repairs them, and the wire shows nothing.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use vipward_tests::{
    agent::VIP,
    cluster::{ClusterOptions, ServiceSpec, scenario},
};

/// Returns the holder, the session and the MAC in a claim, or the holder in a Lease.
fn named(object: Option<&Value>) -> Value {
    let spec = object.map(|object| &object["spec"]);
    spec.map_or(Value::Null, |spec| {
        json!([spec["holder"], spec["session"], spec["mac"], spec["holderIdentity"]])
    })
}

#[test]
fn claims_and_leases_that_are_deleted_or_edited_are_put_right_and_no_client_notices() -> Result<()> {
    scenario("edits", ClusterOptions::default(), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let holder = cluster.wait_until_held(VIP)?;
        let thief = cluster.ids().into_iter().find(|id| *id != holder).context("there are three")?;
        let (claim, limit) = (cluster.virtual_ip(VIP), cluster.options().lease);
        let lease = cluster.lease_of(holder)?.context("the holder has a Lease")?;
        let (of_claim, of_lease) = (cluster.admin().get(&claim)?, cluster.admin().get(&lease)?);
        let watch = cluster.watch(&[VIP])?;
        let to_thief = json!({"spec": {"holder": cluster.node_name(thief)}});
        let blank = json!({"spec": {"holder": null, "session": null, "mac": null, "interface": null}});
        let bare = json!({"metadata": {"finalizers": null}});
        let edits = [
            ("the Lease is deleted", &lease, &of_lease, None, true),
            ("the claim is deleted", &claim, &of_claim, None, true),
            ("the claim is deleted with its finalizers", &claim, &of_claim, Some(bare), true),
            ("the claim names another node", &claim, &of_claim, Some(to_thief), false),
            ("the claim is blanked", &claim, &of_claim, Some(blank), false),
        ];
        for (what, object, before, patch, is_deleted) in edits {
            let epoch = cluster.epoch(VIP)?;
            watch.step(what);
            if let Some(patch) = patch {
                cluster.admin().merge(object, &patch)?;
            }
            if is_deleted {
                cluster.admin().delete(object)?;
            }
            let is_right = |now: Option<&Value>| named(now) == named(before.as_ref());
            cluster.admin().wait_for(limit, object, "to be repaired", is_right)?;
            watch.let_pass(cluster.options().failover_limit() + Duration::from_secs(1))?;
            assert!(is_right(cluster.admin().get(object)?.as_ref()), "{what}: and it stays so");
            assert!(cluster.epoch(VIP)? >= epoch, "{what}: an epoch only grows");
            cluster.wait_until_held_by(VIP, holder)?;
        }
        watch.stop()?.assert_seamless(VIP);
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
