//! Shows rivals that use, claim or answer for a VIP, and the commands for an operator.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use ipnet::Ipv4Net;

use super::observed::{LIMIT, believed, is_conflict, millis, shown};
use crate::{
    findings::{self, Belief, Claimed, Row},
    narrator::Narrator,
    stage::{NIC, SECOND_VIP, Stage, VIP},
};
use vipward_tests::{
    agent::{Agent, LogLine},
    frames::{Arp, Mac},
    kit::interrupt,
    lan::{Frame, Host, Responder, Wire},
};

const CLAIM_EVERY: Duration = Duration::from_millis(500);
const CLAIM_FOR: Duration = Duration::from_secs(5);
/// Interval between readings of a neighbour entry.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Longer than the pause between two rounds of announcements of a new VIP.
const QUIET: Duration = Duration::from_millis(1_400);
/// Longer than the time after a take in which a VIP is given back to a host that answers late.
const PROVISIONAL: Duration = Duration::from_millis(2_500);
/// Exit codes of `vipward who-has` and `vipward explain`.
const SEVERAL: i32 = 7;
const GOOD: i32 = 0;
const BROKEN: i32 = 8;
/// Configuration in these scenes, besides the VIPs.
const IMPATIENT: &str = "probe: {repeat: 1s}\nfence: {duration: 2s, heartbeat: 500ms, policy: stop}\n";

/// Claims on a held VIP and announcements of it, as the client received them.
struct Defences {
    claims: usize,
    first_claim: SystemTime,
    at: Vec<SystemTime>,
}

/// Runs the scenes. Returns the rows of the silent rival and of the claims.
pub(super) fn run(narrator: &Narrator, stage: &mut Stage) -> Result<[Row; 2]> {
    in_use(narrator, stage)?;
    let claimed = claimed(narrator, stage)?;
    let silent = silent(narrator, stage)?;
    explain(narrator, stage)?;
    Ok([silent, claimed])
}

/// Adds the second VIP, which is free, to the file of node-a.
pub(super) fn add_second(narrator: &Narrator, stage: &mut Stage) -> Result<()> {
    narrator.chapter(&format!("A second VIP, {SECOND_VIP}"));
    list_second(narrator, stage)?;
    stage.wait_until_answering(SECOND_VIP)?;
    let is_ours = stage.client.resolve(SECOND_VIP)? == stage.node_a.mac(NIC)?;
    narrator.found(is_ours, "node-a has probed for it, holds it, and answers.");
    narrator.text("For two seconds it would give it back to a host that answers late.");
    interrupt::pass(PROVISIONAL)
}

/// Writes the second VIP into the file of node-a.
fn list_second(narrator: &Narrator, stage: &mut Stage) -> Result<()> {
    narrator.text("node-a's file lists it too now, and says, in the next chapters too:");
    for line in IMPATIENT.lines() {
        narrator.text(&format!("  {line}"));
    }
    stage.configure(&(stage.plain_config()? + &format!("  - address: {SECOND_VIP}\n") + IMPATIENT))
}

/// Shows that an address in use waits until it is free.
fn in_use(narrator: &Narrator, stage: &mut Stage) -> Result<()> {
    narrator.chapter(&format!("A second VIP, {SECOND_VIP}, which the printer has already"));
    let bound = Ipv4Net::new(SECOND_VIP, 32)?;
    let node_a = stage.node_a.mac(NIC)?;
    stage.printer.add_address(NIC, bound)?;
    let wire = Wire::open(&stage.client, NIC)?;
    let seen = stage.agent()?.logs()?.len();
    list_second(narrator, stage)?;
    let line = stage.wait_for_log(seen, "that the address is in use", |line| begins(line, "in_use"))?;
    let received: Vec<_> = wire.drain()?.iter().filter_map(Frame::arp).collect();
    let by_node_a = |arp: &&Arp| arp.sha == node_a;
    let probes = received.iter().filter(by_node_a).filter(|arp| arp.spa.is_unspecified()).count();
    let claims = received.iter().filter(by_node_a).filter(|arp| arp.spa == SECOND_VIP).count();
    narrator.found(
        claims == 0,
        &format!("Received from node-a: ARP probes for it {probes}, announcements {claims}. The agent says:"),
    );
    narrator.text(&shown(&line));

    narrator.act(&format!("printer: ip address del {bound} dev {NIC}"));
    stage.printer.delete_address(NIC, bound)?;
    let free = SystemTime::now();
    let announced = interrupt::wait(LIMIT, "the second VIP to be announced", || {
        Ok(announcements(&wire.drain()?, node_a, SECOND_VIP).into_iter().next())
    })?;
    let line = stage.wait_for_log(seen, "that the conflict is over", |line| {
        line.message() == "claims are over" && line.has("vip", SECOND_VIP)
    })?;
    let taken_after = announced.duration_since(free)?;
    let is_ours = stage.client.resolve(SECOND_VIP)? == node_a;
    let found = format!("{} ms later node-a holds it, and announces it.", taken_after.as_millis());
    narrator.found(is_ours, &found);
    narrator.text(&shown(&line));
    Ok(())
}

/// Claims the VIP that node-a holds, and reads neighbour entries.
fn claimed(narrator: &Narrator, stage: &mut Stage) -> Result<Row> {
    narrator.chapter(&format!("The rogue claims {VIP}, which node-a holds, twice a second"));
    let node_a = stage.node_a.mac(NIC)?;
    let _guard = stage.agent_on_node_b(&format!("vips: [{{address: {VIP}, mac: '{node_a}'}}]\n"))?;
    narrator.text("An agent on node-b guards it from now on. The client runs none.");
    for host in [&stage.node_b, &stage.client] {
        host.flush_neighbours(NIC)?;
        ensure!(host.resolve(VIP)? == node_a, "{} believes another host than node-a", host.name());
    }
    let wire = Wire::open(&stage.client, NIC)?;
    wait_until_quiet(&wire, node_a)?;

    let (log, dropped) = (stage.agent()?.logs()?.len(), stage.counter("claim_conflict")?);
    let (defences, beliefs) = claim(stage, &wire)?;
    let dropped = stage.counter("claim_conflict")? - dropped;
    let line = stage.wait_for_log(log, "the claims", |line| is_conflict(line, VIP))?;
    narrator.found(
        dropped == defences.claims as u64 && defences.at.len() >= defences.claims,
        &format!(
            "{dropped} of {} claims dropped. node-a announced the VIP {} times, {:.1} ms after the first claim.",
            defences.claims,
            defences.at.len(),
            millis(defences.first_after()?)
        ),
    );
    narrator.text(&shown(&line));
    for (belief, who) in
        beliefs.iter().zip(["node-b, which guards the VIP,", "The client, which guards nothing,"])
    {
        let found = format!("{who} had it at node-a in {} of {} looks.", belief.right, belief.looks);
        narrator.found(belief.right == belief.looks, &found);
    }
    narrator.text("A kernel believes the last sender: node-a's program announces the VIP after each claim.");
    let [guarded, unguarded] = beliefs;
    Ok(Claimed { guarded, unguarded }.row())
}

impl Defences {
    fn first_after(&self) -> Result<Duration> {
        let first = self.at.first().context("the VIP was not announced while it was claimed")?;
        Ok(first.duration_since(self.first_claim)?)
    }
}

/// Claims the VIP for a while, and reads the hosts' neighbour entries.
fn claim(stage: &Stage, client: &Wire) -> Result<(Defences, [Belief; 2])> {
    let (node_a, rogue) = (stage.node_a.mac(NIC)?, stage.rogue.mac(NIC)?);
    let rival = Wire::open(&stage.rogue, NIC)?;
    let claim = Arp::gratuitous_reply(rogue, VIP, rogue);
    let end = Instant::now() + CLAIM_FOR;
    let (mut next, mut received) = (Instant::now(), Vec::new());
    let mut beliefs = [Belief::default(); 2];
    while Instant::now() < end {
        if Instant::now() >= next {
            rival.send(&claim.to_bytes())?;
            next += CLAIM_EVERY;
        }
        interrupt::pass(LOOK_EVERY)?;
        for (belief, host) in beliefs.iter_mut().zip([&stage.node_b, &stage.client]) {
            belief.looks += 1;
            belief.right += usize::from(believed(host, VIP)? == Some(node_a));
        }
        received.extend(client.drain()?);
    }
    let mut claims = received.iter().filter(|frame| frame.arp() == Some(claim));
    let first_claim = claims.next().context("the client received no claim")?.at;
    let claims = 1 + claims.count();
    Ok((Defences { claims, first_claim, at: announcements(&received, node_a, VIP) }, beliefs))
}

/// Shows that the agent names a rival that sends nothing by itself.
pub(super) fn silent(narrator: &Narrator, stage: &mut Stage) -> Result<Row> {
    narrator.chapter(&format!(
        "The rogue answers for {SECOND_VIP}: by unicast, to each host that asks, and only then"
    ));
    narrator.text(
        "Who only listens never receives it. node-a asks about what it holds (probe.repeat: here every second).",
    );
    let rogue = stage.rogue.mac(NIC)?;
    let seen = stage.agent()?.logs()?.len();
    let responder = Responder::start(&stage.rogue, NIC, SECOND_VIP, rogue)?;
    let began = Instant::now();
    let line = stage
        .wait_for_log(seen, "the silent rival", |line| begins(line, "held") && line.has("mac", rogue))?;
    let found_after = began.elapsed();
    narrator.found(true, &format!("Named {} ms after it began to answer:", found_after.as_millis()));
    narrator.text(&shown(&line));
    let mut command = stage.client.command(Agent::default_binary());
    command.args(["who-has", &SECOND_VIP.to_string(), "-i", NIC, "--timeout", "300ms"]);
    command.arg("--pin-dir").arg(stage.no_pins());
    print(narrator, &stage.client, command, SEVERAL)?;
    responder.stop()?;
    Ok(findings::silent_rival(found_after))
}

/// Shows the step that `explain` names when the agent is dead and its lease deadline has passed.
fn explain(narrator: &Narrator, stage: &mut Stage) -> Result<()> {
    narrator.chapter(&format!("Why is {SECOND_VIP} answered for, and why not?"));
    let command = |stage: &mut Stage| -> Result<Command> {
        let agent = stage.agent()?;
        let mut command = agent.vipward("explain")?;
        command.arg(SECOND_VIP.to_string()).arg("--config").arg(agent.config_path());
        // The demo must not use a kubeconfig of this machine.
        command.env_remove("KUBECONFIG").env("HOME", "/nonexistent");
        Ok(command)
    };
    let right = command(stage)?;
    print(narrator, &stage.node_a, right, GOOD)?;

    narrator.act(&format!("kill -9 {}", stage.agent()?.pid()?));
    stage.agent()?.kill9()?;
    interrupt::wait(LIMIT, "the lease deadline to be over", || {
        Ok((stage.agent()?.status()?["lease_deadline"]["state"] == "over").then_some(()))
    })?;
    let broken = command(stage)?;
    let printed = print(narrator, &stage.node_a, broken, BROKEN)?;
    ensure!(printed.contains("The first broken step: "), "explain named no broken step");
    stage.revive_agent()?;
    narrator.text("A new agent runs, with its first file.");
    Ok(())
}

/// Runs a command, shows it with its output, and returns
/// the output. Fails unless its exit code is `code`.
fn print(narrator: &Narrator, host: &Host, mut command: Command, code: i32) -> Result<String> {
    let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    narrator.act(&format!("{}: vipward {}", host.name(), args.join(" ")));
    let output = command.output().context("failed to start vipward")?;
    interrupt::check()?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.code() == Some(code),
        "vipward ended with {:?}: {stdout}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    for line in stdout.lines() {
        narrator.text(format!("  {line}").trim_end());
    }
    narrator.text(&format!("  (exit code {code})"));
    Ok(stdout)
}

/// Waits until the rounds of announcements of a new VIP are over.
fn wait_until_quiet(client: &Wire, holder: Mac) -> Result<()> {
    let mut since = Instant::now();
    interrupt::wait(LIMIT, "the announcements of the VIP to end", || {
        if !announcements(&client.drain()?, holder, VIP).is_empty() {
            since = Instant::now();
        }
        Ok((since.elapsed() >= QUIET).then_some(()))
    })
}

/// Returns the times of the announcements by `holder`, which count one of the two forms.
fn announcements(frames: &[Frame], holder: Mac, vip: Ipv4Addr) -> Vec<SystemTime> {
    let request = Arp::gratuitous_request(holder, vip, Mac::ZERO);
    frames.iter().filter(|frame| frame.arp() == Some(request)).map(|frame| frame.at).collect()
}

/// Returns whether a log line reports a new conflict about the second VIP.
fn begins(line: &LogLine, what: &str) -> bool {
    line.message().starts_with("conflict: ") && line.has("what", what) && line.has("vip", SECOND_VIP)
}
