//! A VIP of each family on each kind of link is answered as surely as an address of the kernel.

use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use vipward_tests::{lan::vm::Machine, oracle::verifier::kernel};

use crate::{
    probing::Answers,
    segment::{Kind, Segment, row},
};

/// Least number of requests of each kind.
const REQUESTS: usize = 100;
/// Most rounds. In one of them, chance may lose a request for the VIP and none for the other.
const ROUNDS: usize = 3;

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn plain() -> Result<()> {
    measure_and(Kind::Plain, |segment| {
        // A driver may lose a native program then: vmxnet3 of Linux 6.12 does.
        segment.node.set_up(segment.at_node, false)?;
        segment.node.set_up(segment.at_node, true)?;
        segment.wait_until_answered()
    })
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn bridge() -> Result<()> {
    measure(Kind::Bridge)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vlan() -> Result<()> {
    measure(Kind::Vlan)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn bond() -> Result<()> {
    measure(Kind::Bond)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn macvlan() -> Result<()> {
    measure(Kind::Macvlan)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn vlan_later() -> Result<()> {
    measure(Kind::VlanLater)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn macvlan_later() -> Result<()> {
    measure(Kind::MacvlanLater)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vlan_on_bond() -> Result<()> {
    measure(Kind::VlanOnBond)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vlan_on_bridge() -> Result<()> {
    measure(Kind::VlanOnBridge)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vlan_in_vlan() -> Result<()> {
    measure(Kind::Qinq)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vlan_below_bridge() -> Result<()> {
    measure(Kind::BridgeOnVlan)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn macvlan_on_vlan() -> Result<()> {
    measure(Kind::MacvlanOnVlan)
}

fn measure(kind: Kind) -> Result<()> {
    measure_and(kind, |_| Ok(()))
}

/// Probes the VIPs and the node's own addresses side by side, and reports the answers. Fails if
/// a VIP has more unanswered requests than the address of its family in every round. Then does
/// something more.
fn measure_and(kind: Kind, then: impl FnOnce(&Segment) -> Result<()>) -> Result<()> {
    let (machine, kernel) = (Machine::here()?, kernel()?);
    let segment = Segment::new(&machine, kind)?;
    let agent = segment.agent("")?;
    let modes = segment.modes(&agent)?;
    // For `--nocapture`.
    println!("{}", agent.transcript());
    let mut answers = probe(&segment)?;
    for _ in 1..ROUNDS {
        if !answers.are_dark(0) {
            break;
        }
        answers = probe(&segment)?;
    }
    let result = match (answers.reach_the_kernel(), answers.are_dark(0)) {
        (false, _) if kind == Kind::Qinq => "the card cannot",
        (_, false) => "works",
        (_, true) => "dark",
    };
    let [vip, own] = answers.shown();
    machine.report(&row(&machine, &kernel, kind, [&modes, &vip, &own, result]))?;
    ensure!(
        result == "the card cannot" || result == "works" && answers.reach_the_kernel(),
        "{result}; {modes}\n{answers}the agent's log:\n{}",
        agent.transcript()
    );
    then(&segment).with_context(|| agent.transcript())
}

/// Probes all addresses. Only the time counts in which all are probed.
fn probe(segment: &Segment) -> Result<Answers> {
    let probing = segment.start_probing()?;
    let from = SystemTime::now();
    probing.wait_for_requests(REQUESTS)?;
    let to = SystemTime::now();
    Ok(probing.end()?.between(from, to))
}
