//! Programs of others on the card.

use std::thread::sleep;

use anyhow::Result;
use vipward_tests::lan::{Hook, Hooked, vm::Machine};

use super::{SEEN, endure, on_node};
use crate::segment::{Kind, Segment};

/// Configuration of an agent in traffic control.
const TC: &str = "attach: tc\n";

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn another_xdp_program_before_ours_leaves_traffic_control() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    // Only drivers with native XDP take it.
    let Ok(foreign) = Hooked::xdp_pass(&segment.node, segment.at_node) else { return Ok(()) };
    let mut foreign = Some(foreign);
    let mut agent = segment.agent("")?;
    endure(&segment, &machine, &mut agent, "another XDP program, which goes", 0, |probing| {
        probing.go_on()?;
        drop(foreign.take());
        sleep(SEEN);
        Ok(())
    })
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn another_xdp_program_after_ours_harms_nothing() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let mut agent = segment.agent(TC)?;
    let scenario = "tc: another XDP program, which comes and goes";
    endure(&segment, &machine, &mut agent, scenario, 0, |probing| {
        let foreign = Hooked::xdp_pass(&segment.node, segment.at_node);
        probing.go_on()?;
        drop(foreign);
        Ok(())
    })
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn programs_of_tcx_before_and_after_ours_harm_nothing() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let hook = || Hooked::attach(&segment.node, segment.at_node, Hook::TcxIngress, "foreign");
    // Since Linux 6.6.
    let Ok(before) = hook() else { return Ok(()) };
    let mut agent = segment.agent(TC)?;
    let scenario = "tc: other programs of tcx before and after";
    let outcome = endure(&segment, &machine, &mut agent, scenario, 0, |probing| {
        let after = hook()?;
        probing.go_on()?;
        drop(after);
        Ok(())
    });
    drop(before);
    outcome
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn filters_of_clsact_before_and_after_ours_harm_nothing() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let nic = segment.at_node;
    on_node(&segment, &format!("tc qdisc add dev {nic} clsact"))?;
    let put = |pref: u32| {
        let filter = format!("dev {nic} ingress pref {pref} protocol all matchall action continue");
        on_node(&segment, &format!("tc filter replace {filter}"))
    };
    put(10)?;
    let mut agent = segment.agent(TC)?;
    let scenario = "tc: other filters of clsact before and after";
    endure(&segment, &machine, &mut agent, scenario, 0, |probing| {
        put(60_000)?;
        probing.go_on()
    })
}
