//! Probes the VIPs and the kernel's own addresses side by side, while something happens to the link.

use std::fmt;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vipward_tests::{
    agent::{Agent, ask},
    frames::{Family, Mac},
    kit::wait_until,
    lan::{Host, vm::Machine},
    measure::{ArpProbe, ProbeMode, ProbeReport},
    oracle::verifier::kernel,
};

/// Time limit, long enough for an emulated machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// Fifty requests a second of each kind, so four hundred in all.
const INTERVAL: Duration = Duration::from_millis(20);
/// Requests before and after the event.
const SOME: usize = 25;
/// Requests that two probes may lose at the edges of one outage, because they send in turn.
const EDGES: usize = 10;

/// Most rounds of an event. On a busy machine, chance may lose requests for the VIP alone.
const ROUNDS: usize = 3;

/// The probes of each family.
pub(crate) struct Probing([Probes; 2]);

/// Four probes: to all and by unicast, for the VIP and for the node's own address.
struct Probes {
    vip: [ArpProbe; 2],
    own: [ArpProbe; 2],
}

/// Answers to all requests of each family.
pub(crate) struct Answers([Reports; 2]);

/// Answers to all requests of a family.
struct Reports {
    vip: [ProbeReport; 2],
    own: [ProbeReport; 2],
}

impl Probing {
    /// Starts the probes. `mac` is the destination by unicast.
    pub(crate) fn begin(client: &Host, at_client: &str, mac: Mac) -> Result<Self> {
        let probe = |address, mode| ArpProbe::start(client, at_client, address, INTERVAL, mode);
        let both = |address: IpAddr| -> Result<[ArpProbe; 2]> {
            Ok([probe(address, ProbeMode::Broadcast)?, probe(address, ProbeMode::Unicast(mac))?])
        };
        let probes = |family: Family| -> Result<Probes> {
            Ok(Probes { vip: both(family.vip())?, own: both(family.ip(2))? })
        };
        Ok(Self([probes(Family::V4)?, probes(Family::V6)?]))
    }

    /// Starts the probes, once the node's own addresses are answered.
    pub(crate) fn start(client: &Host, at_client: &str, mac: Mac) -> Result<Self> {
        for own in Family::BOTH.map(|family| family.ip(2)) {
            wait_until(PATIENCE, "the kernel to answer", || Ok(ask(client, at_client, own)?.is_some()))?;
        }
        let probing = Self::begin(client, at_client, mac)?;
        probing.go_on()?;
        Ok(probing)
    }

    /// Waits until some more requests were sent.
    pub(crate) fn go_on(&self) -> Result<()> {
        self.wait_for_requests(SOME)
    }

    /// Waits until this many more requests of each kind were sent.
    pub(crate) fn wait_for_requests(&self, requests: usize) -> Result<()> {
        self.0[0].own[0].wait_for_requests(requests, PATIENCE)
    }

    /// Waits until all are answered again.
    pub(crate) fn recover(&self) -> Result<()> {
        let mut probes = self.0.iter().flat_map(|family| [&family.own[0], &family.vip[0]]);
        probes.try_for_each(|probe| probe.wait_for_answers(SOME, PATIENCE))
    }

    /// Waits until all are answered again, and stops.
    pub(crate) fn stop(self) -> Result<Answers> {
        self.recover()?;
        self.end()
    }

    /// Stops, answered or not.
    pub(crate) fn end(self) -> Result<Answers> {
        let both = |[broadcast, unicast]: [ArpProbe; 2]| -> Result<[ProbeReport; 2]> {
            Ok([broadcast.stop()?, unicast.stop()?])
        };
        let reports = |probes: Probes| -> Result<Reports> {
            Ok(Reports { vip: both(probes.vip)?, own: both(probes.own)? })
        };
        let [v4, v6] = self.0;
        Ok(Answers([reports(v4)?, reports(v6)?]))
    }
}

impl Answers {
    /// Returns the answers of the first round in which no VIP is dark, or else of the last.
    pub(crate) fn of_best(mut round: impl FnMut() -> Result<Self>, slack: usize) -> Result<Self> {
        let mut answers = round()?;
        for _ in 1..ROUNDS {
            if !answers.are_dark(EDGES + slack) {
                break;
            }
            answers = round()?;
        }
        Ok(answers)
    }

    /// Returns the answers to the requests of a time.
    pub(crate) fn between(self, from: SystemTime, to: SystemTime) -> Self {
        let within = |reports: [ProbeReport; 2]| reports.map(|report| report.between(from, to));
        Self(self.0.map(|family| Reports { vip: within(family.vip), own: within(family.own) }))
    }

    /// Returns true if a VIP has more unanswered requests than the kernel's own address of its family and
    /// the allowance.
    pub(crate) fn are_dark(&self, allowance: usize) -> bool {
        let unanswered = |reports: &[ProbeReport; 2]| {
            sum(reports, ProbeReport::sent) - sum(reports, ProbeReport::answered)
        };
        self.0.iter().any(|family| unanswered(&family.vip) > unanswered(&family.own) + allowance)
    }

    /// Returns true if the kernel's own address of each family was answered.
    pub(crate) fn reach_the_kernel(&self) -> bool {
        self.0.iter().all(|family| sum(&family.own, ProbeReport::answered) > 0)
    }

    /// Returns true if each request for a VIP was answered, and once.
    pub(crate) fn reach_every_vip_once(&self) -> bool {
        let is_once = |vip: &ProbeReport| vip.unanswered().is_empty() && vip.doubles() == 0;
        self.0.iter().flat_map(|family| &family.vip).all(is_once)
    }

    /// Returns true if no request for a VIP was answered.
    pub(crate) fn leave_vips_silent(&self) -> bool {
        self.0.iter().all(|family| sum(&family.vip, ProbeReport::answered) == 0)
    }

    /// Returns how many requests of both families were answered: those for VIPs, and those for the
    /// kernel's addresses.
    pub(crate) fn shown(&self) -> [String; 2] {
        let shown = |which: fn(&Reports) -> &[ProbeReport; 2]| {
            let count = |count| self.0.iter().map(|family| sum(which(family), count)).sum::<usize>();
            format!("{} of {}", count(ProbeReport::answered), count(ProbeReport::sent))
        };
        [shown(|family| &family.vip), shown(|family| &family.own)]
    }

    /// Returns what the requests show: `works`, `answered twice`, or `dark`.
    fn result(&self, slack: usize) -> &'static str {
        if self.are_dark(EDGES + slack) {
            "dark"
        } else if self.0.iter().any(|family| sum(&family.vip, ProbeReport::doubles) > 0) {
            "answered twice"
        } else {
            "works"
        }
    }

    /// Reports a row, and fails unless the result is `works`.
    pub(crate) fn judge(&self, machine: &Machine, scenario: &str, agent: &Agent, slack: usize) -> Result<()> {
        let result = self.result(slack);
        machine.report(&row(machine, scenario, agent, &self.shown(), result)?)?;
        ensure!(result == "works", "{scenario}: {result}\n{self}the agent's log:\n{}", agent.transcript());
        Ok(())
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (family, Reports { vip, own }) in Family::BOTH.into_iter().zip(&self.0) {
            writeln!(f, "{}: {}\n  {}", family.vip(), vip[0], vip[1])?;
            writeln!(f, "the kernel's {}: {}\n  {}", family.ip(2), own[0], own[1])?;
        }
        Ok(())
    }
}

fn sum(reports: &[ProbeReport; 2], count: fn(&ProbeReport) -> usize) -> usize {
    reports.iter().map(count).sum()
}

/// Returns the row of a report about a scenario.
pub(crate) fn row(
    machine: &Machine,
    scenario: &str,
    agent: &Agent,
    answered: &[String; 2],
    result: &str,
) -> Result<Value> {
    let [vip, own] = answered;
    Ok(json!({
        "kernel": kernel()?, "nic": machine.model(), "scenario": scenario,
        "mode": modes(agent)?, "vip": vip, "own": own, "result": result,
    }))
}

/// Returns the mode in which the program runs on each interface, in one line.
fn modes(agent: &Agent) -> Result<String> {
    let status = agent.status()?;
    let interfaces = status["interfaces"].as_array().into_iter().flatten();
    let mode = |interface: &Value| {
        let text = |key: &str| interface[key].as_str().unwrap_or("none").to_owned();
        format!("{} {}", text("name"), text("mode"))
    };
    Ok(interfaces.map(mode).collect::<Vec<_>>().join(", "))
}
