//! A VIP on each kind of link is answered as surely as an address of the kernel.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use vipward_tests::probe::{ArpProbe, ProbeMode, ProbeReport};
use vipward_tests::scene::{VIP, ip};
use vipward_tests::verifier::kernel;
use vipward_tests::vm::Machine;

use crate::segment::{Kind, Segment, row};

/// A hundred requests a second of each kind.
const INTERVAL: Duration = Duration::from_millis(10);
/// Least number of requests of each kind.
const REQUESTS: usize = 200;
/// Time limit of the requests, long enough for an emulated machine.
const LIMIT: Duration = Duration::from_mins(1);

/// Most rounds. In one of them, chance may lose a request for the VIP and none for the other.
const ROUNDS: usize = 3;

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn plain() -> Result<()> {
    measure(Kind::Plain)
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
fn bridge_on_vlan() -> Result<()> {
    measure(Kind::BridgeOnVlan)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn macvlan_on_vlan() -> Result<()> {
    measure(Kind::MacvlanOnVlan)
}

/// Asks for the VIP and for the node's own address side by side, and reports the answers. Fails if
/// the VIP has more unanswered requests in every round.
fn measure(kind: Kind) -> Result<()> {
    let (machine, kernel) = (Machine::here()?, kernel()?);
    let segment = Segment::new(&machine, kind)?;
    let agent = segment.agent("")?;
    let modes = segment.modes(&agent)?;
    // For `--nocapture`.
    println!("{}", agent.transcript());
    let mut round = Round::ask(&segment)?;
    for _ in 1..ROUNDS {
        if round.is_bright() {
            break;
        }
        round = Round::ask(&segment)?;
    }
    let Round { vip, own } = &round;
    let result = match (round.own.answered, round.is_bright()) {
        (0, _) if kind == Kind::Qinq => "the card cannot",
        (_, true) => "works",
        (_, false) => "dark",
    };
    machine.report(&row(&machine, &kernel, kind, [&modes, &vip.to_string(), &own.to_string(), result]))?;
    if result == "the card cannot" {
        return Ok(());
    }
    ensure!(own.answered > 0, "the kernel's own address was never answered: {}", own.shown);
    ensure!(
        round.is_bright(),
        "{vip} requests for the VIP were answered, and {own} for the kernel's own address; {modes}\n{}\n\
         the agent's log:\n{}",
        vip.shown,
        agent.transcript()
    );
    Ok(())
}

/// Answers of one round.
struct Round {
    vip: Answers,
    own: Answers,
}

impl Round {
    /// Asks for both addresses, by broadcast and by unicast. Only the time counts in which all four
    /// are asked.
    fn ask(segment: &Segment) -> Result<Self> {
        let probe = |address: Ipv4Addr, mode: ProbeMode| {
            ArpProbe::start(&segment.client, segment.at_client, address, INTERVAL, mode)
        };
        let unicast = ProbeMode::Unicast(segment.node.mac(segment.at_node)?);
        let probes = [
            probe(VIP, ProbeMode::Broadcast)?,
            probe(VIP, unicast)?,
            probe(ip(2), ProbeMode::Broadcast)?,
            probe(ip(2), unicast)?,
        ];
        let from = SystemTime::now();
        probes[0].wait_for_requests(REQUESTS, LIMIT)?;
        let to = SystemTime::now();
        let reports = probes.into_iter().map(|probe| Ok(probe.stop()?.between(from, to)));
        let reports = reports.collect::<Result<Vec<_>>>()?;
        Ok(Self { vip: Answers::of(&reports[..2]), own: Answers::of(&reports[2..]) })
    }

    fn is_bright(&self) -> bool {
        self.vip.unanswered() <= self.own.unanswered()
    }
}

/// Answers to some requests.
struct Answers {
    sent: usize,
    answered: usize,
    /// Reports in full, for a failure message.
    shown: String,
}

impl Answers {
    fn of(reports: &[ProbeReport]) -> Self {
        Self {
            sent: reports.iter().map(ProbeReport::sent).sum(),
            answered: reports.iter().map(ProbeReport::answered).sum(),
            shown: reports.iter().map(ProbeReport::to_string).collect::<Vec<_>>().join("\n"),
        }
    }

    fn unanswered(&self) -> usize {
        self.sent - self.answered
    }
}

impl std::fmt::Display for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.answered, self.sent)
    }
}
