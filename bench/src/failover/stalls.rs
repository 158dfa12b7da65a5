//! False positives of wire failover, by the length of the holder's stall.
//!
//! Hosts stall their virtual machines for parts of a second. Here the cables of the holder, one of three
//! nodes, lose all frames to it for as long: it receives no ping, and answers none. A stalled machine
//! answers the pings in its queues as soon as it goes on. Here only the next ping is answered, up to
//! 20 ms (times the scale) later. So a real stall of that length moves no more VIPs than the table has.

use std::fmt::Write as _;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::report::{Machine, Options, Samples, write_files};
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

/// Stalls of one length, with one factor.
#[derive(Debug, Serialize)]
struct Row {
    scale: u8,
    stall_millis: u16,
    stalls: u32,
    /// Stalls in which the holder lost its VIP.
    moves: u32,
    /// Seconds for which the VIP was not answered, in each stall.
    unanswered_seconds: Vec<f64>,
}

#[derive(Serialize)]
struct Output {
    machine: Machine,
    rows: Vec<Row>,
}

/// Measures, prints the table to stdout, and writes stalls.json. Returns zero: there is no bar.
pub(crate) fn run(options: &Options) -> Result<usize> {
    vipward_tests::kit::require_root()?;
    let started = Instant::now();
    let machine = Machine::read()?;
    println!("{machine}\n");
    let times = if options.quick { TIMES.1 } else { TIMES.0 };
    let mut rows: Vec<Row> = Vec::new();
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
                let row = stall(cluster, scale, millis, times)?;
                let seconds = started.elapsed().as_secs();
                eprintln!("[{seconds:>4} s] scale {scale}, {millis} ms: {} of {times} moved", row.moves);
                rows.push(row);
            }
            Ok(())
        })?;
    }
    println!("{}", table(&rows));
    let output = Output { machine, rows };
    write_files(options, &[("stalls.json", serde_json::to_string_pretty(&output)? + "\n")])?;
    Ok(0)
}

/// Lets the holder stall so many times.
fn stall(cluster: &mut Cluster, scale: u8, millis: u16, times: u32) -> Result<Row> {
    let mut row =
        Row { scale, stall_millis: millis, stalls: times, moves: 0, unanswered_seconds: Vec::new() };
    for number in 1..=times {
        interrupt::check()?;
        let (moved, unanswered) = stall_once(cluster, Duration::from_millis(millis.into()))
            .with_context(|| format!("stall {number} of {millis} ms with scale {scale}"))?;
        row.moves += u32::from(moved);
        row.unanswered_seconds.push(unanswered);
    }
    Ok(row)
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

fn table(rows: &[Row]) -> String {
    let mut text =
        "| stall | unanswered, median | moves at scale 1 | at scale 2 |\n|--:|--:|--:|--:|\n".to_owned();
    for millis in STALLS {
        let of = |scale: u8| rows.iter().find(move |row| (row.scale, row.stall_millis) == (scale, millis));
        let shown =
            |scale: u8| of(scale).map_or("–".to_owned(), |row| format!("{} of {}", row.moves, row.stalls));
        let unanswered: Samples = SCALES
            .into_iter()
            .filter_map(of)
            .flat_map(|row| row.unanswered_seconds.iter().copied())
            .collect();
        let median = unanswered.median() * 1e3;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| {millis} ms | {median:.0} ms | {} | {} |", shown(1), shown(2));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Row, table};

    #[test]
    fn a_line_has_the_moves_of_both_scales() {
        let row = |scale, moves, seconds| Row {
            scale,
            stall_millis: 300,
            stalls: 20,
            moves,
            unanswered_seconds: vec![seconds],
        };
        let shown = table(&[row(1, 12, 0.31), row(2, 0, 0.33)]);
        assert!(shown.contains("| 300 ms | 310 ms | 12 of 20 | 0 of 20 |\n"), "{shown}");
    }
}
