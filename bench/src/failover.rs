//! Fail-overs: the holder's agent is killed again and again, and a client's datagrams have to reach
//! another node.
//!
//! There are three nodes and one VIP. The time from `kill -9` to the first datagram at the new
//! holder has four parts: until the dead node's session is ended, until the VIP is claimed,
//! until it is announced on the wire, and until the client has followed. The killed agent is
//! started again before the next crash, which comes at a random point of a renewal interval.

mod plot;

use std::fmt;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde::Serialize;

use super::machine::Machine;
use super::report::{Group, Item, Limit, Report, Unit};
use super::stats::Samples;
use super::{Options, write_files};
use vipward_tests::cluster::admin::{Changes, Kind};
use vipward_tests::cluster::{Cluster, ClusterOptions, NodeId, PATIENCE, ServiceSpec, Watch, scenario};
use vipward_tests::interrupt;
use vipward_tests::scene::VIP;

/// Number of crashes, in a full and in a quick run.
const CRASHES: u32 = 50;
const QUICK_CRASHES: u32 = 5;

/// Seconds of each part of a failover, in order.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Crash {
    from: String,
    to: String,
    /// Time from the crash until the dead node's Lease no longer carried its session.
    deposing_seconds: f64,
    /// Time from then until a claim named the new holder.
    taking_seconds: f64,
    /// Time from then until the new holder announced the VIP on the wire.
    announcing_seconds: f64,
    /// Time from then until the new holder received a datagram.
    following_seconds: f64,
    /// All of it.
    seconds: f64,
}

type Part = fn(&Crash) -> f64;

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a Report,
    limit_seconds: f64,
    crashes: &'a [Crash],
}

/// Measures, prints the table to stdout, and writes failover.json and failover.svg. Returns how
/// many bars were missed.
pub(crate) fn run(options: &Options) -> Result<usize> {
    vipward_tests::require_root()?;
    let started = Instant::now();
    let machine = Machine::read()?;
    println!("{machine}\n");
    let count = if options.quick { QUICK_CRASHES } else { CRASHES };
    let cluster_options = ClusterOptions::default();
    let limit = cluster_options.failover_limit();
    let mut crashes = Vec::new();
    scenario("failover", cluster_options, |cluster| {
        cluster.create_service(&ServiceSpec::new("web", VIP))?;
        cluster.wait_until_held(VIP)?;
        for number in 1..=count {
            interrupt::check()?;
            let crash = crash(cluster).with_context(|| format!("crash {number} of {count}"))?;
            eprintln!("[{:>3} s] crash {number} of {count}: {crash}", started.elapsed().as_secs());
            crashes.push(crash);
        }
        Ok(())
    })?;

    let mut report = Report::new(machine, options.quick);
    summarize(&crashes, limit, &mut report);
    report.seconds = started.elapsed().as_secs();
    println!("{report}");
    let output = Output { report: &report, limit_seconds: limit.as_secs_f64(), crashes: &crashes };
    let json = serde_json::to_string_pretty(&output)? + "\n";
    let svg = plot::draw(&crashes, limit, &report.machine.to_string());
    write_files(options, &[("failover.json", json), ("failover.svg", svg)])?;
    Ok(report.missed())
}

/// Kills the holder's agent, and starts it again when another node has the VIP.
fn crash(cluster: &mut Cluster) -> Result<Crash> {
    let old = cluster.wait_until_held(VIP)?;
    for id in cluster.ids() {
        cluster.wait_until_renewing(id)?;
    }
    let watch = cluster.watch(&[VIP])?;
    let namespace = cluster.system_namespace();
    let leases = cluster.admin().changes(Kind::LEASE, Some(namespace))?;
    let claims = cluster.admin().changes(Kind::VIRTUAL_IP, None)?;
    // At any point between two renewals.
    watch.let_pass(cluster.options().renewal.mul_f64(fastrand::f64()))?;

    let killed = watch.step(format!("kill -9 on {old}"));
    cluster.kill9(old)?;
    let deposed = wait_until_deposed(cluster, &leases, old)?;
    let (new, taken) = wait_until_taken(cluster, &claims, VIP, old)?;
    watch.wait_until_received_by(VIP, new)?;
    let (announced, received) = heard(watch, new, killed)?;
    cluster.start_agent(old)?;

    let part = |from: SystemTime, to: SystemTime| match to.duration_since(from) {
        Ok(after) => after.as_secs_f64(),
        // Told by different clocks' owners: what a watch delivers may be behind what the wire
        // shows.
        Err(before) => -before.duration().as_secs_f64(),
    };
    Ok(Crash {
        from: old.to_string(),
        to: new.to_string(),
        deposing_seconds: part(killed, deposed),
        taking_seconds: part(deposed, taken),
        announcing_seconds: part(taken, announced),
        following_seconds: part(announced, received),
        seconds: part(killed, received),
    })
}

fn wait_until_deposed(cluster: &Cluster, leases: &Changes, old: NodeId) -> Result<SystemTime> {
    let lease = cluster.lease_of(old)?;
    let Some(lease) = lease else { anyhow::bail!("{old} was deposed at once") };
    let session = format!("{}/", cluster.node_name(old));
    let deposed = leases.wait_for(PATIENCE, &format!("{old} to be deposed"), |changed| {
        changed["metadata"]["name"] == lease.name
            && !changed["spec"]["holderIdentity"].as_str().is_some_and(|holder| holder.starts_with(&session))
    })?;
    Ok(deposed.at)
}

fn wait_until_taken(
    cluster: &Cluster,
    claims: &Changes,
    vip: Ipv4Addr,
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

/// Returns when the new holder first announced the VIP, and first received a datagram to it.
fn heard(watch: Watch, new: NodeId, killed: SystemTime) -> Result<(SystemTime, SystemTime)> {
    let seen = watch.stop()?;
    seen.check_no_doubles_after_announcement(VIP, new, killed)?;
    let announced = seen.wire.vip(VIP)?.first_announced_after(killed, new.mac());
    let announced = announced.with_context(|| format!("{new} has not announced {VIP}: {seen}"))?;
    let node = new.to_string();
    let received = seen.felt(VIP)?.received.iter().filter(|received| received.node == node);
    let received = received.map(|received| received.at).filter(|at| *at >= killed).min();
    Ok((announced, received.with_context(|| format!("{new} has received nothing: {seen}"))?))
}

fn summarize(crashes: &[Crash], limit: Duration, report: &mut Report) {
    let samples = |part: Part| crashes.iter().map(part).collect::<Samples>();
    let item = |name: &str, samples: &Samples| Item::new(Group::Failover, name, Unit::Seconds, samples);
    let all = samples(|crash| crash.seconds);
    let bar = Limit::AtMost(limit.as_secs_f64());
    report.push(item("kill -9 to the first datagram at the new holder", &all));
    report.push(item("the same, p99", &all.percentile(99).into()).bar(bar));
    report.push(item("the same, the longest", &all.max().into()));
    let parts: [(&str, Part); 4] = [
        ("of it deposing: kill -9 to the end of the session", |crash| crash.deposing_seconds),
        ("of it taking: from there to the claim", |crash| crash.taking_seconds),
        ("of it announcing: from there to the wire", |crash| crash.announcing_seconds),
        ("of it following: from there to the datagram", |crash| crash.following_seconds),
    ];
    for (name, part) in parts {
        report.push(item(name, &samples(part)));
    }
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            from,
            to,
            deposing_seconds,
            taking_seconds,
            announcing_seconds,
            following_seconds,
            seconds,
        } = self;
        let millis = |seconds: f64| seconds * 1e3;
        write!(
            f,
            "{from} -> {to} in {seconds:.3} s: deposed after {deposing_seconds:.3} s, taken {:+.0} ms, announced \
             {:+.0} ms, followed {:+.0} ms",
            millis(*taking_seconds),
            millis(*announcing_seconds),
            millis(*following_seconds)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::machine::Machine;
    use super::super::report::Report;
    use super::{Crash, summarize};

    pub(super) fn crash(parts: [f64; 4]) -> Crash {
        let [deposing_seconds, taking_seconds, announcing_seconds, following_seconds] = parts;
        Crash {
            from: "n1".to_owned(),
            to: "n2".to_owned(),
            deposing_seconds,
            taking_seconds,
            announcing_seconds,
            following_seconds,
            seconds: parts.iter().sum(),
        }
    }

    #[test]
    fn one_crash_of_fifty_beyond_the_limit_misses_the_bar() {
        for (longest, missed) in [(5.4, 0), (5.6, 1)] {
            let mut crashes = vec![crash([4.5, 0.01, 0.01, 0.01]); 49];
            crashes.push(crash([longest, 0.0, 0.0, 0.0]));
            let mut report = Report::new(Machine::read().expect("this machine"), false);
            summarize(&crashes, Duration::from_millis(5_500), &mut report);
            assert_eq!(report.missed(), missed, "{longest}");
        }
    }
}
