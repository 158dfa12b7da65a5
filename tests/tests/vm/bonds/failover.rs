//! Announcements after a failover, as the client receives them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{Agent, ask, wait_until_running},
    frames::{Family, Message, nd::ALL_ROUTERS},
    kit::wait_until,
    lan::{
        BondMode, VlanProtocol, Wire,
        vm::{Control, Machine},
    },
};

use crate::{
    cables::{BOND, Cables, FAR, NICS, Top},
    probing::{Probing, row},
    segment::{Kind, Segment},
};

const BACKUP: Top = Top::Bond(BondMode::ActiveBackup);
/// VLAN of the device on the bond.
const VLAN: u16 = 100;
const ON_VLAN: &str = "vlan0";
const VLAN_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10));
const VLAN_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x10));
/// Longest time from the kernel's own announcement to a VIP's.
const BAR: Duration = Duration::from_millis(100);
/// Time in which announcements are received: two ends of the bond's monitor, and more than enough for a
/// second round.
const RECEIVED: Duration = Duration::from_secs(3);
/// Longest time until VIPs are held, also where the agent hears no host.
const TAKEN_WITHIN: Duration = Duration::from_mins(1);
/// Time from the taking of VIPs until their first six rounds have left.
const ROUNDS: Duration = Duration::from_secs(7);
/// Without refreshes in the time of a test.
const CONFIG: &str = "announce: {refresh: 1h}\n";

/// Times of the announcements of an address, by form. IPv4 has requests and replies; IPv6 has
/// advertisements to all nodes and to all routers.
type Received = [Vec<SystemTime>; 2];

/// Returns the VIPs on the bond, and those on the VLAN device.
fn vips() -> [IpAddr; 6] {
    [Family::V4.vip(), Family::V4.ip(11), Family::V6.vip(), Family::V6.ip(11), VLAN_V4, VLAN_V6]
}

/// Returns the announcements that came to a wire within [`RECEIVED`], by address; those of a VLAN too.
fn listen(wire: &Wire) -> Result<BTreeMap<IpAddr, Received>> {
    sleep(RECEIVED);
    let mut all: BTreeMap<_, Received> = BTreeMap::new();
    for frame in wire.drain()?.into_iter().filter(|frame| !frame.outgoing) {
        let Some(message) = frame.message().filter(Message::is_announcement) else { continue };
        let (address, form) = match message {
            Message::Arp(arp) => (arp.spa.into(), usize::from(!arp.is_request())),
            Message::Nd(nd) => (nd.target.into(), usize::from(nd.destination == ALL_ROUTERS)),
        };
        all.entry(address).or_default()[form].push(frame.at);
    }
    Ok(all)
}

/// Fails unless each VIP was announced `rounds` times. Returns the longest time from the kernel's first
/// announcement to a VIP's.
fn judge(received: &BTreeMap<IpAddr, Received>, vips: &[IpAddr], rounds: usize) -> Result<Duration> {
    let own = received.get(&Family::V4.ip(2)).and_then(|[requests, _]| requests.first());
    let own = *own.with_context(|| format!("the kernel announced nothing: {received:#?}"))?;
    let mut slowest = Duration::ZERO;
    for vip in vips {
        let of_vip = received.get(vip).with_context(|| format!("{vip} was not announced: {received:#?}"))?;
        for times in of_vip {
            ensure!(
                times.len() == rounds,
                "{vip} was announced otherwise than {rounds} times: {received:#?}"
            );
            slowest = slowest.max(times[0].duration_since(own).unwrap_or_default());
        }
    }
    Ok(slowest)
}

/// Returns the scene with an agent that has announced all its VIPs, and the client's wire. The client's
/// bridge passes solicitations to the ports whose hosts want them.
fn scene(machine: &Machine, kind: Top) -> Result<(Cables, Agent, Wire)> {
    let cables = Cables::new(machine, kind)?;
    for (host, parent, last) in [(&cables.client, FAR, 1), (&cables.node, BOND, 2)] {
        host.namespace().add_vlan(ON_VLAN, parent, VLAN, VlanProtocol::Ieee8021Q)?;
        host.set_up(ON_VLAN, true)?;
        host.add_address(ON_VLAN, format!("198.51.100.{last}/24").parse::<ipnet::IpNet>()?)?;
        host.add_address(ON_VLAN, format!("2001:db8:1::{last}/64").parse::<ipnet::IpNet>()?)?;
    }
    // The agent hears a host on the VLAN.
    cables.node.add_gateway(Ipv4Addr::new(198, 51, 100, 1))?;
    cables.client.namespace().snoop_mld(FAR)?;
    let vips = vips().map(|vip| format!("{{address: '{vip}'}}"));
    let agent = cables.agent(&format!("{CONFIG}vips: [{}]\n", vips.join(", ")))?;
    wait_until(TAKEN_WITHIN, "all VIPs to be held", || {
        let status = agent.status()?;
        let rows = status["vips"].as_array().context("status has no list of VIPs")?;
        Ok(rows.iter().filter(|row| row["role"] == "held").count() == vips.len())
    })?;
    sleep(ROUNDS);
    let wire = Wire::open_all(&cables.client, FAR)?;
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
        *time = judge(&listen(&wire)?, &vips(), 1).with_context(|| agent.transcript())?;
        for vip in Family::BOTH.map(Family::vip) {
            ensure!(ask(&cables.client, FAR, vip)? == Some(cables.mac()?), "{vip} is not answered any more");
        }
        cables.connect(cut, true)?;
        cables.node.namespace().wait_until_ready(NICS[cut])?;
        let again = listen(&wire)?;
        ensure!(
            vips().iter().all(|vip| !again.contains_key(vip)),
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
    judge(&listen(&wire)?, &vips(), 2).with_context(|| agent.transcript())?;
    Ok(())
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm --all`"]
fn while_the_agent_is_dead_answers_survive_a_failover_and_announcements_do_not() -> Result<()> {
    let machine = Machine::here()?;
    let (cables, mut agent, wire) = scene(&machine, BACKUP)?;
    agent.kill9()?;
    let probing = Probing::start(&cables.client, FAR, cables.mac()?)?;
    wire.drain()?;
    cables.connect(0, false)?;
    let received = listen(&wire)?;
    ensure!(received.contains_key(&Family::V4.ip(2)), "the bond did not fail over");
    ensure!(vips().iter().all(|vip| !received.contains_key(vip)), "a dead agent announces: {received:#?}");
    probing.stop()?.judge(&machine, "active-backup: failover, the agent is dead", &agent, 0)?;
    let seen = agent.logs()?.len();
    agent.restart()?;
    wait_until_running(&mut agent, seen)?;
    let received = listen(&wire)?;
    ensure!(
        vips().iter().all(|vip| received.contains_key(vip)),
        "the next agent announces nothing: {received:#?}"
    );
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
        *time = judge(&listen(&wire)?, &vips(), 1).with_context(|| agent.transcript())?;
    }
    judge_times(&machine, "team, activebackup: failover", &agent, times)
}

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn a_machine_that_has_moved_announces_every_vip_once() -> Result<()> {
    let machine = Machine::here()?;
    // QEMU announces in the name of the other models, without the driver.
    if machine.model() != "virtio-net" {
        return Ok(());
    }
    let segment = Segment::new(&machine, Kind::Plain)?;
    let agent = segment.agent(CONFIG)?;
    sleep(ROUNDS);
    let wire = Wire::open_all(&segment.client, segment.at_client)?;
    let mut times = [Duration::ZERO; 3];
    for time in &mut times {
        Control::open()?.announce()?;
        *time =
            judge(&listen(&wire)?, &Family::BOTH.map(Family::vip), 1).with_context(|| agent.transcript())?;
    }
    judge_times(&machine, "the machine has moved: announcement", &agent, times)
}
