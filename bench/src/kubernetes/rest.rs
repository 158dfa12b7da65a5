//! CPU time of agents at rest: they hold VIPs, and nothing happens.
//!
//! An agent at rest extends its lease deadline and reads its maps back. Once a minute it announces each
//! VIP and probes it for rivals. In a cluster it also renews its Lease, and reads the other nodes' Leases.
//! All agents, standalone and in clusters of three, run at the same time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use vipward_tests::kit::{cpu_time, interrupt};

use super::{
    calm::settle,
    scene::{Effort, Noticed, Scene},
};
use crate::{
    host::{Place, config, vips, wait_until_held},
    report::{Group, Item, Limit, Options, Report, Unit},
};

/// VIPs of an agent or of a cluster, and the largest share of one core that an agent may use.
const AGENTS: [(u32, Option<f64>); 3] = [(1, None), (1_000, Some(0.002)), (10_000, Some(0.01))];
/// Addresses are not probed before they are held, which would only take time.
const UNASKED: &str = "probe: {count: 0}";
/// The agent's default for `announce.rate`.
const ANNOUNCE_RATE: u32 = 1_000;
/// Frames that announce a new VIP.
const FRAMES: u32 = 12;
/// Longest time between two refreshes of a VIP, and between two probes.
const PERIOD: Duration = Duration::from_secs(66);

/// Measures, prints the table to stdout, and writes rest.json. Returns how many bars were missed.
pub(crate) fn run(options: &Options) -> Result<usize> {
    let started = Instant::now();
    let (agents, periods) = if options.quick { (&AGENTS[..2], 1) } else { (&AGENTS[..], 2) };
    let mut report = Report::begin(options)?;
    measure(agents, PERIOD * periods, &mut report)?;
    report.finish(started, options, "rest.json")
}

fn measure(agents: &[(u32, Option<f64>)], window: Duration, report: &mut Report) -> Result<()> {
    let mut alone = Vec::new();
    for (count, bar) in agents {
        let place = Place::new()?;
        let agent = place.start(&config(*count, UNASKED)?)?;
        alone.push((*count, *bar, agent, place));
    }
    for (count, _, agent, _) in &mut alone {
        wait_until_held(agent, *count)?;
    }
    let mut clusters = Vec::new();
    for (count, bar) in agents.iter().filter(|(_, bar)| bar.is_some()) {
        clusters.push((*count, *bar, Resting::start(*count)?));
    }
    for (_, _, cluster) in &mut clusters {
        cluster.settle()?;
    }
    // The first announcements, and the refresh after them, come in crowds.
    let most = agents.iter().map(|(count, _)| *count).max().context("there is an agent")?;
    interrupt::pass(PERIOD + Duration::from_secs(7 + u64::from(FRAMES * most / ANNOUNCE_RATE)))?;

    let mut cpu_times = || -> Result<Vec<_>> {
        let mut times = Vec::new();
        for (count, bar, agent, _) in &alone {
            times.push((vips(*count), *bar, vec![agent.cpu_time()?]));
        }
        for (count, bar, cluster) in &mut clusters {
            let name = format!("{} in a cluster of three", vips(*count));
            times.push((name, *bar, cluster.cpu_times()?));
        }
        Ok(times)
    };
    let before = cpu_times()?;
    let begin = Instant::now();
    interrupt::pass(window)?;
    let elapsed = begin.elapsed().as_secs_f64();
    for ((name, bar, after), (_, _, before)) in cpu_times()?.into_iter().zip(before) {
        let used = after.iter().zip(before).map(|(after, before)| after.saturating_sub(before));
        let shares = used.map(|used| used.as_secs_f64() / elapsed);
        let item = Item::new(Group::Rest, name, Unit::Share, &shares.collect());
        report.push(item.bar(bar.map(Limit::AtMost)));
    }
    Ok(())
}

/// Three agents, and an API server in this process.
struct Resting(Scene);

impl Resting {
    /// Starts the agents with one VIP for each Service, and waits until they hold all.
    fn start(services: u32) -> Result<Self> {
        let effort = Effort { services, changes: 0, calm: Duration::ZERO };
        let mut scene = Scene::new(effort, Noticed::ByTheLease)?;
        scene.start_agents()?;
        let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
        scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
        Ok(Self(scene))
    }

    /// Waits until the agents write nothing but renewals.
    fn settle(&mut self) -> Result<()> {
        settle(&mut self.0)
    }

    /// Returns the CPU time that each agent has used.
    fn cpu_times(&mut self) -> Result<Vec<Duration>> {
        self.0.pids()?.into_iter().map(cpu_time).collect()
    }
}
