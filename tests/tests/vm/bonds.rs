//! A VIP of each family on a bond: each request is answered once whatever happens to the ports, and a failover
//! announces every VIP, once.

mod failover;

use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use vipward_tests::{
    frames::Mac,
    lan::{BondMode, vm::Machine},
};

use crate::{
    cables::{BOND, Cables, FAR, NICS, Top},
    probing::{Answers, Probing},
    segment::holds_both,
};

/// Time in which the ports' loss is noticed, and the kernel's address is not answered either.
const OUTAGE: Duration = Duration::from_secs(1);
/// Requests that balance-rr may send into a cut cable until the loss is noticed: two probes, for two
/// intervals of miimon. The others go the other way.
const IN_TURN: usize = 20;
const OTHER_MAC: Mac = Mac([0x52, 0x54, 0, 0, 1, 1]);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Nothing,
    PortAway,
    AllPortsAway,
    PortRemoved,
    /// The client's ports leave its bond and join it again.
    PartnerRestarts,
    /// Last, since the requests by unicast go to the old one from then on.
    OtherMac,
}

impl Event {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::PortAway,
        Self::AllPortsAway,
        Self::PortRemoved,
        Self::PartnerRestarts,
        Self::OtherMac,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "at rest",
            Self::PortAway => "a port without carrier, and back",
            Self::AllPortsAway => "all ports without carrier, and back",
            Self::PortRemoved => "a port removed and added",
            Self::PartnerRestarts => "the partner restarts",
            Self::OtherMac => "another MAC",
        }
    }

    fn happen(self, cables: &Cables, probing: &Probing) -> Result<()> {
        let rejoin = |host: &vipward_tests::lan::Host, nic: &str, top: &str| -> Result<()> {
            host.set_up(nic, false)?;
            host.namespace().set_master(nic, top)?;
            host.set_up(nic, true)
        };
        match self {
            Self::Nothing => {}
            Self::PortAway => {
                for cable in [0, 1] {
                    cables.connect(cable, false)?;
                    sleep(OUTAGE);
                    cables.connect(cable, true)?;
                    cables.node.namespace().wait_until_ready(NICS[cable])?;
                    probing.go_on()?;
                }
            }
            Self::AllPortsAway => {
                for connected in [false, true] {
                    cables.connect(0, connected)?;
                    cables.connect(1, connected)?;
                    sleep(OUTAGE);
                }
            }
            Self::PortRemoved => {
                cables.node.namespace().leave_master(NICS[0])?;
                probing.go_on()?;
                rejoin(&cables.node, NICS[0], BOND)?;
            }
            Self::PartnerRestarts => {
                NICS.iter().try_for_each(|nic| cables.client.namespace().leave_master(nic))?;
                NICS.iter().try_for_each(|nic| rejoin(&cables.client, nic, FAR))?;
            }
            Self::OtherMac => cables.node.set_mac(BOND, OTHER_MAC)?,
        }
        probing.go_on()
    }
}

/// Lets everything happen to a bond or team. Reports all rows before it fails.
fn endure(kind: Top, name: &str) -> Result<()> {
    let machine = Machine::here()?;
    let cables = Cables::new(&machine, kind)?;
    let agent = cables.agent(&holds_both())?;
    let takes_turns = matches!(kind, Top::Bond(BondMode::BalanceRr) | Top::Team(_));
    let slack = if takes_turns { IN_TURN } else { 0 };
    let mut outcome = Ok(());
    for event in Event::ALL {
        let round = || {
            let probing = Probing::start(&cables.client, FAR, cables.mac()?)?;
            event.happen(&cables, &probing)?;
            probing.stop()
        };
        let answers = Answers::of_best(round, slack)?;
        let scenario = format!("{name}: {}", event.name());
        outcome = outcome.and(answers.judge(&machine, &scenario, &agent, slack));
    }
    outcome
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn active_backup() -> Result<()> {
    endure(Top::Bond(BondMode::ActiveBackup), "active-backup")
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn balance_xor() -> Result<()> {
    endure(Top::Bond(BondMode::BalanceXor), "balance-xor")
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn balance_rr() -> Result<()> {
    endure(Top::Bond(BondMode::BalanceRr), "balance-rr")
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn lacp() -> Result<()> {
    endure(Top::Bond(BondMode::Ieee8023Ad), "802.3ad")
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn team() -> Result<()> {
    endure(Top::Team("roundrobin"), "team, roundrobin")
}
