//! Runs the scenes on one LAN.

mod conflicts;
mod crowd;
mod seen;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use self::crowd::ASKERS;
use self::seen::{LIMIT, believed, is_conflict, shown};
use super::{
    cluster,
    findings::{Answers, Crowd, Findings, Outage},
    stage::{GATEWAY, NIC, ORDINARY, ORDINARY_6, Stage, VIP, VIP_6},
    voice::Voice,
};
use vipward_tests::{
    frames::{Arp, Mac},
    kit::{interrupt, output_of, tools},
    lan::{Frame, Host, Wire},
    measure::{ArpProbe, ProbeMode},
};

/// Requests before the kill, during the agent's absence, and after its return.
const BEFORE_DURING_AFTER: [usize; 3] = [500, 1_000, 1_000];

/// Runs all scenes and returns the figures.
pub(super) fn notify(voice: Voice, stage: &mut Stage) -> Result<Findings> {
    introduce(voice, stage)?;
    let stolen_without = steal_without_guard(voice, stage)?;
    let answers = who_answers(voice, stage)?;
    let (kept_with, named) = steal_with_guard(voice, stage)?;
    let outage = kill_and_restart(voice, stage)?;
    let crowds = crowd(voice, stage)?;
    let conflicts = conflicts::notify(voice, stage)?;
    let cluster = cluster::notify(voice)?;
    let askers = ASKERS;
    Ok(Findings { answers, stolen_without, kept_with, named, outage, askers, crowds, conflicts, cluster })
}

fn introduce(voice: Voice, stage: &Stage) -> Result<()> {
    voice.chapter("A LAN in network namespaces");
    let hosts = [
        (&stage.client, "asks"),
        (&stage.node_a, "will run the agent"),
        (&stage.node_b, "its kernel answers for an ordinary address"),
        (&stage.gateway, "has the address that an impostor wants"),
        (&stage.rogue, "the impostor"),
        (&stage.printer, "will take an address that is meant to be a VIP"),
    ];
    for (host, about) in hosts {
        voice.say(&format!("{:8} {:13} {}  {about}", host.name(), host.address(NIC)?, host.mac(NIC)?));
    }
    Ok(())
}

fn steal_without_guard(voice: Voice, stage: &Stage) -> Result<Mac> {
    voice.chapter("1. Without Vipward: a claim takes an address");
    let before = stage.node_a.resolve(GATEWAY)?;
    voice.say(&format!("node-a has asked for the gateway: {GATEWAY} is at {before}."));
    claim(voice, stage, GATEWAY)?;
    let rogue = stage.rogue.mac(NIC)?;
    interrupt::wait(LIMIT, "the claim to be believed", || {
        Ok((believed(&stage.node_a, GATEWAY)? == Some(rogue)).then_some(()))
    })?;
    voice.found(false, &format!("node-a now sends to {rogue}, the rogue, what is for the gateway."));
    Ok(rogue)
}

fn who_answers(voice: Voice, stage: &mut Stage) -> Result<Answers> {
    voice.chapter(&format!(
        "2. The agent starts on node-a: it holds {VIP} and {VIP_6}, and guards the gateway"
    ));
    stage.start_agent()?;
    let addresses = stage.node_a.namespace().addresses(NIC)?;
    let has_vip = addresses.iter().any(|address| address.addr() == VIP);
    ensure!(!has_vip, "node-a's kernel has the VIP: {addresses:?}");
    let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    voice.say(&format!("node-a's kernel has {} on {NIC}, and not the VIP.", shown.join(", ")));

    let kernel_a = Wire::open(&stage.node_a, NIC)?;
    let kernel_b = Wire::open(&stage.node_b, NIC)?;
    let before = stage.counter("answered")?;
    arping(voice, &stage.client, VIP)?;
    let by_program = stage.counter("answered")? - before;
    let received_by_kernel = requests_for(&kernel_a, VIP)?;
    voice.found(
        by_program > 0 && received_by_kernel == 0,
        &format!(
            "node-a's program answered {by_program}; its kernel received {received_by_kernel} of the requests."
        ),
    );
    arping(voice, &stage.client, ORDINARY)?;
    let other_kernel = requests_for(&kernel_b, ORDINARY)?;
    voice.say(&format!(
        "For comparison: node-b's kernel received {other_kernel} for {ORDINARY}, and answered."
    ));
    Ok(Answers { by_program, received_by_kernel, other_kernel })
}

fn steal_with_guard(voice: Voice, stage: &mut Stage) -> Result<(Mac, Mac)> {
    voice.chapter("3. The impostor again");
    stage.node_a.flush_neighbours(NIC)?;
    let before = stage.node_a.resolve(GATEWAY)?;
    voice.say(&format!("node-a has asked for the gateway anew: {GATEWAY} is at {before}."));
    let (seen, conflicts) = (stage.agent()?.logs()?.len(), stage.counter("claim_conflict")?);
    claim(voice, stage, GATEWAY)?;
    let line = stage.wait_for_log(seen, "the claim on the gateway", |line| is_conflict(line, GATEWAY))?;
    let dropped = stage.counter("claim_conflict")? - conflicts;
    let after = believed(&stage.node_a, GATEWAY)?.context("node-a's entry for the gateway is gone")?;
    let unmoved =
        format!("{dropped} claims dropped; node-a still has the gateway at {after}. The agent says:");
    voice.found(after == before, &unmoved);
    voice.say(&shown(&line));

    let seen = stage.agent()?.logs()?.len();
    claim(voice, stage, VIP)?;
    let line = stage.wait_for_log(seen, "the claim on the VIP", |line| is_conflict(line, VIP))?;
    let named: Mac =
        line.field("mac").and_then(|mac| mac.as_str()).context("the log line names no MAC")?.parse()?;
    voice.found(named == stage.rogue.mac(NIC)?, "The claim on the VIP is dropped and named, too:");
    voice.say(&shown(&line));
    Ok((after, named))
}

fn kill_and_restart(voice: Voice, stage: &mut Stage) -> Result<Outage> {
    let [before, during, after] = BEFORE_DURING_AFTER;
    voice.chapter("4. kill -9, and a new agent, under a thousand requests a second");
    let probe = ArpProbe::start(&stage.client, NIC, VIP, Duration::from_millis(1), ProbeMode::Broadcast)?;
    let ask = |count: usize| {
        let enough = probe.sent() + count;
        let what = format!("{count} more requests");
        interrupt::wait(LIMIT, &what, || Ok((probe.sent() >= enough).then_some(())))
    };
    ask(before)?;
    let seen = stage.agent()?.logs()?.len();
    voice.act(&format!("kill -9 {}", stage.agent()?.pid()?));
    stage.agent()?.kill9()?;
    let dead = SystemTime::now();
    ask(during)?;
    let revived = SystemTime::now();
    stage.agent()?.restart()?;
    stage.wait_for_log(seen, "that it runs again", |line| line.message() == "agent is running")?;
    voice.act(&format!("a new agent, process {}, runs", stage.agent()?.pid()?));
    ask(after)?;

    let probe = probe.stop()?;
    let dead_for = revived.duration_since(dead)?;
    let asked_while_dead = probe.between(dead, revived).sent();
    voice.say(&format!("{asked_while_dead} of {} requests came while no agent ran.", probe.sent()));
    let found = format!(
        "{} of {} answered, longest gap {:?}, slowest answer {:.1?}.",
        probe.answered(),
        probe.sent(),
        probe.longest_gap(),
        probe.slowest_answer()
    );
    voice.found(probe.answered() == probe.sent(), &found);
    Ok(Outage { probe, dead_for, asked_while_dead })
}

fn crowd(voice: Voice, stage: &Stage) -> Result<Vec<Crowd>> {
    voice.chapter(&format!("5. {ASKERS} askers that were never seen before, each asking once"));
    let rows: [(_, IpAddr, IpAddr); 2] =
        [("IPv4", VIP.into(), ORDINARY.into()), ("IPv6", VIP_6.into(), ORDINARY_6.into())];
    let mut crowds = Vec::new();
    for (family, vip, ordinary) in rows {
        let by_program = crowd::ask(&stage.client, vip)?;
        let by_kernel = crowd::ask(&stage.client, ordinary);
        // The limit on neighbour entries is one for the
        // whole machine, so the crowd's entries go at once.
        stage.node_b.flush_neighbours(NIC)?;
        let by_kernel = by_kernel?;
        let found = |who: &str, answered: usize| {
            voice.found(answered == ASKERS, &format!("{family}: {who} answered {answered} of {ASKERS}."));
        };
        found("node-a (program)", by_program);
        found("node-b (kernel) ", by_kernel);
        crowds.push(Crowd { family, by_program, by_kernel });
    }
    Ok(crowds)
}

/// Makes the rogue announce `address`.
fn claim(voice: Voice, stage: &Stage, address: Ipv4Addr) -> Result<()> {
    let address = address.to_string();
    let args = ["-U", "-c", "2", "-I", NIC, &address];
    voice.act(&format!("rogue: arping {}", args.join(" ")));
    let mut command = stage.rogue.command(tools::arping()?);
    // The exit code says only whether there was an answer.
    command.args(args).output().context("failed to run arping")?;
    interrupt::check()
}

fn arping(voice: Voice, client: &Host, address: Ipv4Addr) -> Result<()> {
    let address = address.to_string();
    let args = ["-c", "3", "-I", NIC, &address];
    voice.act(&format!("client: arping {}", args.join(" ")));
    let mut command = client.command(tools::arping()?);
    command.args(args);
    let printed = output_of(command);
    interrupt::check()?;
    for line in printed?.lines().filter(|line| line.contains("reply from")) {
        voice.say(&format!("  {line}"));
    }
    Ok(())
}

fn requests_for(wire: &Wire, address: Ipv4Addr) -> Result<usize> {
    let is_one = |arp: &Arp| arp.is_request() && arp.tpa == address && !arp.is_gratuitous();
    Ok(wire.drain()?.iter().filter_map(Frame::arp).filter(is_one).count())
}
