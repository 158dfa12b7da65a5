//! Wire failover: the key of a cluster, and the offers in its nodes' Leases.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    admin::{Kind, Object},
    node::NodeId,
    options::{ClusterOptions, PATIENCE},
    running::Cluster,
};
use crate::{frames::Family, kit::interrupt::poll};

/// Most voters of a holder.
const MOST_VOTERS: usize = 3;

/// Time for late effects of a crash.
const AFTERWARDS: Duration = Duration::from_secs(2);

impl ClusterOptions {
    /// Returns the options of so many nodes with wire failover. `scale` is the factor of its times.
    pub fn with_wire(nodes: u8, scale: u8) -> Self {
        Self { nodes, args: vec![format!("--wire={scale}")], ..Self::default() }
    }
}

impl Cluster {
    /// Switches the holder of the VIPs of both families off after a rest, under watch. Checks that another
    /// node answers for both within `soon`, and that two nodes never answer. Returns the other node.
    pub fn replace_dead(&mut self, old: NodeId, rest: Duration, soon: Duration) -> Result<NodeId> {
        let watch = self.watch(&Family::vips())?;
        watch.let_pass(rest)?;

        let off = watch.step(format!("{old} loses power"));
        self.power_off(old)?;
        let new = self.wait_until_all_held_by_another(&Family::vips(), old)?;
        watch.wait_until_all_received_by(&Family::vips(), new)?;
        watch.let_pass(AFTERWARDS)?;

        let seen = watch.stop()?;
        for vip in Family::vips() {
            seen.assert_flows_again(vip, off, soon);
            seen.assert_no_doubles(vip);
        }
        Ok(new)
    }

    pub fn wire_secret(&self) -> Object {
        Object::within(Kind::SECRET, self.system_namespace(), "vipward-wire")
    }

    /// Runs `vipward wire`. Returns the exit code and the output.
    pub fn vipward_wire(&self, args: &[&str]) -> Result<(Option<i32>, String)> {
        let namespace = self.system_namespace().to_owned();
        self.vipward(&[&["wire"], args, &["--lease-namespace", &namespace]].concat())
    }

    /// Makes the first key.
    pub fn make_wire_key(&self) -> Result<()> {
        let (code, said) = self.vipward_wire(&["init"])?;
        ensure!(code == Some(0) && said.contains("is created, with key 1"), "{code:?}: {said}");
        Ok(())
    }

    /// Returns the offer of wire failover in a node's Lease. Null if there is none.
    pub fn wire_offer(&self, id: NodeId) -> Result<Value> {
        let Some(lease) = self.lease_of(id)? else { return Ok(Value::Null) };
        let lease = self.admin().get(&lease)?.unwrap_or_default();
        let text = lease["metadata"]["annotations"]["vipward.io/wire"].as_str();
        text.map_or(Ok(Value::Null), |text| serde_json::from_str(text).context("the annotation is JSON"))
    }

    /// Waits until the offers of all nodes are as `wanted`.
    pub fn wait_for_wire_offers(&self, what: &str, wanted: impl Fn(NodeId, &Value) -> bool) -> Result<()> {
        let mut last = Vec::new();
        let found = poll(PATIENCE, what, || {
            let offers = self.ids().into_iter().map(|id| Ok((id, self.wire_offer(id)?)));
            last = offers.collect::<Result<_>>()?;
            Ok(last.iter().all(|(id, offer)| wanted(*id, offer)).then_some(()))
        });
        found.with_context(|| format!("the offers were last: {last:?}"))
    }

    /// Waits until a holder may be expired by as many voters as its cluster offers.
    pub fn wait_until_witnessed(&self, holder: NodeId) -> Result<()> {
        let powered = self.members.iter().filter(|member| member.is_powered()).count();
        let voters = powered.saturating_sub(1).min(MOST_VOTERS);
        self.wait_for_wire_offers(&format!("{holder} to have {voters} voters"), |id, offer| {
            let set = offer["set"].as_array().map_or(0, Vec::len);
            id != holder || offer["mode"] == "notice" && set == voters
        })
    }

    /// Makes each node's kernel know a third station, the client. One of two nodes acts only if such a
    /// station answers.
    pub fn make_client_known(&self) -> Result<()> {
        self.ids().into_iter().try_for_each(|id| {
            let sent =
                self.client.run(|| UdpSocket::bind("0.0.0.0:0")?.send_to(b"a word", (id.address(), 9)));
            sent.map(drop).context("failed to send a datagram")
        })
    }
}
