//! Wire failover: nodes that die are replaced in a fraction of a second, and nothing else moves.

use std::{
    net::UdpSocket,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    cluster::{
        Cluster, ClusterOptions, NodeId, PATIENCE, ServiceSpec,
        admin::{Kind, Object},
        scenario,
    },
    family::Family,
    http,
    scene::VIP,
};

/// Time in which a node that dies is replaced, on a busy machine. By its Lease alone that takes 3.5 s
/// or more.
const SOON: Duration = Duration::from_millis(2_500);
/// Time for late effects.
const AFTERWARDS: Duration = Duration::from_secs(2);
const SECRET: &str = "vipward-wire";

fn nodes(nodes: u8) -> ClusterOptions {
    ClusterOptions { nodes, args: vec!["--wire=1".to_owned()], ..ClusterOptions::default() }
}

/// Returns what a node says of wire failover in its Lease.
fn offer(cluster: &Cluster, id: NodeId) -> Result<Value> {
    let Some(lease) = cluster.lease_of(id)? else { return Ok(Value::Null) };
    let lease = cluster.admin().get(&lease)?.unwrap_or_default();
    let text = lease["metadata"]["annotations"]["vipward.io/wire"].as_str();
    text.map_or(Ok(Value::Null), |text| serde_json::from_str(text).context("the annotation is JSON"))
}

/// Waits until the offers of all nodes are as `wanted` says.
fn wait_for_offers(cluster: &Cluster, what: &str, wanted: impl Fn(NodeId, &Value) -> bool) -> Result<()> {
    let began = SystemTime::now();
    loop {
        let offers: Vec<(NodeId, Value)> =
            cluster.ids().into_iter().map(|id| Ok((id, offer(cluster, id)?))).collect::<Result<_>>()?;
        if offers.iter().all(|(id, offer)| wanted(*id, offer)) {
            return Ok(());
        }
        ensure!(began.elapsed()? < PATIENCE, "waited in vain for {what}: {offers:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn run(cluster: &Cluster, args: &[&str]) -> Result<(Option<i32>, String)> {
    let namespace = cluster.system_namespace().to_owned();
    cluster.vipward(&[args, &["--lease-namespace", &namespace]].concat())
}

/// Makes the key, has a holder of the VIPs of both families, and waits until it may be deposed by its
/// witnesses.
fn begin(cluster: &mut Cluster) -> Result<NodeId> {
    let (code, said) = run(cluster, &["wire", "init"])?;
    ensure!(code == Some(0) && said.contains("is created, with key 1"), "{code:?}: {said}");
    cluster.create_service(&ServiceSpec::dual_stack("web"))?;
    let holder = cluster.wait_until_all_held(&Family::vips())?;
    // With this, each node's kernel knows a third station. One of two nodes acts only if that answers.
    for id in cluster.ids() {
        let sent = cluster.client.run(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"a word", (id.address(), 9)));
        sent.context("failed to send a datagram")?;
    }
    wait_for_offers(cluster, "the holder's mode", |id, offer| id != holder || offer["mode"] == "notice")?;
    Ok(holder)
}

/// Switches the holder off, and checks that another node is felt soon.
fn switch_the_holder_off(name: &str, count: u8) -> Result<()> {
    scenario(name, nodes(count), |cluster| {
        let old = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;
        watch.let_pass(AFTERWARDS)?;

        let off = watch.step(format!("{old} loses power"));
        cluster.power_off(old)?;
        let new = cluster.wait_until_all_held_by_another(&Family::vips(), old)?;
        for vip in Family::vips() {
            watch.wait_until_received_by(vip, new)?;
        }
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, off, SOON);
            seen.assert_no_doubles(vip);
            assert_eq!(cluster.holder(vip)?, Some(new));
        }
        Ok(())
    })
}

#[test]
fn one_of_three_nodes_that_loses_power_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_the_holder_off("wire3", 3)
}

#[test]
fn one_of_two_nodes_that_loses_power_is_replaced_in_a_fraction_of_a_second() -> Result<()> {
    switch_the_holder_off("wire2", 2)
}

#[test]
fn no_client_notices_that_a_holders_agent_is_killed_and_restarted() -> Result<()> {
    // On a busy machine an agent takes seconds to begin. By the Lease nothing moves so soon.
    let (lease, margin) = (Duration::from_secs(20), Duration::from_secs(1));
    scenario("wirekill", ClusterOptions { lease, margin, ..nodes(3) }, |cluster| {
        let holder = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;
        for _ in 0..2 {
            watch.step(format!("kill -9 on {holder}"));
            cluster.kill9(holder)?;
            watch.let_pass(AFTERWARDS)?;
            cluster.start_agent(holder)?;
            cluster.wait_until_renewing(holder)?;
            watch.let_pass(AFTERWARDS)?;
        }

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_seamless(vip);
            assert_eq!(cluster.holder(vip)?, Some(holder));
        }
        wait_for_offers(cluster, "the mode again", |id, offer| id != holder || offer["mode"] == "notice")
    })
}

#[test]
fn without_a_key_the_lease_alone_counts_and_each_agent_says_so_once() -> Result<()> {
    scenario("nokey", nodes(2), |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        let old = cluster.wait_until_held(VIP)?;
        cluster.wait_until_all_renew()?;
        for id in cluster.ids() {
            assert_ne!(offer(cluster, id)?["mode"], "notice");
            let lines = cluster.member(id)?.agent().context("it was started")?.logs()?;
            let said = lines.iter().filter(|line| line.has("secret", SECRET)).count();
            assert_eq!(said, 1, "{id}");
        }
        let watch = cluster.watch(&[VIP])?;
        let off = watch.step(format!("{old} loses power"));
        cluster.power_off(old)?;
        let new = cluster.wait_until_held_by_another(VIP, old)?;
        watch.wait_until_received_by(VIP, new)?;
        let seen = watch.stop()?;
        let limit = cluster.options().failover_limit();
        seen.assert_flows_again(VIP, off, limit);
        assert!(seen.check_flows_again(VIP, off, SOON).is_err(), "no one else noticed: {seen}");
        Ok(())
    })
}

#[test]
fn a_new_key_and_a_lost_one_move_nothing() -> Result<()> {
    scenario("rotation", nodes(3), |cluster| {
        let holder = begin(cluster)?;
        let watch = cluster.watch(&Family::vips())?;

        watch.step("the key is replaced");
        let (code, said) = run(cluster, &["wire", "rotate", "--linger", "1s"])?;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("has key 2 alone"), "{said}");
        let has = |offer: &Value, keys: &Value| offer["keys"] == *keys;
        wait_for_offers(cluster, "the new key alone", |_, offer| has(offer, &serde_json::json!([2])))?;
        watch.let_pass(AFTERWARDS)?;
        assert_eq!(offer(cluster, holder)?["mode"], "notice");

        watch.step("the key is lost");
        let secret = Object::within(Kind::SECRET, cluster.system_namespace(), SECRET);
        ensure!(cluster.admin().delete(&secret)?, "{secret} is not there");
        wait_for_offers(cluster, "the mode off", |_, offer| offer["mode"] != "notice")?;
        watch.let_pass(AFTERWARDS)?;
        let (code, said) = run(cluster, &["wire", "init"])?;
        assert_eq!(code, Some(0), "{said}");
        wait_for_offers(cluster, "the holder's mode", |id, offer| id != holder || offer["mode"] == "notice")?;
        watch.let_pass(AFTERWARDS)?;

        watch.stop()?.assert_all_seamless();
        for vip in Family::vips() {
            assert_eq!(cluster.holder(vip)?, Some(holder));
        }
        Ok(())
    })
}

#[test]
fn the_controller_makes_the_key_and_nobody_overwrites_it() -> Result<()> {
    scenario("wirekey", ClusterOptions { with_controller: true, ..nodes(2) }, |cluster| {
        cluster.start_controller(1, &[])?;
        let has_key = |_, offer: &Value| offer["keys"] == serde_json::json!([1]);
        wait_for_offers(cluster, "a key", has_key)?;
        let secret = Object::within(Kind::SECRET, cluster.system_namespace(), SECRET);
        let first = cluster.admin().get(&secret)?.context("it was made")?;

        // The next leader finds it.
        cluster.kill_controller(1)?;
        cluster.start_controller(2, &[])?;
        let (code, said) = run(cluster, &["wire", "init"])?;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("exists already: nothing was changed"), "{said}");
        assert_eq!(cluster.admin().get(&secret)?.context("it stays")?["data"], first["data"]);
        Ok(())
    })
}

/// The texts of a node, by what they are.
fn texts(cluster: &Cluster, id: NodeId) -> Result<Vec<(&'static str, String)>> {
    let agent = cluster.member(id)?.agent().context("it was started")?;
    let page = |path| http::get(agent.host(), ([127, 0, 0, 1], 9_647).into(), path)?.good();
    Ok(vec![
        ("log", agent.transcript()),
        ("status", cluster.status(id)?.to_string()),
        ("metrics", page("/metrics")?),
        ("debug state", page("/debug/state")?),
        ("lease", cluster.leases()?.iter().map(Value::to_string).collect()),
    ])
}

#[test]
fn the_key_is_shown_nowhere() -> Result<()> {
    let env = vec![("RUST_LOG".to_owned(), "debug".to_owned())];
    scenario("secrecy", ClusterOptions { env, ..nodes(2) }, |cluster| {
        begin(cluster)?;
        let secret = Object::within(Kind::SECRET, cluster.system_namespace(), SECRET);
        let object = cluster.admin().get(&secret)?.context("it was made")?;
        let encoded = object["data"]["1"].as_str().context("it has a key")?;
        let key = decoded(encoded)?;
        ensure!(key.len() == 32, "32 digits are expected");
        let bytes: Vec<u8> = (0..16)
            .map(|place| u8::from_str_radix(&key[2 * place..2 * place + 2], 16).context("digits"))
            .collect::<Result<_>>()?;
        let words = bytes.chunks(8).map(|half| u64::from_le_bytes(half.try_into().expect("eight bytes")));
        let mut forms = vec![encoded.to_owned(), key.clone(), format!("{bytes:?}")];
        for word in words {
            forms.extend([word.to_string(), format!("{word:x}"), format!("{:x}", word.swap_bytes())]);
        }
        for id in cluster.ids() {
            for (what, text) in texts(cluster, id)? {
                assert!(!text.is_empty(), "{what}");
                let shown = forms.iter().find(|form| text.contains(form.as_str()));
                assert!(shown.is_none(), "{id}: the {what} has the key as {shown:?}");
            }
        }
        Ok(())
    })
}

/// Returns the text that a Secret has as base64.
fn decoded(text: &str) -> Result<String> {
    let k8s_openapi::ByteString(bytes) = serde_json::from_value(text.into())?;
    String::from_utf8(bytes).context("it is text")
}
