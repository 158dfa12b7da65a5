//! Asks for the VIP and for the kernel's own address side by side, while something happens to the
//! link.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use vipward_tests::agent::Agent;
use vipward_tests::arp::Mac;
use vipward_tests::lan::Host;
use vipward_tests::node::ask;
use vipward_tests::probe::{ArpProbe, ProbeMode, ProbeReport};
use vipward_tests::scene::{VIP, ip};
use vipward_tests::verifier::kernel;
use vipward_tests::vm::Machine;
use vipward_tests::wait::wait_until;

/// A hundred requests a second of each kind.
const INTERVAL: Duration = Duration::from_millis(10);
/// Requests before and after the event.
const SOME: usize = 50;
/// Time limit of an event, long enough for an emulated machine.
const LIMIT: Duration = Duration::from_mins(1);
/// Requests that two probes may lose at the edges of one outage, because they ask in turn.
const EDGES: usize = 10;

/// Most rounds of an event. On a busy machine, chance may lose requests for the VIP alone.
const ROUNDS: usize = 3;

/// Four probes: by broadcast and by unicast, for the VIP and for the node's own address.
pub(crate) struct Asking {
    vip: [ArpProbe; 2],
    own: [ArpProbe; 2],
}

/// Answers to all requests.
pub(crate) struct Answers {
    vip: [ProbeReport; 2],
    own: [ProbeReport; 2],
}

impl Asking {
    /// Starts to ask, once the node's own address is answered. `mac` is the destination by unicast.
    pub(crate) fn start(client: &Host, at_client: &str, mac: Mac) -> Result<Self> {
        wait_until(LIMIT, "the kernel to answer", || Ok(ask(client, at_client, ip(2))?.is_some()))?;
        let probe = |address, mode| ArpProbe::start(client, at_client, address, INTERVAL, mode);
        let probes = |address| -> Result<[ArpProbe; 2]> {
            Ok([probe(address, ProbeMode::Broadcast)?, probe(address, ProbeMode::Unicast(mac))?])
        };
        let asking = Self { vip: probes(VIP)?, own: probes(ip(2))? };
        asking.go_on()?;
        Ok(asking)
    }

    /// Waits until some more requests were sent.
    pub(crate) fn go_on(&self) -> Result<()> {
        self.own[0].wait_for_requests(SOME, LIMIT)
    }

    /// Waits until both are answered again.
    pub(crate) fn recover(&self) -> Result<()> {
        [&self.own[0], &self.vip[0]].iter().try_for_each(|probe| probe.wait_for_answers(SOME, LIMIT))
    }

    /// Waits until both are answered again, and stops.
    pub(crate) fn stop(self) -> Result<Answers> {
        self.recover()?;
        let stop = |probes: [ArpProbe; 2]| -> Result<[ProbeReport; 2]> {
            let [broadcast, unicast] = probes;
            Ok([broadcast.stop()?, unicast.stop()?])
        };
        Ok(Answers { vip: stop(self.vip)?, own: stop(self.own)? })
    }
}

impl Answers {
    /// Returns the answers of the first round in which the VIP is not dark, or else of the last.
    pub(crate) fn of_best(mut round: impl FnMut() -> Result<Self>, slack: usize) -> Result<Self> {
        let mut answers = round()?;
        for _ in 1..ROUNDS {
            if answers.result(slack) != "dark" {
                break;
            }
            answers = round()?;
        }
        Ok(answers)
    }

    /// Returns what the requests show: `works`, `answered twice`, or `dark`, if the VIP has more
    /// unanswered requests than the kernel's own address and `slack`.
    pub(crate) fn result(&self, slack: usize) -> &'static str {
        let unanswered = |reports: &[ProbeReport; 2]| {
            sum(reports, ProbeReport::sent) - sum(reports, ProbeReport::answered)
        };
        if unanswered(&self.vip) > unanswered(&self.own) + EDGES + slack {
            "dark"
        } else if sum(&self.vip, ProbeReport::doubles) > 0 {
            "answered twice"
        } else {
            "works"
        }
    }

    /// Reports a row, and fails unless the result is `works`.
    pub(crate) fn judge(&self, machine: &Machine, scenario: &str, agent: &Agent, slack: usize) -> Result<()> {
        let result = self.result(slack);
        let shown = |reports| {
            format!("{} of {}", sum(reports, ProbeReport::answered), sum(reports, ProbeReport::sent))
        };
        let cells = [shown(&self.vip), shown(&self.own)];
        machine.report(&row(machine, scenario, agent, &cells, result)?)?;
        ensure!(
            result == "works",
            "{scenario}: {result}\nthe VIP: {}\n  {}\nthe kernel's address: {}\n  {}\nthe agent's log:\n{}",
            self.vip[0],
            self.vip[1],
            self.own[0],
            self.own[1],
            agent.transcript()
        );
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
