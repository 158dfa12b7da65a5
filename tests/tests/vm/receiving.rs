//! Solicitations pass the card's filter with this driver and kernel, with and without the agent.

use std::net::IpAddr;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::{
    agent::{Agent, ask, counter},
    frames::{
        Family, Mac, Message,
        nd::{Nd, group_of},
    },
    kit::wait_until,
    lan::{Frame, NeighbourState, Wire, vm::Machine},
};

use crate::segment::{Kind, PATIENCE, Segment};

const SIX: Family = Family::V6;
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 0xdd]);
const ROGUE: Mac = Mac([2, 0, 0, 0, 0, 0xee]);
/// Offset of the `ICMPv6` type behind the hop-by-hop options, and of a report (RFC 3810, 5.2).
const MLD_AT: usize = 62;
const MLD_REPORT: u8 = 143;

fn reports(frame: &Frame, group: &[u8; 16]) -> bool {
    frame.bytes.get(MLD_AT) == Some(&MLD_REPORT) && frame.bytes.windows(group.len()).any(|it| it == group)
}

/// Returns the state of the doctor's check of the groups, and what it found.
fn multicast(agent: &Agent) -> Result<(String, String)> {
    let mut doctor = agent.vipward("doctor")?;
    doctor.args(["-o", "json"]);
    let output = doctor.output().context("failed to start the doctor")?;
    let report: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("no JSON: {}", String::from_utf8_lossy(&output.stderr)))?;
    let rows = report["checks"].as_array().context("no list of checks")?;
    let row = rows.iter().find(|row| row["subject"] == "multicast").context("no check of multicast")?;
    let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
    Ok((text("state"), text("found")))
}

/// Sends the node a unicast request, as a neighbour that has an entry does, and returns the answer.
fn validate(wire: &Wire, solicitation: &Nd, mac: Mac) -> Result<Message> {
    let request = Message::from(Nd { options: Vec::new(), ..solicitation.clone().to(mac) });
    wire.send(&request.to_bytes())?;
    wire.expect(PATIENCE, "an answer to a unicast question", |message| message.answers(&request))
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn solicitations_pass_the_cards_filter_also_while_the_agent_is_dead() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let (client, node) = (&segment.client, &segment.node);
    let (own, mac) = (client.mac(segment.at_client)?, node.mac(segment.at_node)?);
    let [vip, from] = [10, 1].map(|last| match SIX.ip(last) {
        IpAddr::V6(address) => address,
        IpAddr::V4(_) => unreachable!("invariant: the family is IPv6"),
    });
    let wire = Wire::open_in(client, segment.at_client, SIX)?;
    // vmxnet3 runs no native XDP any more once it was down, until the next agent attaches again.
    let attach = if machine.model() == "vmxnet3" { "attach: tc\n" } else { "" };
    let mut agent = segment.agent(attach)?;
    segment.wait_until_answered()?;
    let group = group_of(vip).octets();
    assert!(wire.drain()?.iter().any(|frame| reports(frame, &group)), "no MLD report of the VIP's group");

    agent.kill9()?;
    wire.drain()?;
    let solicitation = Nd::solicitation(own, from, vip);
    for request in [solicitation.clone(), Nd::probe(own, vip, Some([7, 5, 2, 7, 7, 5]))] {
        let request = Message::from(request);
        wire.send(&request.to_bytes())?;
        let answer = wire.expect(PATIENCE, "an answer", |message| message.answers(&request))?;
        assert_eq!(answer, request.answered_by(mac), "to {request:?}");
    }
    let to_entry = Message::from(Nd { options: Vec::new(), ..solicitation.clone() }.to(mac));
    assert_eq!(validate(&wire, &solicitation, mac)?, to_entry.answered_by(mac));

    // The kernel would believe the claim.
    node.set_neighbour(segment.at_node, vip, OTHER, NeighbourState::Stale)?;
    let conflicts = counter(&agent, "claim_conflict")?;
    wire.send(&Nd::announcement(ROGUE, vip).to_bytes())?;
    ask(client, segment.at_client, SIX.ip(2))?.context("the node's kernel answers")?;
    assert_eq!(counter(&agent, "claim_conflict")?, conflicts + 1);
    let entry = node.neighbour(segment.at_node, vip)?;
    assert_eq!(entry.and_then(|entry| entry.mac), Some(OTHER), "the kernel has received the claim");

    // The kernel forgets the groups of an interface that goes down.
    node.set_up(segment.at_node, false)?;
    node.set_up(segment.at_node, true)?;
    wait_until(PATIENCE, "the node to be back", || segment.is_answered(Family::V4))?;
    assert!(!segment.is_answered(SIX)?, "the card lets in what no VIP wants");
    validate(&wire, &solicitation, mac)?;
    let (state, found) = multicast(&agent)?;
    assert_eq!(state, "red", "{found}");
    assert!(found.contains(&format!("{vip}: their groups are not joined")), "{found}");
    agent.restart()?;
    segment.wait_until_answered()?;
    let (state, found) = multicast(&agent)?;
    assert_eq!(state, "green", "{found}");
    Ok(())
}
