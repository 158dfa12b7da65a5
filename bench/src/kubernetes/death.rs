//! A node dies that holds a third of the VIPs: until all are answered and announced again.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use super::{
    scene::{Effort, Noticed, Scene},
    starts::push_answers,
    survey::Listening,
};
use crate::report::{Group, Item, Limit, MIB, Report, Unit, count, push, push_time};
use vipward_tests::{cluster::N1, kit::interrupt};

const GROUP: Group = Group::Death;
/// Announcements that are late may still come.
const LATE: Duration = Duration::from_secs(20);

pub(super) fn measure(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let options = scene.cluster.options();
    let most = options.lease + options.margin + Duration::from_secs(3);
    let lost = die(scene, report, GROUP, "", most)?;

    let writes = scene.writes()?;
    let claims = count(writes.new_claims + writes.changed_claims)?;
    push(report, GROUP, "claims written: one a VIP", claims, Some(Limit::AtMost(count(lost)?)));
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

    scene.record_memory()?;
    let peak = Item::new(Group::AgentMemory, "3 agents", Unit::Bytes, &scene.peak().into());
    report.push(peak.bar(Limit::AtMost(64.0 * MIB)));
    Ok(())
}

/// Measures the death of a node with a third of so many Services, in a cluster with wire failover.
pub(crate) fn of_a_third(services: u32, most: Duration, report: &mut Report) -> Result<()> {
    let effort = Effort { services, changes: 0, calm: Duration::ZERO };
    let mut scene = Scene::new(effort, Noticed::OnTheWire)?;
    scene.start_agents()?;
    let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
    scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
    // A MAC may get a VIP of another node when all nodes must know it. Then the nodes share the VIPs.
    interrupt::pass(scene.cluster.options().failover_limit())?;
    scene.wait_until_shared()?;
    scene.cluster.wait_until_witnessed(N1)?;
    scene.wait_until_calm()?;
    // A claim rests after each change of its holder. Until then no other node may take it.
    let options = scene.cluster.options();
    interrupt::pass(options.lease + options.margin)?;
    let died = die(&mut scene, report, Group::FailoverOfMany, &format!("of {services}: "), most);
    died.with_context(|| scene.logs()).map(drop)
}

/// Takes the power from a node when nothing else happens. Returns the number of VIPs that it held.
fn die(scene: &mut Scene, report: &mut Report, group: Group, what: &str, most: Duration) -> Result<usize> {
    scene.wait_until_calm()?;
    let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
    let (_, holders) = scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
    let lost: Vec<Ipv4Addr> =
        holders.into_iter().filter(|(_, holder)| *holder == N1).map(|(vip, _)| vip).collect();
    push(report, group, &format!("{what}VIPs that it held"), count(lost.len())?, None);
    scene.record_memory()?;

    let others: Vec<_> = ids.into_iter().filter(|id| *id != N1).collect();
    let listening = Listening::start(&scene.cluster, N1.mac(), scene.vips.len())?;
    // Frames under way have been received by now. From here on only new ones count.
    interrupt::pass(Duration::from_millis(200))?;
    scene.server()?.reset_stats();
    let (begin, begin_on_the_wall) = (Instant::now(), SystemTime::now());
    scene.cluster.power_off(N1)?;
    let (held, _) = scene.wait_until_held(&others, &lost, |_| Ok(()))?;
    push_answers(scene, report, group)?;
    let seconds = Some(most.as_secs_f64());
    let name = format!("{what}all answered by others, from when it lost its power");
    push_time(report, group, &name, held - begin, seconds);

    let limit = most + LATE;
    interrupt::pass(limit.saturating_sub(begin.elapsed()))?;
    let received = listening.stop()?;
    let mut last = Duration::ZERO;
    for vip in &lost {
        let at = received.get(vip).with_context(|| format!("{vip} was never announced by another node"))?;
        last = last.max(at.duration_since(begin_on_the_wall).unwrap_or_default());
    }
    push_time(report, group, &format!("{what}all announced by others, from then"), last, seconds);
    Ok(lost.len())
}
