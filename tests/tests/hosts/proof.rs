//! Silence is no answer, and an answer is no host: a VIP is taken on proof alone. The LANs have a managed
//! switch, which does what slow ports, fabrics and filters do. Clients judge.

mod doubled;
mod egress;
mod late;
mod proxied;
mod slow_port;

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use ipnet::IpNet;
use vipward_tests::{
    agent::{Agent, AgentOptions, NODE, PATIENCE, Scene, ask, vip_status},
    frames::{Family, Mac, Message},
    kit::wait_until,
    lan::{Host, Lan, Port, Wire},
    measure::{ArpProbe, ProbeMode, ProbeReport},
};

/// Time between two requests of a client.
const INTERVAL: Duration = Duration::from_millis(50);

/// Family of the VIP, and the configured attachment.
#[derive(Clone, Copy, Debug)]
struct Case {
    family: Family,
    attach: &'static str,
}

const CASES: [Case; 4] = [
    Case { family: Family::V4, attach: "tc" },
    Case { family: Family::V4, attach: "native" },
    Case { family: Family::V6, attach: "tc" },
    Case { family: Family::V6, attach: "native" },
];

/// Scene of a case, on a managed switch.
struct Stage {
    case: Case,
    scene: Scene,
    vip: IpAddr,
}

/// Runs a scenario in all cases at once, because it waits for most of its time.
fn in_each(cases: &[Case], name: &str, scenario: impl Fn(&Stage) -> Result<()> + Sync) -> Result<()> {
    let failures: Vec<_> = thread::scope(|scope| {
        let start = |case: &Case| {
            let (case, scenario) = (*case, &scenario);
            let run = move || Stage::new(name, case).and_then(|stage| scenario(&stage));
            (case, scope.spawn(run))
        };
        let running: Vec<_> = cases.iter().map(start).collect();
        running
            .into_iter()
            .filter_map(|(case, scenario)| {
                let ended = scenario.join().unwrap_or_else(|_| Err(anyhow!("it panicked")));
                ended.err().map(|error| format!("{case:?}: {error:#}"))
            })
            .collect()
    });
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

impl Stage {
    fn new(name: &str, case: Case) -> Result<Self> {
        let scene = Scene::on(Lan::managed(name)?, case.family)?;
        Ok(Self { case, scene, vip: case.family.vip() })
    }

    /// Starts an agent that wants the VIP, with further lines of its configuration. Returns when it runs,
    /// and probes.
    fn start(&self, further: &str) -> Result<Agent> {
        self.start_on(&self.scene.node, further)
    }

    fn start_on(&self, host: &Host, further: &str) -> Result<Agent> {
        let yaml = format!("attach: {}\nvips: [{{address: '{}'}}]\n{further}", self.case.attach, self.vip);
        let options = AgentOptions::new(self.scene.bpffs.pin_dir(host.name()));
        let mut agent = Agent::start(host, &yaml, options)?;
        agent.wait_for_log(PATIENCE, "that it runs", |line| line.message() == "agent is running")?;
        Ok(agent)
    }

    fn port(&self, host: &Host) -> Result<Port> {
        self.scene.lan.port(host, "eth0")
    }

    /// Takes the carrier from the node's link and gives it back, behind a port that blocks from then on.
    fn replug_behind_a_blocking_port(&self) -> Result<Port> {
        let (node, port) = (&self.scene.node, self.port(&self.scene.node)?);
        node.set_carrier("eth0", false)?;
        port.change(|rules| rules.blocks = true)?;
        node.set_carrier("eth0", true)?;
        Ok(port)
    }

    /// Makes the kernel of the rogue have the VIP, as a host without an agent.
    fn give_to_the_rogue(&self) -> Result<()> {
        self.scene.rogue.add_address("eth0", IpNet::from(self.vip))
    }

    /// Starts to ask for the VIP from the client, again and again.
    fn probe(&self, mode: ProbeMode) -> Result<ArpProbe> {
        ArpProbe::start(&self.scene.client, "eth0", self.vip, INTERVAL, mode)
    }

    /// Waits until the client gets an answer from a host.
    fn wait_until_answered(&self, by: Mac, agent: &Agent, limit: Duration) -> Result<()> {
        let is_answered = || Ok(ask(&self.scene.client, "eth0", self.vip)? == Some(by));
        wait_until(limit, &format!("{by} to answer"), is_answered)
            .with_context(|| format!("the agent's log:\n{}", agent.transcript()))
    }

    /// Opens a host's interface to listen to announcements.
    fn listen(&self, host: &Host) -> Result<Wire> {
        Wire::open_in(host, "eth0", self.case.family)
    }

    /// Waits for the node's announcement of the VIP, and returns the time that took.
    fn wait_for_announcement(&self, wire: &Wire, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        wire.expect(limit, "the node's announcement of the VIP", |message: &Message| {
            message.is_announcement()
                && message.sender_address() == Some(self.vip)
                && message.sender() == NODE
        })?;
        Ok(began.elapsed())
    }

    fn wait_until_proven(agent: &Agent) -> Result<()> {
        wait_until(PATIENCE, "the segment to be proven", || {
            Ok(agent.status()?["interfaces"][0]["proof"] == "proven")
        })
    }

    fn holds(&self, agent: &Agent) -> bool {
        vip_status(agent, self.vip, "eth0").is_ok_and(|row| row["role"] == "held")
    }
}

/// Sleeps until `after` since `began`.
fn sleep_until(began: Instant, after: Duration) {
    thread::sleep(after.saturating_sub(began.elapsed()));
}

/// Returns the MACs in the answers to requests from a time on.
fn answerers(report: &ProbeReport, from: SystemTime) -> BTreeSet<Mac> {
    let later = report.between(from, SystemTime::now());
    later.answers_by().keys().map(|answerer| answerer.sha).collect()
}
