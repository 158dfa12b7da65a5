//! Fabrics that answer for hosts: the cache of a dead host is no host, and one of a living host is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{Agent, NODE, ROGUE, ask},
    frames::Message,
    kit::wait_until,
    lan::Wire,
    measure::ProbeMode,
};

use super::{CASES, Stage, in_each, sleep_until};

/// Longest time from the agent's start until it has a dead host's VIP.
const TAKEN_WITHIN: Duration = Duration::from_secs(8);
/// Time for which a client asks a node that must not answer.
const ASKED_FOR: Duration = Duration::from_secs(15);

/// Makes the switch answer by itself, and know that the rogue has the VIP.
fn fill_the_cache(stage: &Stage) -> Result<()> {
    let scene = &stage.scene;
    scene.add_gateway(stage.case.family)?;
    for host in [&scene.client, &scene.node, &scene.rogue] {
        stage.port(host)?.change(|rules| rules.answers_from_cache = true)?;
    }
    let announcement = Message::announcement(ROGUE, stage.vip);
    Wire::open(&scene.rogue, "eth0")?.send(&announcement.to_bytes())?;
    wait_until(TAKEN_WITHIN, "the switch to learn it", || Ok(scene.lan.learnt(stage.vip)? == Some(ROGUE)))
}

/// Checks that the node answers nobody, and that the switch answers with the rogue's MAC.
fn the_node_is_silent(stage: &Stage, agent: &Agent, began: Instant) -> Result<()> {
    let probe = stage.probe(ProbeMode::Unicast(NODE))?;
    sleep_until(began, ASKED_FOR);
    let report = probe.stop()?;
    let log = || format!("{report}\nthe agent's log:\n{}", agent.transcript());
    ensure!(report.sent() > 100, "{}", log());
    ensure!(report.answered() == 0, "the node answers: {}", log());
    ensure!(ask(&stage.scene.client, "eth0", stage.vip)? == Some(ROGUE), "the cache is changed: {}", log());
    ensure!(!stage.holds(agent), "it is held: {}", log());
    Ok(())
}

#[test]
fn a_vip_that_a_fabric_has_of_a_dead_host_is_taken_and_the_fabric_corrected() -> Result<()> {
    in_each(&CASES, "proxied", |stage| {
        fill_the_cache(stage)?;
        let agent = stage.start("")?;
        let began = Instant::now();
        let log = || format!("the agent's log:\n{}", agent.transcript());
        let lan = &stage.scene.lan;
        wait_until(TAKEN_WITHIN, "the switch to learn that the node has the VIP", || {
            Ok(lan.learnt(stage.vip)? == Some(NODE))
        })
        .with_context(log)?;
        ensure!(ask(&stage.scene.client, "eth0", stage.vip)? == Some(NODE), "by the cache: {}", log());
        // It stays so, and the node itself answers.
        let probe = stage.probe(ProbeMode::Unicast(NODE))?;
        sleep_until(began, TAKEN_WITHIN * 2);
        let report = probe.stop()?;
        ensure!(report.sent() > 100 && report.unanswered().is_empty(), "{report}\n{}", log());
        ensure!(lan.learnt(stage.vip)? == Some(NODE), "it was given back: {}", log());
        Ok(())
    })
}

#[test]
fn a_vip_that_a_fabric_has_of_a_dead_host_waits_where_that_is_configured() -> Result<()> {
    const SAID: [&str; 3] =
        ["answers for a host that does not answer itself", "force: true", "proxied: take"];
    in_each(&CASES, "proxied-wait", |stage| {
        fill_the_cache(stage)?;
        let mut agent = stage.start("probe: {proxied: wait}\n")?;
        let began = Instant::now();
        the_node_is_silent(stage, &agent, began)?;
        ensure!(agent.is_running()?, "the agent has ended:\n{}", agent.transcript());
        let mut command = agent.vipward("explain")?;
        command.args([&stage.vip.to_string(), "-o", "json", "--config"]).arg(agent.config_path());
        let output = command.output().context("failed to run vipward explain")?;
        let explained = String::from_utf8_lossy(&output.stdout);
        for part in SAID {
            ensure!(explained.contains(part), "{part:?} in {explained}\n{}", agent.transcript());
        }
        Ok(())
    })
}

#[test]
fn a_vip_of_a_living_host_behind_a_fabric_is_never_taken() -> Result<()> {
    in_each(&CASES, "proxied-living", |stage| {
        stage.give_to_the_rogue()?;
        fill_the_cache(stage)?;
        let agent = stage.start("")?;
        let began = Instant::now();
        the_node_is_silent(stage, &agent, began)
    })
}
