//! CPU time of agents at rest: they hold VIPs, and nothing happens.
//!
//! An agent at rest moves its fence, announces each VIP once a minute, probes each for rivals once a
//! minute, and reads its maps back. The agents for all numbers of VIPs run at the same time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::load::{Place, config, vips, wait_until_held};
use super::machine::Machine;
use super::report::{Group, Item, Limit, Report, Unit};
use super::{Options, write_files};
use vipward_tests::interrupt;

/// VIPs of an agent, and the largest share of one core that it may use.
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
    vipward_tests::require_root()?;
    let started = Instant::now();
    let machine = Machine::read()?;
    println!("{machine}\n");
    let (agents, periods) = if options.quick { (&AGENTS[..2], 1) } else { (&AGENTS[..], 2) };
    let mut report = Report::new(machine, options.quick);
    measure(agents, PERIOD * periods, &mut report)?;
    report.seconds = started.elapsed().as_secs();
    println!("{report}");
    let json = serde_json::to_string_pretty(&report)? + "\n";
    write_files(options, &[("rest.json", json)])?;
    Ok(report.missed())
}

fn measure(agents: &[(u32, Option<f64>)], window: Duration, report: &mut Report) -> Result<()> {
    let mut running = Vec::new();
    for (count, bar) in agents {
        let place = Place::new()?;
        let agent = place.start(&config(*count, UNASKED)?)?;
        running.push((*count, *bar, agent, place));
    }
    for (count, _, agent, _) in &mut running {
        wait_until_held(agent, *count)?;
    }
    // The first announcements, and the refresh after them, come in crowds.
    let most = agents.iter().map(|(count, _)| *count).max().context("there is an agent")?;
    interrupt::pass(PERIOD + Duration::from_secs(7 + u64::from(FRAMES * most / ANNOUNCE_RATE)))?;

    let before = running.iter().map(|(_, _, agent, _)| agent.cpu_time()).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    interrupt::pass(window)?;
    for ((count, bar, agent, _), before) in running.iter().zip(before) {
        let used = agent.cpu_time()?.saturating_sub(before);
        let share = used.as_secs_f64() / begin.elapsed().as_secs_f64();
        let item = Item::new(Group::Rest, vips(*count), Unit::Share, &share.into());
        report.push(match bar {
            Some(limit) => item.bar(Limit::AtMost(*limit)),
            None => item,
        });
    }
    Ok(())
}
