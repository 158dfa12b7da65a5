//! A node whose link comes up at a bridge with a spanning tree: the port listens and learns for 30 s, and
//! passes nothing until then.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use vipward_tests::{
    agent::{Agent, ask},
    frames::Family,
    kit::wait_until,
    lan::vm::Machine,
};

use crate::segment::{Kind, PATIENCE, Segment, holds_both};

/// Time for which a port listens, and then learns (IEEE 802.1D).
const FORWARD_DELAY: Duration = Duration::from_secs(15);
/// The least time until a port passes frames: a kernel's timers may be early by a tick.
const BLOCKED: Duration = Duration::from_secs(29);
/// The longest time from the first frame that passes until a VIP is answered, or its user is found.
const DECIDED_WITHIN: Duration = Duration::from_secs(5);

/// Starts an agent behind a port of the client's bridge that has just come up. Returns it when the port
/// passes frames.
fn start_behind_the_port(segment: &mut Segment, has_vips: bool) -> Result<Agent> {
    segment.make_client_a_bridge(FORWARD_DELAY)?;
    if has_vips {
        for family in Family::BOTH {
            segment.client.add_address(segment.at_client, family.net(10))?;
        }
        // The client's requests name its newest address of IPv6.
        segment.client.delete_address(segment.at_client, Family::V6.net(1))?;
        segment.client.add_address(segment.at_client, Family::V6.net(1))?;
    }
    segment.node.set_up(segment.at_node, false)?;
    segment.node.set_up(segment.at_node, true)?;
    let began = Instant::now();
    let agent = segment.launch(&holds_both())?;
    let own = |family: Family| Ok(ask(&segment.client, segment.at_client, family.ip(2))?.is_some());
    for family in Family::BOTH {
        wait_until(PATIENCE, "the port to pass frames", || own(family))?;
    }
    ensure!(began.elapsed() > BLOCKED, "the port passed frames after {:?}", began.elapsed());
    Ok(agent)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn vips_of_a_host_behind_a_spanning_tree_are_not_taken() -> Result<()> {
    let mut segment = Segment::new(&Machine::here()?, Kind::Plain)?;
    let mut agent = start_behind_the_port(&mut segment, true)?;
    let user = segment.client.mac(segment.at_client)?;
    for family in Family::BOTH {
        agent.wait_for_log(DECIDED_WITHIN, "that the address is in use", |line| {
            line.has("what", "in_use") && line.has("vip", family.vip()) && line.has("mac", user)
        })?;
    }
    let until = Instant::now() + DECIDED_WITHIN;
    while Instant::now() < until {
        for family in Family::BOTH {
            ensure!(!segment.is_answered(family)?, "the node answers too:\n{}", agent.transcript());
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn free_vips_behind_a_spanning_tree_are_answered_when_it_passes_frames() -> Result<()> {
    let mut segment = Segment::new(&Machine::here()?, Kind::Plain)?;
    let agent = start_behind_the_port(&mut segment, false)?;
    for family in Family::BOTH {
        wait_until(DECIDED_WITHIN, "an answer", || segment.is_answered(family))
            .with_context(|| agent.transcript())?;
    }
    Ok(())
}
