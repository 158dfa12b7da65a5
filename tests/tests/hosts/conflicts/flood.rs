//! A rogue that floods claims as fast as it can: hosts behind an agent believe none, and the agent
//! needs few resources. `cargo xtask bench` measures the speed of answers during a flood.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use vipward_common::MAX_OFFENDERS;
use vipward_tests::{
    agent::{
        Agent, CLIENT, NODE, PATIENCE, ROGUE, Scene, VIP, belief, counter, ip, net, wait_until_received,
    },
    frames::{Arp, Mac},
    kit::wait_until,
    lan::{Flood, Host, NeighbourState, Nic, Wire},
    measure::{Answerer, ArpProbe, ProbeMode},
};

use super::{forged, has_role};

/// Number of VIPs that the rogue claims in turn, and of the MACs that it claims each for.
const MANY_VIPS: u8 = 180;
const MANY_MACS: u32 = 64;
/// Rate of those claims: what a single busy host sends.
const MANY_RATE: u32 = 50_000;
/// Most CPU time of the agent, as a part of the flood's time. A debug build used a ninth, a release
/// build a twentieth.
const MOST_CPU: u32 = 4;
/// Longest time without an answer that a machine which runs other tests may cause.
const LONGEST_GAP: Duration = Duration::from_millis(500);

const GUARD: Mac = Mac([2, 0, 0, 0, 0, 4]);
/// Rate of claims that the rogue tries to send. `cargo xtask bench` measures the rate that a
/// machine reaches. Here each claim counts, whatever the rate.
const RATE: u32 = 120_000;
/// Number of claims that fill a kernel's receive queue several times over.
const LEAST_CLAIMS: u64 = 50_000;
const DURATION: Duration = Duration::from_secs(5);
/// Number of MACs, more than the program remembers.
const FORGED: u32 = 2 * MAX_OFFENDERS;
/// Number of samples that show an entry that is wrong for a large part of the flood.
const LEAST_SAMPLES: usize = 20;
const MOST_GROWTH: u64 = 8 << 20;
/// Most log lines: the beginning of a conflict, one for each of 15
/// more MACs, and some about a busy machine.
const MOST_LINES: usize = 40;

/// Returns claims on the VIP in all forms, each for its own MAC.
fn claims() -> Vec<Arp> {
    let claim = |number: u32| {
        let forged = forged(number);
        let claim = match number % 4 {
            0 => Arp::gratuitous_request(forged, VIP, Mac::ZERO),
            1 => Arp::gratuitous_reply(forged, VIP, forged),
            // As unicast, these two would be an answer to the holder and a
            // request to it. Here every host receives them.
            2 => Arp::reply(forged, VIP, NODE, ip(2)).to(Mac::BROADCAST),
            _ => Arp::request(forged, VIP, ip(2)),
        };
        Arp { eth_src: ROGUE, ..claim }
    };
    (0..FORGED).map(claim).collect()
}

/// A host's neighbour entry of the VIP, sampled again and again.
struct Believer<'a> {
    host: &'a Host,
    right: Mac,
    wrong: usize,
}

impl<'a> Believer<'a> {
    /// Sets the right entry. Any claim that reaches the kernel changes it.
    fn new(host: &'a Host, right: Mac) -> Result<Self> {
        host.set_sysctl("net/ipv4/neigh/eth0/locktime", "0")?;
        host.set_neighbour("eth0", VIP, right, NeighbourState::Reachable)?;
        Ok(Self { host, right, wrong: 0 })
    }

    fn look(&mut self) -> Result<()> {
        self.wrong += usize::from(belief(self.host, VIP)? != Some(self.right));
        Ok(())
    }
}

/// An agent's use of resources before a flood.
struct Cost {
    resident_bytes: u64,
    lines: usize,
    claims: u64,
}

impl Cost {
    fn of(agent: &Agent) -> Result<Self> {
        let claims = counter(agent, "claim_conflict")?;
        Ok(Self { resident_bytes: agent.resident_bytes()?, lines: agent.logs()?.len(), claims })
    }

    /// Returns the number of claims that the program has met since then.
    fn claims_met(&self, agent: &Agent) -> Result<u64> {
        Ok(counter(agent, "claim_conflict")? - self.claims)
    }

    fn assert_bounded(&self, agent: &Agent) -> Result<()> {
        let host = agent.host().name();
        let grown = agent.resident_bytes()?.saturating_sub(self.resident_bytes);
        assert!(grown < MOST_GROWTH, "the agent on {host} has grown by {grown} bytes");
        let lines = agent.logs()?.len() - self.lines;
        assert!(lines < MOST_LINES, "the agent on {host} has logged {lines} lines:\n{}", agent.transcript());
        let offenders = agent.status()?["offenders"].as_array().map_or(0, Vec::len);
        let most = usize::try_from(MAX_OFFENDERS)?;
        // An LRU map forgets a few more than it must.
        assert!((most / 4..=most).contains(&offenders), "{offenders} offenders are remembered on {host}");
        eprintln!("{host}: grown by {grown} bytes, {lines} lines, {offenders} offenders");
        Ok(())
    }
}

#[test]
fn a_flood_of_claims_is_believed_by_no_host_that_has_an_agent() -> Result<()> {
    let scene = Scene::new("torrent")?;
    let guard = scene.lan.host("guard", Nic::new(net(4)).mac(GUARD))?;
    let holds = scene.agent(&format!("vips: [{{address: {VIP}, force: true}}]"))?;
    let guards = scene.agent_on(&guard, &format!("vips: [{{address: {VIP}, mac: '{NODE}'}}]"))?;
    // The holder does not use this entry. It only shows if a claim passes.
    let mut holder = Believer::new(&scene.node, CLIENT)?;
    let mut guarded = Believer::new(&guard, NODE)?;
    let mut bystander = Believer::new(&scene.client, NODE)?;
    let probe = ArpProbe::start(&scene.client, "eth0", VIP, Duration::from_millis(5), ProbeMode::Broadcast)?;
    let costs = [Cost::of(&holds)?, Cost::of(&guards)?];

    let flood = Flood::start(&scene.rogue, "eth0", claims().iter().map(Arp::to_bytes), RATE)?;
    let end = Instant::now() + DURATION;
    let mut samples = 0;
    while Instant::now() < end {
        for believer in [&mut holder, &mut guarded, &mut bystander] {
            believer.look()?;
        }
        samples += 1;
        thread::sleep(Duration::from_millis(1));
    }
    let sent = flood.stop()?;
    let report = probe.stop()?;
    let met = costs[0].claims_met(&holds)?;
    let reached = format!(
        "{sent} claims were sent, {met} met by the holder's program; of {samples} samples {} were wrong on the \
         holder, {} on the guard, {} on who has no agent; {report}",
        holder.wrong, guarded.wrong, bystander.wrong
    );
    eprintln!("{reached}");
    assert!(met >= LEAST_CLAIMS, "this was no flood: {reached}");
    assert!(samples >= LEAST_SAMPLES, "{reached}");
    assert_eq!((holder.wrong, guarded.wrong), (0, 0), "{reached}");
    assert!(bystander.wrong > samples / 2, "who has no agent must be deceived: {reached}");
    let node = Answerer { sha: NODE, eth_src: NODE };
    assert!(report.answers_by().keys().eq([&node]), "{reached}");
    assert!(report.answered() * 2 > report.sent(), "{reached}");

    wait_until_received(&Wire::open(&scene.rogue, "eth0")?, ip(2))?;
    // The agent logs the last claims meanwhile.
    thread::sleep(Duration::from_secs(2));
    for (cost, agent) in costs.iter().zip([&holds, &guards]) {
        cost.assert_bounded(agent)?;
    }
    assert!(has_role(&holds, VIP, "held")?);
    scene.client.flush_neighbours("eth0")?;
    assert_eq!(scene.client.resolve(VIP)?, NODE, "and it is answered as ever");
    Ok(())
}

#[test]
fn a_flood_over_many_vips_leaves_the_answers_and_little_work_for_the_agent() -> Result<()> {
    let scene = Scene::new("deluge")?;
    let vips: Vec<_> = (0..MANY_VIPS).map(|number| ip(20 + number)).collect();
    let lines: Vec<_> = vips.iter().map(|vip| format!("{{address: {vip}, force: true}}")).collect();
    let agent = scene.agent(&format!("vips: [{}]", lines.join(", ")))?;
    let claims: Vec<Arp> = (0..MANY_MACS)
        .flat_map(|mac| vips.iter().map(move |vip| Arp::gratuitous_request(forged(mac), *vip, Mac::ZERO)))
        .collect();
    wait_until(PATIENCE, "all VIPs to be held", || {
        let status = agent.status()?;
        let rows = status["vips"].as_array().into_iter().flatten();
        Ok(rows.filter(|row| row["role"] == "held").count() == vips.len())
    })?;
    let probe =
        ArpProbe::start(&scene.client, "eth0", vips[0], Duration::from_millis(1), ProbeMode::Broadcast)?;
    let (cost, cpu) = (Cost::of(&agent)?, agent.cpu_time()?);

    let began = Instant::now();
    let flood = Flood::start(&scene.rogue, "eth0", claims.iter().map(Arp::to_bytes), MANY_RATE)?;
    thread::sleep(DURATION);
    let sent = flood.stop()?;
    let (lasted, used) = (began.elapsed(), agent.cpu_time()?.saturating_sub(cpu));
    let report = probe.stop()?;
    let seen = format!("{sent} claims in {lasted:?}; the agent used {used:?} of CPU time; {report}");
    eprintln!("{seen}");
    let met = cost.claims_met(&agent)?;
    let least = u64::from(MANY_RATE) * DURATION.as_secs() / 2;
    assert!(met >= least, "this was no flood: {met} met; {seen}");
    assert!(used * MOST_CPU < lasted, "{seen}");
    assert!(report.answered() * 100 >= report.sent() * 99, "{seen}");
    assert!(report.longest_gap() < LONGEST_GAP, "{seen}");
    let node = Answerer { sha: NODE, eth_src: NODE };
    assert!(report.answers_by().keys().eq([&node]), "{seen}");
    for vip in vips {
        assert!(has_role(&agent, vip, "held")?, "{vip} is held no more; {seen}");
    }
    Ok(())
}
