//! Hosts that answer after the last probe's time: printers, power saving, proxies.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, ensure};
use vipward_tests::{agent::ROGUE, measure::ProbeMode};

use super::{CASES, Stage, answerers, in_each, sleep_until};

/// Longest time from the agent's start until the node is silent, or silent again.
const SILENT_AFTER: Duration = Duration::from_secs(4);
/// Time for which a client asks afterwards.
const ASKED_FOR: Duration = Duration::from_secs(6);

/// Checks that the node leaves its VIP to a host whose answers have this delay.
fn the_late_host_alone_answers(stage: &Stage, delay: Duration) -> Result<()> {
    stage.scene.add_gateway(stage.case.family)?;
    stage.give_to_the_rogue()?;
    stage.port(&stage.scene.rogue)?.change(|rules| rules.answers_late = delay)?;
    let agent = stage.start("")?;
    let began = Instant::now();
    let probe = stage.probe(ProbeMode::Broadcast)?;
    sleep_until(began, SILENT_AFTER);
    let from = SystemTime::now();
    sleep_until(began, SILENT_AFTER + ASKED_FOR);

    let status = agent.status()?;
    let report = probe.stop()?;
    let found = answerers(&report, from);
    let log = || format!("{report}\nthe agent's log:\n{}", agent.transcript());
    ensure!(found == BTreeSet::from([ROGUE]), "{found:?} answered after {SILENT_AFTER:?}: {}", log());
    ensure!(status.to_string().contains(&ROGUE.to_string()), "its MAC is not in {status:#}: {}", log());
    ensure!(!stage.holds(&agent), "it is held: {}", log());
    Ok(())
}

#[test]
fn a_vip_of_a_host_that_answers_after_the_probes_is_left_to_it() -> Result<()> {
    in_each(&CASES, "late", |stage| the_late_host_alone_answers(stage, Duration::from_millis(900)))
}

#[test]
fn a_vip_of_a_host_that_answers_long_after_the_probes_is_left_to_it() -> Result<()> {
    in_each(&CASES, "later", |stage| the_late_host_alone_answers(stage, Duration::from_millis(1_500)))
}
