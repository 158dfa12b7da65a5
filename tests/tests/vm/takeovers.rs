//! One agent follows another in traffic control, by a link or by a filter, whichever the kernel has.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::Agent,
    frames::Family,
    kit::{output_of, wait_until},
    lan::vm::Machine,
    oracle::verifier::kernel,
};

use crate::segment::{Kind, PATIENCE, Segment};

/// Returns true if the kernel has links of traffic control (tcx), as Linux has since 6.6.
fn has_links() -> Result<bool> {
    let version = kernel()?;
    let numbers = version.split('-').next().unwrap_or_default().split_once('.');
    let (major, minor) = numbers.with_context(|| format!("{version} is no version"))?;
    let version: (u32, u32) = (major.parse()?, minor.parse()?);
    Ok(version >= (6, 6))
}

/// Returns ids of the link and the program on the node's interface, from `vipward status`.
fn link_and_program(agent: &Agent) -> Result<(Value, Value)> {
    let interface = agent.status()?["interfaces"][0].clone();
    ensure!(interface["attached"] == true && interface["mode"] == "tc", "{interface:#}");
    Ok((interface["link_id"].clone(), interface["program_id"].clone()))
}

/// Returns the filters at the ingress of the node's interface. Returns `None` where tc is busybox's,
/// which lists none.
fn filters(segment: &Segment) -> Result<Option<String>> {
    let mut version = segment.node.command("tc");
    version.arg("-V");
    if output_of(version).is_err() {
        return Ok(None);
    }
    let mut tc = segment.node.command("tc");
    tc.args(["filter", "show", "dev", segment.at_node, "ingress"]);
    output_of(tc).map(Some)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn in_traffic_control_a_killed_agent_is_followed_without_a_gap_and_unload_detaches() -> Result<()> {
    let segment = Segment::new(&Machine::here()?, Kind::Plain)?;
    let mut agent = segment.agent("attach: tc\n")?;
    let (link, program) = link_and_program(&agent)?;
    assert_eq!(link.is_null(), !has_links()?, "{link}");
    let ifindex = segment.node.link(segment.at_node)?.index;
    let name = if has_links()? { format!("link_{ifindex}_tc") } else { format!("filter_{ifindex}") };
    let pin: PathBuf = agent.options.pin_dir.join(name);
    assert!(fs::exists(&pin)?, "{} is missing", pin.display());

    let probing = segment.start_probing()?;
    probing.go_on()?;
    agent.kill9()?;
    probing.go_on()?;
    agent.restart()?;
    wait_until(PATIENCE, "the program of the next agent", || {
        Ok(link_and_program(&agent).is_ok_and(|(_, now)| now != program))
    })?;
    probing.go_on()?;
    let answers = probing.end()?;
    assert!(!answers.are_dark(0), "{answers}");
    assert_eq!(link_and_program(&agent)?.0, link, "the attachment goes on");

    agent.terminate()?;
    agent.unload()?;
    for family in Family::BOTH {
        assert!(!segment.is_answered(family)?, "{family:?}");
    }
    assert!(!fs::exists(&agent.options.pin_dir)?);
    assert_eq!(filters(&segment)?.unwrap_or_default(), "", "a filter is left");
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn an_agent_whose_pins_are_lost_takes_the_interface_over_again() -> Result<()> {
    let segment = Segment::new(&Machine::here()?, Kind::Plain)?;
    let mut agent = segment.agent("attach: tc\n")?;
    agent.kill9()?;
    fs::remove_dir_all(&agent.options.pin_dir)?;
    // A filter is still there, with the maps of the lost pins.
    agent.restart()?;
    wait_until(PATIENCE, "the program of the next agent", || Ok(link_and_program(&agent).is_ok()))?;
    let (_, program) = link_and_program(&agent)?;
    segment.wait_until_answered()?;
    if let Some(filters) = filters(&segment)? {
        let is_there = filters.contains(&format!(" id {program} "));
        assert_eq!(is_there, !has_links()?, "program {program}: {filters}");
    }
    Ok(())
}
