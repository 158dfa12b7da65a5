//! Starts of all agents at once: until every VIP is answered, and what is written for it.

use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};

use super::{
    objects::Source,
    scene::{Scene, Writes},
    survey::{Listening, Sweeping},
};
use crate::report::{Group, Item, Limit, Report, Unit, count, push, push_time};
use vipward_tests::{
    apiserver::{Delivered, Stats},
    frames::Mac,
};

/// Number of an agent's complaints that are shown.
const SHOWN: usize = 10;

/// Measures the first start, without pins or claims.
pub(super) fn cold(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const GROUP: Group = Group::ColdStart;
    let services = scene.effort.services;
    let bytes = scene.service_bytes(0)?.min(scene.service_bytes(1)?);
    push(
        report,
        Group::Cluster,
        "Services, of which an annotation names the VIP of every other",
        services.into(),
        None,
    );
    let item =
        Item::new(Group::Cluster, "a Service with its managed fields", Unit::Bytes, &count(bytes)?.into());
    report.push(item.bar(Limit::AtLeast(2_048.0)));

    if let Ok(server) = scene.server() {
        server.reset_stats();
    }
    // The observer shares the machine with what is measured: it ends with the first announcement.
    let received = Listening::start(&scene.cluster, Mac([0; 6]), 1)?;
    let (begin, begun) = (Instant::now(), SystemTime::now());
    scene.start_agents()?;
    let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
    let (held, _) = scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
    let first = received.stop()?.into_values().min().context("VIPs are held, and none was announced")?;
    let first = first.duration_since(begun).context("a VIP was announced before the agents' start")?;
    push_time(report, GROUP, "the first VIP is announced, from the agents' start", first, Some(1.5));
    push_time(report, GROUP, "all answered", held - begin, None);
    scene.cold = Some(held - begin);
    let rate = f64::from(services) / (held - begin).saturating_sub(first).as_secs_f64();
    let item =
        Item::new(GROUP, "new VIPs, from the first until all are answered", Unit::PerSecond, &rate.into());
    report.push(item);
    push_answers(scene, report, GROUP)?;
    let shares = scene.shares()?;
    let most = count(shares.values().copied().max().unwrap_or_default())? / f64::from(services);
    let limit = Limit::AtMost(0.5);
    report.push(Item::new(GROUP, "the largest share of a node", Unit::Ratio, &most.into()).bar(limit));
    push_log(scene, report)?;
    if scene.server().is_ok() {
        push_writes(scene, report)?;
    }
    scene.record_memory()
}

/// Adds what the agents have logged.
fn push_log(scene: &Scene, report: &mut Report) -> Result<()> {
    let (errors, warnings) = scene.cluster.complaints()?;
    let complaints = errors.iter().chain(&warnings);
    complaints.take(SHOWN).for_each(|line| eprintln!("{line}"));
    let none = Some(Limit::AtMost(0.0));
    let complaints = count(errors.len() + warnings.len())?;
    push(report, Group::ColdStart, "errors and warnings that the agents logged", complaints, none);
    let lines = scene.cluster.ids().into_iter().map(|id| {
        let log = scene.cluster.member(id)?.agent().context("an agent was started")?.logs()?;
        Ok(log.iter().filter(|line| line.level() != "DEBUG").count())
    });
    let lines = count(lines.sum::<Result<usize>>()?)?;
    push(report, Group::ColdStart, "lines that they logged", lines, None);
    Ok(())
}

/// Adds what was written for the cold start.
fn push_writes(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const GROUP: Group = Group::ColdStart;
    let services = scene.effort.services;
    scene.wait_until_calm()?;
    let stats = scene.stats()?;
    let Writes { new_claims, changed_claims, statuses, leases, events, other } = Writes::of(&stats);
    let annotated = (0..services).filter(|number| Source::of(*number) == Source::Annotation).count();
    let exactly = [
        ("claims written: one a VIP", new_claims, services.into()),
        ("claims written again", changed_claims, 0.0),
        ("statuses written: one for each Service with an annotation", statuses, count(annotated)?),
        ("other writes", other, 0.0),
    ];
    for (name, written, must) in exactly {
        push(report, GROUP, name, count(written)?, Some(Limit::AtMost(must)));
    }
    let claims = delivered(&stats, "virtualips");
    if claims.objects > 0 {
        let each = count(claims.bytes)? / count(claims.objects)?;
        report.push(Item::new(GROUP, "a claim, as delivered", Unit::Bytes, &each.into()));
    }
    push(report, GROUP, "Lease writes meanwhile, of all nodes", count(leases)?, None);
    push(report, GROUP, "Events written, of all nodes", count(events)?, None);
    let refused: u64 = stats.answers.iter().filter(|(code, _)| **code >= 400).map(|(_, count)| count).sum();
    push(report, GROUP, "requests that the API server refused", count(refused)?, None);
    Ok(())
}

/// Measures a restart of all agents, as in a rollout. Pins and claims stay.
pub(super) fn with_pins(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const GROUP: Group = Group::WarmStart;
    scene.wait_until_calm()?;
    let sweeping = Sweeping::start(scene.surveyor()?, scene.vips.clone())?;
    scene.server()?.reset_stats();
    scene.stop_agents()?;
    let begin = Instant::now();
    scene.start_agents()?;
    let ready = scene.wait_until_ready()?;
    let (asked, unanswered) = sweeping.stop()?;
    push_time(report, GROUP, "all agents ready, from their start", ready - begin, Some(3.0));
    push(report, GROUP, "requests from before the stop until then", count(asked)?, None);
    push(report, GROUP, "of them not answered", count(unanswered.len())?, Some(Limit::AtMost(0.0)));
    scene.wait_until_calm()?;
    let writes = scene.writes()?;
    push_claims(report, GROUP, writes, 0.0)
}

/// Nodes that were switched off and on: what is pinned is lost, and with it the sessions.
pub(super) fn without_pins(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const GROUP: Group = Group::LostPins;
    scene.wait_until_calm()?;
    scene.stop_agents()?;
    let (ids, vips) = (scene.cluster.ids(), scene.vips.clone());
    ids.iter().try_for_each(|id| scene.cluster.unload(*id))?;
    scene.server()?.reset_stats();
    let doubt = 2 * scene.cluster.options().renewal;
    let begin = Instant::now();
    scene.start_agents()?;
    let (held, _) = scene.wait_until_held(&ids, &vips, |_| Ok(()))?;
    let name = format!("all answered, from their start; for {doubt:?} an agent makes sure that it is alone");
    push_time(report, GROUP, &name, held - begin, Some(3.0 + doubt.as_secs_f64()));
    push_answers(scene, report, GROUP)?;
    scene.wait_until_calm()?;
    let writes = scene.writes()?;
    push_claims(report, GROUP, writes, scene.effort.services.into())
}

fn push_claims(report: &mut Report, group: Group, writes: Writes, must: f64) -> Result<()> {
    let Writes { new_claims, changed_claims, statuses, leases: _, events, other } = writes;
    push(report, group, "claims written", count(new_claims + changed_claims)?, Some(Limit::AtMost(must)));
    push(
        report,
        group,
        "statuses and other things written",
        count(statuses + other)?,
        Some(Limit::AtMost(0.0)),
    );
    push(report, group, "Events written, of all nodes", count(events)?, None);
    Ok(())
}

/// Requests every VIP on the wire.
pub(super) fn push_answers(scene: &Scene, report: &mut Report, group: Group) -> Result<()> {
    let answers = scene.sweep()?;
    let none = Some(Limit::AtMost(0.0));
    push(report, group, "VIPs not answered on the wire then", count(answers.unanswered.len())?, none);
    push(report, group, "VIPs answered by two", count(answers.doubles())?, none);
    Ok(())
}

/// Returns the API server's deliveries about a resource, over all nodes.
pub(super) fn delivered(stats: &Stats, resource: &str) -> Delivered {
    let all = stats.delivered.iter().filter(|((_, what), _)| what == resource);
    all.fold(Delivered::default(), |sum, (_, one)| Delivered {
        objects: sum.objects + one.objects,
        bookmarks: sum.bookmarks + one.bookmarks,
        bytes: sum.bytes + one.bytes,
    })
}
