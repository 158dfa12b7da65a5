//! A dead agent's program yields to a peer, on this kernel and architecture.

use anyhow::Result;
use vipward_tests::arp::{Arp, Mac};
use vipward_tests::node::ask;
use vipward_tests::scene::{PATIENCE, VIP, vip_status};
use vipward_tests::vm::Machine;
use vipward_tests::wait::wait_until;
use vipward_tests::wire::Wire;

use crate::segment::{Kind, Segment};

const PEER: Mac = Mac([2, 0, 0, 0, 0, 3]);
/// Requests that show silence.
const SOME: usize = 50;

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_vip_whose_agent_is_dead_is_yielded_to_a_peer_that_announces_it() -> Result<()> {
    let segment = Segment::new(&Machine::here()?, Kind::Plain)?;
    let mut agent = segment.agent(&format!("fence: {{duration: 2s, policy: hold}}\npeers: ['{PEER}']\n"))?;
    let mac = segment.node.mac(segment.at_node)?;
    let is_answered = || Ok(ask(&segment.client, segment.at_client, VIP)? == Some(mac));
    wait_until(PATIENCE, "an answer", is_answered)?;
    agent.kill9()?;
    wait_until(PATIENCE, "the fence to be held over", || {
        Ok(agent.status()?["fence"]["state"] == "held over")
    })?;
    wait_until(PATIENCE, "an answer while the fence is held over", is_answered)?;

    let wire = Wire::open(&segment.client, segment.at_client)?;
    wire.send(&Arp::gratuitous_request(PEER, VIP, Mac::ZERO).to_bytes())?;
    wait_until(PATIENCE, "the program to yield", || {
        Ok(vip_status(&agent, VIP, segment.at_node)?["yielded"] == true)
    })?;
    let probe = segment.probe(VIP)?;
    probe.wait_for_requests(SOME, PATIENCE)?;
    let report = probe.stop()?;
    assert_eq!(report.answered(), 0, "{report}");
    Ok(())
}
