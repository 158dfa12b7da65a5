//! Events of a card that answers for a VIP. The agent is killed and restarted after each,
//! with the pins that are there then.

mod others;

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use vipward_tests::{
    agent::{Agent, VIP, net, wait_until_running},
    kit::output_of,
    lan::vm::{Control, Machine},
};

use crate::{
    probing::{Answers, Probing},
    segment::{Kind, Segment, add_addresses},
};

/// Time in which the agent sees an event.
const SEEN: Duration = Duration::from_secs(1);
/// Requests that a new interface leaves unanswered by two probes, while the agent probes whether the VIP
/// is free there.
const PROBED: usize = 150;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Nothing,
    OtherMtu,
    DownAndUp,
    OtherName,
    /// As by `ethtool -r`.
    Reset,
    NoCarrier,
    /// QEMU makes the driver announce itself, as after a migration.
    Moved,
    /// The driver lets go and takes the card again: another interface.
    Rebound,
}

impl Event {
    const ALL: [Self; 8] = [
        Self::Nothing,
        Self::OtherMtu,
        Self::DownAndUp,
        Self::OtherName,
        Self::Reset,
        Self::NoCarrier,
        Self::Moved,
        Self::Rebound,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "agent killed and restarted",
            Self::OtherMtu => "MTU 9000, and 1500 again",
            Self::DownAndUp => "down and up",
            Self::OtherName => "renamed, and back",
            Self::Reset => "reset (ethtool -r)",
            Self::NoCarrier => "without carrier, and back",
            Self::Moved => "the machine has moved",
            Self::Rebound => "driver unbound and bound",
        }
    }

    /// Returns true if the model of cards has it: no other driver resets the card so.
    fn is_known_to(self, machine: &Machine) -> bool {
        self != Self::Reset || machine.model() == "e1000e"
    }

    fn happen(self, segment: &Segment, probing: &Probing) -> Result<()> {
        let (node, nic) = (&segment.node, segment.at_node);
        match self {
            Self::Nothing => {}
            Self::OtherMtu => {
                for bytes in [9_000, 1_500] {
                    // A driver may refuse the large one while XDP is attached.
                    if let Err(error) = node.namespace().set_mtu(nic, bytes) {
                        println!("{error:#}");
                    }
                    probing.go_on()?;
                }
            }
            Self::DownAndUp => {
                node.set_up(nic, false)?;
                sleep(SEEN);
                node.set_up(nic, true)?;
            }
            Self::OtherName => {
                for (from, to) in [(nic, "other0"), ("other0", nic)] {
                    node.set_up(from, false)?;
                    node.rename(from, to)?;
                    node.set_up(to, true)?;
                    probing.recover()?;
                }
            }
            Self::Reset => node.namespace().renegotiate(nic)?,
            Self::NoCarrier => {
                for carrier in [false, true] {
                    segment.card().set_carrier(carrier)?;
                    sleep(SEEN);
                }
            }
            Self::Moved => Control::open()?.announce()?,
            Self::Rebound => {
                segment.card().rebind(nic)?;
                node.set_up(nic, true)?;
                add_addresses(node, nic, 2)?;
            }
        }
        probing.recover()
    }
}

/// Lets everything happen to a card, one after the other. Reports all rows before it fails.
#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn whatever_happens_to_a_card_the_vip_is_answered_as_surely_as_the_kernels_address() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let mut agent = segment.agent("")?;
    let mut outcome = Ok(());
    for event in Event::ALL.into_iter().filter(|event| event.is_known_to(&machine)) {
        let slack = if event == Event::Rebound { PROBED } else { 0 };
        let happen = |probing: &Probing| event.happen(&segment, probing);
        let judged = endure(&segment, &machine, &mut agent, event.name(), slack, happen);
        outcome = outcome.and(judged);
    }
    outcome
}

/// Probes while something happens to the segment, and while the agent is killed and restarted.
fn endure(
    segment: &Segment,
    machine: &Machine,
    agent: &mut Agent,
    scenario: &str,
    slack: usize,
    mut happen: impl FnMut(&Probing) -> Result<()>,
) -> Result<()> {
    let round = || {
        let mac = segment.node.mac(segment.at_node)?;
        let probing = Probing::start(&segment.client, segment.at_client, mac)?;
        happen(&probing)?;
        agent.kill9()?;
        probing.go_on()?;
        let seen = agent.logs()?.len();
        agent.restart()?;
        wait_until_running(agent, seen)?;
        probing.stop()
    };
    Answers::of_best(round, slack)?.judge(machine, scenario, agent, slack)
}

/// Runs `ip` or another program on the node.
fn on_node(segment: &Segment, line: &str) -> Result<()> {
    let mut words = line.split_whitespace();
    let mut command = segment.node.command(words.next().context("an empty line")?);
    command.args(words);
    output_of(command).map(drop)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn a_bridge_begins_to_filter_vlans() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Bridge)?;
    let mut agent = segment.agent("")?;
    endure(&segment, &machine, &mut agent, "bridge: vlan_filtering", 0, |probing| {
        on_node(&segment, &format!("ip link set {} type bridge vlan_filtering 1", segment.at_node))?;
        probing.go_on()
    })
}

/// kube-proxy in IPVS mode puts each VIP on a dummy, and the kernel then answers for it on every card.
#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn an_address_that_ipvs_has_bound_is_answered_once() -> Result<()> {
    let machine = Machine::here()?;
    let segment = Segment::new(&machine, Kind::Plain)?;
    let second = machine.plug_node(1, &segment.node, "nic1")?;
    segment.node.set_up("nic1", true)?;
    segment.node.add_address("nic1", net(3))?;
    segment.node.namespace().wait_until_ready("nic1")?;
    on_node(&segment, "ip link add kube-ipvs0 type dummy")?;
    let mut agent = segment.agent("")?;
    let scenario = "VIP on kube-ipvs0, two cards on the segment";
    let outcome = endure(&segment, &machine, &mut agent, scenario, 0, |probing| {
        on_node(&segment, &format!("ip address replace {VIP}/32 dev kube-ipvs0"))?;
        probing.go_on()
    });
    drop(second);
    outcome
}
