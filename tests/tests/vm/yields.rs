//! A dead agent's program yields to a peer, on this kernel and architecture.

use anyhow::Result;
use vipward_tests::{
    agent::{ask, vip_status},
    frames::{Family, Message},
    kit::wait_until,
    lan::{Host, Wire, vm::Machine},
};

use crate::segment::{Kind, PATIENCE, Segment};

const AT_PEER: &str = "peer0";

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn vips_whose_agent_is_dead_are_yielded_to_a_peer_that_announces_them() -> Result<()> {
    let machine = Machine::here()?;
    let (segment, peer) = (Segment::new(&machine, Kind::Plain)?, Host::new("peer")?);
    let card = machine.plug_node(1, &peer, AT_PEER)?;
    peer.set_up(AT_PEER, true)?;
    peer.namespace().wait_until_ready(AT_PEER)?;
    let mac = card.mac();
    let mut agent = segment.agent(&format!("fence: {{duration: 2s, policy: hold}}\npeers: ['{mac}']\n"))?;
    segment.wait_until_answered()?;
    agent.kill9()?;
    wait_until(PATIENCE, "the grace period to begin", || {
        Ok(agent.status()?["lease_deadline"]["state"] == "grace period")
    })?;
    segment.wait_until_answered()?;
    let client = &segment.client;
    for family in Family::BOTH {
        assert_eq!(client.resolve(family.vip())?, segment.node.mac(segment.at_node)?);
    }

    let wire = Wire::open(&peer, AT_PEER)?;
    for vip in Family::BOTH.map(Family::vip) {
        wire.send(&Message::announcement(mac, vip).to_bytes())?;
        wait_until(PATIENCE, "the program to yield", || {
            Ok(vip_status(&agent, vip, segment.at_node)?["yielded"] == true)
        })?;
        wait_until(PATIENCE, "the client's entry to be right", || {
            let entry = client.neighbour(segment.at_client, vip)?;
            Ok(entry.and_then(|entry| entry.mac) == Some(mac))
        })?;
        assert_eq!(ask(client, segment.at_client, vip)?, None);
    }
    let probing = segment.start_probing()?;
    probing.go_on()?;
    let answers = probing.end()?;
    assert!(answers.leave_vips_silent(), "{answers}");
    Ok(())
}
