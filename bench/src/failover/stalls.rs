//! False positives of wire failover, by the length of the holder's stall.
//!
//! Hosts stall their virtual machines for parts of a second. Here the cables of the holder, one of three
//! nodes, lose all frames to it for as long: it receives no ping, and answers none. A stalled machine
//! answers the pings in its queues as soon as it goes on. Here only the next ping is answered, up to
//! 20 ms (times the scale) later. So a real stall of that length moves no more VIPs than the table has.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use crate::report::{Group, Item, Options, Report, Samples, Unit, push};
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, MANAGEMENT, NodeId, PATIENCE, SEGMENT, ServiceSpec, scenario},
    kit::interrupt,
    lan::{Lost, Way},
};

/// Milliseconds of the stalls.
const STALLS: [u16; 8] = [50, 100, 150, 200, 250, 300, 400, 600];
/// Factors of the times.
const SCALES: [u8; 2] = [1, 2];
/// Stalls of each length, in a full and in a quick measurement.
const TIMES: (u32, u32) = (20, 2);
/// Time after a stall in which a move shows.
const AFTERWARDS: Duration = Duration::from_millis(1_500);

/// Measures, prints the table to stdout, and writes stalls.json. Returns zero: there is no bar.
pub(crate) fn run(options: &Options) -> Result<usize> {
    let started = Instant::now();
    let mut report = Report::begin(options)?;
    let times = if options.quick { TIMES.1 } else { TIMES.0 };
    for scale in SCALES {
        scenario("stalls", ClusterOptions::with_wire(3, scale), |cluster| {
            cluster.make_wire_key()?;
            cluster.create_service(&ServiceSpec::new("web", VIP))?;
            cluster.wait_until_held(VIP)?;
            for id in cluster.ids() {
                for nic in [SEGMENT, MANAGEMENT] {
                    cluster.member(id)?.host.lose_nothing(nic)?;
                }
            }
            for millis in STALLS {
                let (moves, unanswered) = stall(cluster, millis, times)
                    .with_context(|| format!("stalls of {millis} ms with scale {scale}"))?;
                let seconds = started.elapsed().as_secs();
                eprintln!("[{seconds:>4} s] scale {scale}, {millis} ms: {moves} of {times} moved");
                let name = |what| format!("--wire {scale}, {times} stalls of {millis} ms: {what}");
                push(&mut report, Group::Stalls, &name("moves"), moves.into(), None);
                report.push(Item::new(Group::Stalls, name("unanswered"), Unit::Seconds, &unanswered));
            }
            Ok(())
        })?;
    }
    report.finish(started, options, "stalls.json")
}

/// Lets the holder stall so many times. Returns how often it lost its VIP, and the seconds without an
/// answer in each stall.
fn stall(cluster: &mut Cluster, millis: u16, times: u32) -> Result<(u32, Samples)> {
    let (mut moves, mut unanswered) = (0, Samples::default());
    for number in 1..=times {
        interrupt::check()?;
        let (moved, seconds) = stall_once(cluster, Duration::from_millis(millis.into()))
            .with_context(|| format!("stall {number}"))?;
        moves += u32::from(moved);
        unanswered.push(seconds);
    }
    Ok((moves, unanswered))
}

/// Lets the holder stall. Returns true if it lost its VIP, and the seconds without an answer.
fn stall_once(cluster: &mut Cluster, length: Duration) -> Result<(bool, f64)> {
    let holder = cluster.wait_until_held(VIP)?;
    cluster.wait_until_witnessed(holder)?;
    let session = cluster.session(holder)?;
    let monitor = cluster.monitor(&[VIP])?;
    monitor.wait_until_answered(VIP, PATIENCE)?;
    // At any point between two pings and two renewals.
    interrupt::pass(cluster.options().renewal.mul_f64(fastrand::f64()))?;

    let host = cluster.member(holder)?.host.clone();
    for nic in [SEGMENT, MANAGEMENT] {
        host.lose(nic, Way::In, Lost::default())?;
    }
    let begin = SystemTime::now();
    interrupt::pass(length)?;
    for nic in [SEGMENT, MANAGEMENT] {
        host.lose_nothing(nic)?;
    }
    interrupt::pass(AFTERWARDS)?;
    let moved = cluster.session(holder)? != session;
    let report = monitor.stop()?;
    let about = report.vip(VIP)?.between(begin - length, begin + AFTERWARDS);
    if moved {
        begin_again(cluster, holder)?;
    }
    Ok((moved, about.longest_gap().as_secs_f64()))
}

/// Starts an agent again: one whose node has lost its VIP twice for nothing leaves wire failover.
fn begin_again(cluster: &mut Cluster, id: NodeId) -> Result<()> {
    cluster.terminate(id)?;
    cluster.restart_agent(id)
}
