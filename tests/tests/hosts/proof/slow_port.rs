//! Links that come up behind a port that blocks, as one of a spanning tree does for 30 s: what nobody can
//! answer is no silence.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{NODE, PATIENCE, ROGUE, ask},
    lan::Nic,
    measure::ProbeMode,
};

use super::{CASES, Stage, answerers, in_each, sleep_until};

/// Longest time from the opening of the port to the finding of the address's user.
const FOUND_WITHIN: Duration = Duration::from_secs(5);
/// Longest time from the opening of the port to an announcement.
const ANNOUNCED_WITHIN: Duration = Duration::from_millis(1_500);
/// Time for which a port blocks that opens soon.
const SOON: Duration = Duration::from_secs(5);
/// The same, after the last announcement because of the link-up.
const LATER: Duration = Duration::from_secs(10);

/// Checks that a VIP that another host has is never answered by the node.
fn the_other_host_alone_answers(stage: &Stage, blocked: Duration) -> Result<()> {
    stage.scene.add_gateway(stage.case.family)?;
    stage.give_to_the_rogue()?;
    let port = stage.replug_behind_a_blocking_port()?;
    let began = Instant::now();
    let mut agent = stage.start("")?;
    let probe = stage.probe(ProbeMode::Broadcast)?;
    sleep_until(began, blocked);

    let opened = (Instant::now(), SystemTime::now());
    port.change(|rules| rules.blocks = false)?;
    let in_use = agent.wait_for_log(FOUND_WITHIN, "that the address is in use", |line| {
        line.has("what", "in_use") && line.has("vip", stage.vip) && line.has("mac", ROGUE)
    });
    // A client has asked often by then.
    sleep_until(opened.0, FOUND_WITHIN * 2);
    let report = probe.stop()?;
    let found = answerers(&report, opened.1);
    let log = || format!("{report}\nthe agent's log:\n{}", agent.transcript());
    ensure!(found == BTreeSet::from([ROGUE]), "{found:?} answered after the opening: {}", log());
    in_use?;
    ensure!(!stage.holds(&agent), "it is held: {}", log());
    Ok(())
}

#[test]
fn a_vip_of_a_host_behind_a_slow_port_is_never_answered() -> Result<()> {
    in_each(&CASES[1..], "slow-port", |stage| the_other_host_alone_answers(stage, LATER))
}

#[test]
fn a_vip_of_a_host_behind_a_spanning_tree_is_never_answered() -> Result<()> {
    in_each(&CASES[..1], "spanning-tree", |stage| {
        the_other_host_alone_answers(stage, Duration::from_secs(30))
    })
}

#[test]
fn a_free_vip_is_answered_soon_after_the_port_opens() -> Result<()> {
    in_each(&CASES, "slow-free", |stage| {
        stage.scene.add_gateway(stage.case.family)?;
        let port = stage.replug_behind_a_blocking_port()?;
        let began = Instant::now();
        let agent = stage.start("")?;
        // The client only listens, so that nothing but the gateway's answers proves the segment.
        let wire = stage.listen(&stage.scene.client)?;
        sleep_until(began, SOON);
        let held_before = stage.holds(&agent);
        port.change(|rules| rules.blocks = false)?;
        let announced = stage.wait_for_announcement(&wire, ANNOUNCED_WITHIN);
        announced.with_context(|| format!("the agent's log:\n{}", agent.transcript()))?;
        ensure!(ask(&stage.scene.client, "eth0", stage.vip)? == Some(NODE), "the client gets no answer");
        ensure!(!held_before, "it was held while nobody could answer a probe:\n{}", agent.transcript());
        Ok(())
    })
}

#[test]
fn a_vip_on_a_link_where_nobody_is_ever_heard_is_answered_in_the_end() -> Result<()> {
    const AFTER: [Duration; 2] = [Duration::from_secs(28), Duration::from_secs(36)];
    in_each(&CASES, "nobody", |stage| {
        // No host but one that sends nothing.
        for host in [&stage.scene.client, &stage.scene.rogue] {
            stage.port(host)?.change(|rules| rules.blocks = true)?;
        }
        let listener = stage.scene.lan.host("listener", Nic::bare())?;
        let wire = stage.listen(&listener)?;
        stage.scene.node.set_carrier("eth0", false)?;
        stage.scene.node.set_carrier("eth0", true)?;
        let agent = stage.start("")?;
        let announced = stage.wait_for_announcement(&wire, AFTER[1]);
        let announced = announced.with_context(|| format!("the agent's log:\n{}", agent.transcript()))?;
        ensure!(announced >= AFTER[0], "after {announced:?}:\n{}", agent.transcript());
        ensure!(ask(&listener, "eth0", stage.vip)? == Some(NODE), "nobody answers");
        Ok(())
    })
}

#[test]
fn a_held_vip_is_announced_when_a_slow_port_opens() -> Result<()> {
    in_each(&CASES, "slow-held", |stage| {
        stage.scene.add_gateway(stage.case.family)?;
        let agent = stage.start("")?;
        stage.wait_until_answered(NODE, &agent, PATIENCE)?;
        Stage::wait_until_proven(&agent)?;
        let port = stage.replug_behind_a_blocking_port()?;
        thread::sleep(LATER);
        let wire = stage.listen(&stage.scene.client)?;
        port.change(|rules| rules.blocks = false)?;
        let announced = stage.wait_for_announcement(&wire, ANNOUNCED_WITHIN);
        announced.with_context(|| format!("the agent's log:\n{}", agent.transcript()))?;
        ensure!(ask(&stage.scene.client, "eth0", stage.vip)? == Some(NODE), "the client gets no answer");
        Ok(())
    })
}
