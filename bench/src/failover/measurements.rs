//! Fail-overs: the holder loses its power again and again, and a client and an observer wait for another
//! node.
//!
//! A cluster has one VIP of each family. From one instant on, no frame leaves the holder, and its agent,
//! its program and its pins are gone. Before the next crash, which comes at a random point of a renewal
//! interval, the node is switched on again, and takes part again. The courses differ in the number of
//! nodes and in how a dead one is noticed.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::{
    busy,
    course::{COURSES, Course},
    crash::{Crash, crash},
    plot::{Series, draw},
};
use crate::{
    kubernetes::death,
    peers,
    report::{Group, Item, Limit, Options, Report, Samples, Unit, write_files},
};
use vipward_tests::{
    cluster::{ClusterOptions, ServiceSpec, scenario},
    kit::interrupt,
};

/// Runs of each setting of keepalived, in a full and in a quick measurement.
const RUNS: (u32, u32) = (10, 1);

/// Services of three nodes of which one dies, and the longest time until others answer for all its VIPs.
/// A quick measurement has the first alone.
const MANY: [(u32, Duration); 2] = [(3_000, Duration::from_secs(1)), (10_000, Duration::from_millis(2_500))];

/// Name for `--only` of the measurement with so many Services.
const MANY_NAME: &str = "many";

#[derive(Serialize)]
struct Output<'a> {
    #[serde(flatten)]
    report: &'a Report,
    crashes: &'a [(&'static str, Vec<Crash>)],
}

/// Measures all, or what has `only` in its name, prints the table to stdout, and writes failover.json and
/// failover.svg. Returns how many bars were missed.
pub(crate) fn run(options: &Options, only: &str) -> Result<usize> {
    let started = Instant::now();
    let mut report = Report::begin(options)?;
    let progress = |what: &str| eprintln!("[{:>4} s] {what}", started.elapsed().as_secs());
    let (mut all, mut series) = (Vec::new(), Vec::new());
    for course in COURSES.into_iter().filter(|course| course.name.contains(only)) {
        let crashes = follow(course, options.quick, &progress)?;
        summarize(course, &crashes, &mut report);
        let seconds = crashes.iter().map(|crash| crash.datagrams_seconds).collect();
        series.push(Series { name: course.name.to_owned(), seconds });
        all.push((course.name, crashes));
    }
    let runs = if options.quick { RUNS.1 } else { RUNS.0 };
    let peers = if only.is_empty() { peers::crashes_of_keepalived(runs, &progress)? } else { Vec::new() };
    for peers::Crashes { name, answered, received } in peers {
        for (what, seconds) in [("ARP", answered), ("datagrams", received.clone())] {
            let samples: Samples = seconds.into_iter().collect();
            let name = format!("{name}: {what}");
            report.push(Item::new(Group::FailoverOfPeers, name, Unit::Seconds, &samples));
        }
        series.push(Series { name, seconds: received });
    }
    let many = MANY.into_iter().filter(|_| MANY_NAME.contains(only));
    for (services, most) in many.take(if options.quick { 1 } else { MANY.len() }) {
        progress(&format!("one node of three with {services} VIPs dies"));
        death::of_a_third(services, most, &mut report)?;
    }
    if "busy".contains(only) {
        busy::measure(options.quick, &progress, &mut report)?;
    }

    report.seconds = started.elapsed().as_secs();
    println!("{report}");
    let output = Output { report: &report, crashes: &all };
    let json = serde_json::to_string_pretty(&output)? + "\n";
    let svg = draw(&series, &report.machine.to_string());
    write_files(options, &[("failover.json", json), ("failover.svg", svg)])?;
    report.record(options)?;
    Ok(report.missed())
}

/// Lets the holder crash as often as the course has it.
fn follow(course: Course, quick: bool, progress: &impl Fn(&str)) -> Result<Vec<Crash>> {
    let count = if quick { course.crashes.1 } else { course.crashes.0 };
    let options = match course.wire {
        Some(scale) => ClusterOptions::with_wire(course.nodes, scale),
        None => ClusterOptions { nodes: course.nodes, ..ClusterOptions::default() },
    };
    let options = ClusterOptions { start_agents: course.api_servers == 0, ..options };
    let mut crashes = Vec::new();
    scenario("failover", options, |cluster| {
        if course.api_servers > 0 {
            cluster.start_with_tls()?;
        }
        if course.wire.is_some() {
            cluster.make_wire_key()?;
        }
        cluster.create_service(&ServiceSpec::dual_stack("web"))?;
        for number in 1..=count {
            interrupt::check()?;
            let what = format!("{}: crash {number} of {count}", course.name);
            let crash = crash(cluster, course).with_context(|| what.clone())?;
            progress(&format!("{what}: {crash}"));
            crashes.push(crash);
        }
        Ok(())
    })?;
    Ok(crashes)
}

type Part = fn(&Crash) -> f64;

fn summarize(course: Course, crashes: &[Crash], report: &mut Report) {
    let samples = |part: Part| crashes.iter().map(part).collect::<Samples>();
    let mut push = |name: &str, samples: &Samples, most: Option<Duration>| {
        let item = Item::new(course.group, name, Unit::Seconds, samples);
        report.push(item.bar(most.map(|most| Limit::AtMost(most.as_secs_f64()))));
    };
    let whole: [(&str, Part); 4] = [
        ("ARP, until another node answers", |crash| crash.arp_seconds),
        ("ND, until another node answers", |crash| crash.nd_seconds),
        ("datagrams, IPv4, until they arrive there", |crash| crash.datagrams_seconds),
        ("datagrams, IPv6, until they arrive there", |crash| crash.datagrams_v6_seconds),
    ];
    for (name, part) in whole {
        let samples = samples(part);
        push(name, &samples, course.bars.median);
        push(&format!("{name}, p99"), &samples.percentile(99).into(), course.bars.p99);
        push(&format!("{name}, the longest"), &samples.max().into(), course.bars.longest);
    }
    let parts: [(&str, Part); 3] = [
        ("of it until the session is ended", |crash| crash.expiring_seconds),
        ("from there until the VIP of IPv4 is claimed", |crash| crash.taking_seconds),
        ("from there until it is announced", |crash| crash.announcing_seconds),
    ];
    for (name, part) in parts {
        push(name, &samples(part), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Machine;

    fn crash(seconds: f64) -> Crash {
        Crash {
            from: "n1".to_owned(),
            to: "n2".to_owned(),
            expiring_seconds: seconds,
            taking_seconds: 0.0,
            announcing_seconds: 0.0,
            arp_seconds: seconds,
            nd_seconds: 0.3,
            datagrams_seconds: seconds,
            datagrams_v6_seconds: 0.3,
        }
    }

    #[test]
    fn a_bar_is_missed_by_each_protocol_for_itself() {
        // Of 200 crashes, two are the slowest hundredth.
        for (usual, slow, number_slow, missed) in
            [(0.3, 0.59, 5, 0), (0.3, 0.61, 2, 0), (0.3, 0.61, 3, 2), (0.36, 0.4, 1, 2)]
        {
            let mut crashes = vec![crash(usual); 200 - number_slow];
            crashes.extend(vec![crash(slow); number_slow]);
            let mut report = Report::new(Machine::read().expect("this machine"), false);
            summarize(COURSES[0], &crashes, &mut report);
            assert_eq!(report.missed(), missed, "{usual} {slow} {number_slow}");
        }
    }
}
