//! One crash of the holder, and the time until another node has its VIPs.

use std::fmt;
use std::net::IpAddr;
use std::time::SystemTime;

use anyhow::{Context, Result};
use serde::Serialize;

use super::course::Course;
use vipward_tests::{
    cluster::{Changes, Cluster, Kind, NodeId, PATIENCE, Seen},
    frames::Family,
    kit::interrupt,
};

/// Seconds of a failover.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Crash {
    pub(super) from: String,
    pub(super) to: String,
    /// Time from the crash until the dead node's Lease no longer carried its session.
    pub(super) expiring_seconds: f64,
    /// Time from then until the claim of the VIP of IPv4 named the new holder.
    pub(super) taking_seconds: f64,
    /// Time from then until the new holder announced it.
    pub(super) announcing_seconds: f64,
    /// Time from the crash until the new holder answered a request that was sent after it.
    pub(super) arp_seconds: f64,
    /// The same for a neighbour solicitation.
    pub(super) nd_seconds: f64,
    /// Time from the crash until the new holder received a datagram.
    pub(super) datagrams_seconds: f64,
    /// The same for the VIP of IPv6.
    pub(super) datagrams_v6_seconds: f64,
}

/// Takes the power from the holder, and gives it back when another node has the VIPs.
pub(super) fn crash(cluster: &mut Cluster, course: Course) -> Result<Crash> {
    let vips = Family::vips();
    let old = cluster.wait_until_all_held(&vips)?;
    if course.api_servers > 0 {
        let others = cluster.ids().into_iter().filter(|id| *id != old).take(course.api_servers - 1);
        let servers: Vec<NodeId> = others.chain([old]).collect();
        cluster.run_api_servers_on(&servers)?;
    }
    // A MAC may get a VIP when all nodes must know it. The agents connect to all API servers.
    interrupt::pass(cluster.options().failover_limit())?;
    if course.wire.is_some() {
        cluster.make_client_known()?;
        cluster.wait_until_witnessed(old)?;
    }
    let also = if course.with_witness { Some(witness(cluster, old)?) } else { None };
    let watch = cluster.watch(&vips)?;
    let leases = cluster.admin().changes(Kind::LEASE, Some(cluster.system_namespace()))?;
    let claims = cluster.admin().changes(Kind::VIRTUAL_IP, None)?;
    let session = Session::of(cluster, old)?;
    // At any point between two renewals.
    watch.let_pass(cluster.options().renewal.mul_f64(fastrand::f64()))?;

    let crashed = watch.step(format!("{old} loses power"));
    for id in also.into_iter().chain([old]) {
        cluster.power_off(id)?;
    }
    let expired = session.wait_until_ended(&leases)?;
    let (new, taken) = wait_until_taken(cluster, &claims, Family::V4.vip(), old)?;
    for vip in &vips {
        watch.wait_until_received_by(*vip, new)?;
        watch.monitor().wait_until_answered_by(*vip, new.mac(), PATIENCE)?;
    }
    let seen = watch.stop()?;
    for id in also.into_iter().chain([old]) {
        cluster.power_on(id)?;
        cluster.start_agent(id)?;
    }
    cluster.wait_until_renewing(old)?;

    for vip in &vips {
        seen.assert_no_doubles(*vip);
    }
    let announced = seen.wire.vip(Family::V4.vip())?.first_announced_after(crashed, new.mac());
    let announced = announced.with_context(|| format!("{new} has not announced: {seen}"))?;
    let answered = |family: Family| answered(&seen, family.vip(), new, crashed);
    let received = |family: Family| received(&seen, family.vip(), new, crashed);
    Ok(Crash {
        from: old.to_string(),
        to: new.to_string(),
        expiring_seconds: seconds(crashed, expired),
        taking_seconds: seconds(expired, taken),
        announcing_seconds: seconds(taken, announced),
        arp_seconds: answered(Family::V4)?,
        nd_seconds: answered(Family::V6)?,
        datagrams_seconds: received(Family::V4)?,
        datagrams_v6_seconds: received(Family::V6)?,
    })
}

/// Returns a voter of a holder.
fn witness(cluster: &Cluster, holder: NodeId) -> Result<NodeId> {
    let set = cluster.wire_offer(holder)?["set"].clone();
    for id in cluster.ids() {
        let wid = cluster.wire_offer(id)?["wid"].clone();
        if id != holder && set.as_array().is_some_and(|set| set.contains(&wid)) {
            return Ok(id);
        }
    }
    anyhow::bail!("{holder} has no witness: {set}")
}

/// The session of a node, as its Lease carries it.
struct Session {
    lease: String,
    holder: serde_json::Value,
}

impl Session {
    fn of(cluster: &Cluster, id: NodeId) -> Result<Self> {
        let lease = cluster.lease_of(id)?.with_context(|| format!("{id} has no Lease"))?;
        let object = cluster.admin().get(&lease)?.with_context(|| format!("{lease} is gone"))?;
        Ok(Self { lease: lease.name, holder: object["spec"]["holderIdentity"].clone() })
    }

    fn wait_until_ended(&self, leases: &Changes) -> Result<SystemTime> {
        let ended =
            leases.wait_for(PATIENCE, &format!("the session of {} to end", self.lease), |changed| {
                changed["metadata"]["name"] == self.lease && changed["spec"]["holderIdentity"] != self.holder
            })?;
        Ok(ended.at)
    }
}

fn wait_until_taken(
    cluster: &Cluster,
    claims: &Changes,
    vip: IpAddr,
    old: NodeId,
) -> Result<(NodeId, SystemTime)> {
    let before = cluster.node_name(old);
    let taken = claims.wait_for(PATIENCE, &format!("{vip} to be taken from {old}"), |changed| {
        let holder = changed["spec"]["holder"].as_str();
        changed["metadata"]["name"] == vip.to_string() && holder.is_some_and(|holder| holder != before)
    })?;
    let holder = taken.object["spec"]["holder"].as_str().unwrap_or_default();
    let new = cluster.ids().into_iter().find(|id| cluster.node_name(*id) == holder);
    Ok((new.with_context(|| format!("{holder} is no node of this cluster"))?, taken.at))
}

/// Returns the seconds until a node answered a later request.
fn answered(seen: &Seen, vip: IpAddr, by: NodeId, from: SystemTime) -> Result<f64> {
    let later = seen.wire.vip(vip)?.requests.iter().filter(|request| request.sent_at >= from);
    let answers = later.flat_map(|request| &request.answers).filter(|answer| answer.by.sha == by.mac());
    let first = answers.map(|answer| answer.at).min();
    Ok(seconds(from, first.with_context(|| format!("{by} has answered nothing: {seen}"))?))
}

/// Returns the seconds until a node received a datagram.
fn received(seen: &Seen, vip: IpAddr, by: NodeId, from: SystemTime) -> Result<f64> {
    let node = by.to_string();
    let received = seen.felt(vip)?.received.iter().filter(|received| received.node == node);
    let first = received.map(|received| received.at).filter(|at| *at >= from).min();
    Ok(seconds(from, first.with_context(|| format!("{by} has received nothing: {seen}"))?))
}

/// Returns the seconds from one time to another. They may be negative: a watch of the API server may be
/// behind what the wire shows.
fn seconds(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            to,
            expiring_seconds,
            taking_seconds,
            announcing_seconds,
            arp_seconds,
            nd_seconds,
            datagrams_seconds,
            datagrams_v6_seconds,
        } = self;
        let millis = |seconds: f64| seconds * 1e3;
        write!(
            f,
            "{from} -> {to}: expired after {expiring_seconds:.3} s, taken {:+.0} ms, announced {:+.0} ms; ARP \
             {arp_seconds:.3} s, ND {nd_seconds:.3} s, datagrams {datagrams_seconds:.3} s, {datagrams_v6_seconds:.3} s",
            millis(*taking_seconds),
            millis(*announcing_seconds)
        )
    }
}
