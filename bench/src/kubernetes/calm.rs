//! Requests of the agents when nothing changes.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::{
    scene::{Scene, Writes},
    starts::delivered,
};
use crate::report::{Group, Item, Limit, Report, Unit, count, push};
use vipward_tests::{
    apiserver::Verb,
    kit::{cpu_time, interrupt},
};

const GROUP: Group = Group::Calm;

/// Waits until the agents have announced all VIPs, moved shares, and written their Events.
pub(super) fn settle(scene: &mut Scene) -> Result<()> {
    // New VIPs are announced six times, 1.1 s apart and at a limited pace; and who came last gets
    // its share then.
    scene.wait_until_calm()?;
    let frames = 12.0 * f64::from(scene.effort.services) / f64::from(ANNOUNCE_RATE);
    interrupt::pass(STABLE_FOR + Duration::from_secs_f64(7.0 + frames))?;
    scene.wait_until_silent()
}

pub(super) fn measure(scene: &mut Scene, report: &mut Report) -> Result<()> {
    settle(scene)?;
    let window = scene.effort.calm;
    let pids = scene.pids()?;
    let cpu = |pids: &[u32]| pids.iter().map(|pid| Ok(cpu_time(*pid)?.as_secs_f64())).sum::<Result<f64>>();
    let cpu_before = cpu(&pids)?;
    scene.server()?.reset_stats();
    let begin = Instant::now();
    interrupt::pass(window)?;
    let stats = scene.stats()?;
    let seconds = begin.elapsed().as_secs_f64();
    let nodes = count(pids.len())?;

    let writes = Writes::of(&stats);
    let renewals = seconds / scene.cluster.options().renewal.as_secs_f64();
    let a_renewal = count(writes.leases)? / nodes / renewals;
    let name = format!("Lease writes, a node and renewal, over {window:?}");
    // One more may fall into the time at either end.
    push_ratio(report, &name, a_renewal, (renewals + 1.0) / renewals);
    let others = stats.writes() - writes.leases;
    push(report, GROUP, "other writes", count(others)?, Some(Limit::AtMost(0.0)));
    push(report, GROUP, "lists", count(stats.verb(Verb::List))?, Some(Limit::AtMost(0.0)));
    push(report, GROUP, "reads of one object", count(stats.verb(Verb::Get))?, None);

    let (all, leases) = (stats.delivered(), delivered(&stats, "leases"));
    let per_second = |number: u64| Ok::<_, anyhow::Error>(count(number)? / seconds);
    let item = Item::new(
        GROUP,
        "Leases delivered to all nodes",
        Unit::PerSecond,
        &per_second(leases.objects)?.into(),
    );
    report.push(item);
    let others = all.objects - leases.objects;
    push(report, GROUP, "other objects delivered", count(others)?, None);
    push(report, GROUP, "bookmarks delivered", count(all.bookmarks)?, None);
    let item =
        Item::new(GROUP, "delivered to all nodes, a second", Unit::Bytes, &per_second(all.bytes)?.into());
    report.push(item);
    if leases.objects > 0 {
        let each = count(leases.bytes)? / count(leases.objects)?;
        report.push(Item::new(GROUP, "a Lease, as delivered", Unit::Bytes, &each.into()));
    }
    let used = (cpu(&pids)? - cpu_before) / nodes / seconds;
    let item = Item::new(GROUP, "CPU time of an agent, a second", Unit::Seconds, &used.into());
    report.push(item);
    Ok(())
}

/// The agents' default for `--stable-for`.
const STABLE_FOR: Duration = Duration::from_secs(30);
/// The agents' default for `--announce-rate`.
const ANNOUNCE_RATE: u32 = 5_000;

fn push_ratio(report: &mut Report, name: &str, value: f64, most: f64) {
    report.push(Item::new(GROUP, name, Unit::Ratio, &value.into()).bar(Limit::AtMost(most)));
}
