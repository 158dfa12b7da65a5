//! A node dies that holds a third of the VIPs: until all are answered and announced again.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use super::scene::Scene;
use super::starts::{count, push, push_answers, push_time};
use super::survey::Listening;
use crate::load::MIB;
use crate::report::{Group, Item, Limit, Report, Unit};
use vipward_tests::cluster::N1;
use vipward_tests::interrupt;

const GROUP: Group = Group::Death;
/// Announcements that are late may still come.
const LATE: Duration = Duration::from_secs(20);

pub(super) fn measure(scene: &mut Scene, report: &mut Report) -> Result<()> {
    scene.wait_until_calm()?;
    let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
    let (_, holders) = scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
    let lost: Vec<Ipv4Addr> =
        holders.into_iter().filter(|(_, holder)| *holder == N1).map(|(vip, _)| vip).collect();
    push(report, GROUP, "VIPs that it held", count(lost.len())?, None);
    scene.note_memory()?;

    let others: Vec<_> = ids.into_iter().filter(|id| *id != N1).collect();
    let listening = Listening::start(&scene.cluster, N1.mac())?;
    // Frames under way have been heard by now. From here on only new ones count.
    interrupt::pass(Duration::from_millis(200))?;
    scene.server()?.reset_stats();
    let (begin, begin_on_the_wall) = (Instant::now(), SystemTime::now());
    scene.cluster.power_off(N1)?;
    let (held, _) = scene.wait_until_held(&others, &lost, |_| Ok(()))?;
    push_answers(scene, report, GROUP)?;
    let options = scene.cluster.options();
    let most = (options.lease + options.margin + Duration::from_secs(3)).as_secs_f64();
    push_time(report, GROUP, "all answered by others, from when it lost its power", held - begin, Some(most));

    let limit = Duration::from_secs_f64(most) + LATE;
    interrupt::pass(limit.saturating_sub(begin.elapsed()))?;
    let heard = listening.stop()?;
    let mut last = Duration::ZERO;
    for vip in &lost {
        let at = heard.get(vip).with_context(|| format!("{vip} was never announced by another node"))?;
        last = last.max(at.duration_since(begin_on_the_wall).unwrap_or_default());
    }
    push_time(report, GROUP, "all announced by others, from then", last, Some(most));

    let writes = scene.writes()?;
    let claims = count(writes.new_claims + writes.changed_claims)?;
    push(report, GROUP, "claims written: one a VIP", claims, Some(Limit::AtMost(count(lost.len())?)));
    push(report, GROUP, "statuses written", count(writes.statuses)?, Some(Limit::AtMost(0.0)));
    push(report, GROUP, "Events written", count(writes.events)?, None);
    let held: usize =
        scene.shares()?.into_iter().filter(|(node, _)| *node != N1.to_string()).map(|(_, n)| n).sum();
    push(
        report,
        GROUP,
        "claims that name a node that lives",
        count(held)?,
        Some(Limit::AtLeast(scene.effort.services.into())),
    );

    scene.note_memory()?;
    let peak = Item::new(Group::AgentMemory, "3 agents", Unit::Bytes, &scene.peak().into());
    report.push(peak.bar(Limit::AtMost(64.0 * MIB)));
    Ok(())
}
