//! Announcements after a failover, as the client hears them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::agent::Agent;
use vipward_tests::arp::Arp;
use vipward_tests::lan::{BondMode, VlanProtocol};
use vipward_tests::scene::{VIP, ip, wait_until_running};
use vipward_tests::vm::{Control, Machine};
use vipward_tests::wire::Wire;

use crate::asking::{Asking, row};
use crate::cables::{BOND, Cables, FAR, NICS, Top};
use crate::segment::{Kind, Segment};

const BACKUP: Top = Top::Bond(BondMode::ActiveBackup);
/// VLAN of the device on the bond.
const VLAN: u16 = 100;
const ON_VLAN: &str = "vlan0";
/// VIPs on the bond, and one on the VLAN device.
const VIPS: [Ipv4Addr; 4] = [VIP, ip(11), ip(12), Ipv4Addr::new(198, 51, 100, 10)];
/// Longest time from the kernel's own announcement to that of a VIP.
const BAR: Duration = Duration::from_millis(100);
/// Time in which announcements are heard: two ends of the bond's monitor, and more than enough for a
/// second round.
const HEARD: Duration = Duration::from_secs(3);
/// Time from the start of an agent until its first six rounds have left.
const ROUNDS: Duration = Duration::from_secs(7);
/// Without refreshes in the time of a test.
const CONFIG: &str = "announce: {refresh: 1h}\n";

/// Times of the announcements of an address: those as a request, and those as a reply.
#[derive(Debug, Default)]
struct Heard {
    requests: Vec<SystemTime>,
    replies: Vec<SystemTime>,
}

/// Returns the announcements on a wire within [`HEARD`], by address; those of a VLAN too.
fn listen(wire: &Wire) -> Result<BTreeMap<Ipv4Addr, Heard>> {
    sleep(HEARD);
    let mut all: BTreeMap<_, Heard> = BTreeMap::new();
    for frame in wire.drain()? {
        let Some(arp) = frame.arp().filter(Arp::is_gratuitous) else { continue };
        let heard = all.entry(arp.spa).or_default();
        let times = if arp.is_request() { &mut heard.requests } else { &mut heard.replies };
        times.push(frame.at);
    }
    Ok(all)
}

/// Fails unless each VIP was announced `rounds` times. Returns the longest time from the kernel's first
/// announcement to a VIP's.
fn judge(heard: &BTreeMap<Ipv4Addr, Heard>, vips: &[Ipv4Addr], rounds: usize) -> Result<Duration> {
    let own = heard.get(&ip(2)).and_then(|own| own.requests.first());
    let own = *own.with_context(|| format!("the kernel announced nothing: {heard:#?}"))?;
    let mut slowest = Duration::ZERO;
    for vip in vips {
        let of_vip = heard.get(vip).with_context(|| format!("{vip} was not announced: {heard:#?}"))?;
        for times in [&of_vip.requests, &of_vip.replies] {
            ensure!(times.len() == rounds, "{vip} was announced otherwise than {rounds} times: {heard:#?}");
            slowest = slowest.max(times[0].duration_since(own).unwrap_or_default());
        }
    }
    Ok(slowest)
}

fn config(vips: &[Ipv4Addr]) -> String {
    let vips: Vec<_> = vips.iter().map(|vip| format!("{{address: {vip}}}")).collect();
    format!("{CONFIG}vips: [{}]\n", vips.join(", "))
}

/// Returns the scene with an agent that has announced all its VIPs, and the client's wire.
fn scene(machine: &Machine, kind: Top) -> Result<(Cables, Agent, Wire)> {
    let cables = Cables::new(machine, kind)?;
    for (host, parent, last) in [(&cables.client, FAR, 1), (&cables.node, BOND, 2)] {
        host.namespace().add_vlan(ON_VLAN, parent, VLAN, VlanProtocol::Ieee8021Q)?;
        host.set_up(ON_VLAN, true)?;
        host.add_address(ON_VLAN, format!("198.51.100.{last}/24").parse::<ipnet::IpNet>()?)?;
    }
    let agent = cables.agent(&config(&VIPS))?;
    sleep(ROUNDS);
    let wire = Wire::open(&cables.client, FAR)?;
    Ok((cables, agent, wire))
}

/// Reports the median of the times, and fails if none is within [`BAR`]: other work on a busy machine
/// may delay some.
fn judge_times(machine: &Machine, scenario: &str, agent: &Agent, mut times: [Duration; 3]) -> Result<()> {
    times.sort();
    report(machine, scenario, agent, times[1])?;
    ensure!(times[0] <= BAR, "announced after {times:?}\n{}", agent.transcript());
    Ok(())
}

fn report(machine: &Machine, scenario: &str, agent: &Agent, slowest: Duration) -> Result<()> {
    let result = format!("announced once, after {} ms", slowest.as_millis());
    machine.report(&row(machine, scenario, agent, &["–".to_owned(), "–".to_owned()], &result)?)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn every_vip_on_the_bond_and_above_it_is_announced_once_within_100_ms() -> Result<()> {
    let machine = Machine::here()?;
    let (cables, agent, wire) = scene(&machine, BACKUP)?;
    let mut times = [Duration::ZERO; 3];
    for (time, cut) in times.iter_mut().zip([0, 1, 0]) {
        cables.connect(cut, false)?;
        *time = judge(&listen(&wire)?, &VIPS, 1).with_context(|| agent.transcript())?;
        cables.connect(cut, true)?;
        cables.node.namespace().wait_until_ready(NICS[cut])?;
        let again = listen(&wire)?;
        ensure!(
            VIPS.iter().all(|vip| !again.contains_key(vip)),
            "the port's return is no failover: {again:#?}"
        );
    }
    judge_times(&machine, "active-backup: failover", &agent, times)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn two_failovers_soon_after_each_other_are_two() -> Result<()> {
    let machine = Machine::here()?;
    let (cables, agent, wire) = scene(&machine, BACKUP)?;
    for port in [NICS[1], NICS[0]] {
        cables.node.namespace().set_active_port(BOND, port)?;
        sleep(Duration::from_millis(200));
    }
    judge(&listen(&wire)?, &VIPS, 2).with_context(|| agent.transcript())?;
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn while_the_agent_is_dead_answers_survive_a_failover_and_announcements_do_not() -> Result<()> {
    let machine = Machine::here()?;
    let (cables, mut agent, wire) = scene(&machine, BACKUP)?;
    agent.kill9()?;
    let asking = Asking::start(&cables.client, FAR, cables.mac()?)?;
    wire.drain()?;
    cables.connect(0, false)?;
    let heard = listen(&wire)?;
    ensure!(heard.contains_key(&ip(2)), "the bond did not fail over");
    ensure!(VIPS.iter().all(|vip| !heard.contains_key(vip)), "a dead agent announces: {heard:#?}");
    asking.stop()?.judge(&machine, "active-backup: failover, the agent is dead", &agent, 0)?;
    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    let heard = listen(&wire)?;
    ensure!(VIPS.iter().all(|vip| heard.contains_key(vip)), "the next agent announces nothing: {heard:#?}");
    Ok(())
}

/// A team makes no `BONDING_FAILOVER`. teamd changes its ports in this order.
#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn a_team_that_fails_over_announces_every_vip_once() -> Result<()> {
    let machine = Machine::here()?;
    let (cables, agent, wire) = scene(&machine, Top::Team("activebackup"))?;
    wire.drain()?;
    let [first, second] = NICS;
    let mut times = [Duration::ZERO; 3];
    for (time, (from, to)) in times.iter_mut().zip([(first, second), (second, first), (first, second)]) {
        cables.node.namespace().fail_team_over(BOND, from, to)?;
        *time = judge(&listen(&wire)?, &VIPS, 1).with_context(|| agent.transcript())?;
    }
    judge_times(&machine, "team, activebackup: failover", &agent, times)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_machine_that_has_moved_announces_every_vip_once() -> Result<()> {
    let machine = Machine::here()?;
    // QEMU announces in the name of the other models, without asking the driver.
    if machine.model() != "virtio-net" {
        return Ok(());
    }
    let segment = Segment::new(&machine, Kind::Plain)?;
    let agent = segment.agent(CONFIG)?;
    sleep(ROUNDS);
    let wire = Wire::open(&segment.client, segment.at_client)?;
    let mut times = [Duration::ZERO; 3];
    for time in &mut times {
        Control::open()?.announce()?;
        *time = judge(&listen(&wire)?, &[VIP], 1).with_context(|| agent.transcript())?;
    }
    judge_times(&machine, "the machine has moved", &agent, times)
}
