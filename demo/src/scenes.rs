//! Runs the scenes on one LAN.

mod conflicts;
mod many_hosts;
mod observed;

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use self::many_hosts::ASKERS;
use self::observed::{LIMIT, believed, is_conflict, millis, shown};
use super::{
    cluster,
    findings::{self, ManyHosts, Outage, Row},
    narrator::Narrator,
    stage::{GATEWAY, NIC, ORDINARY, ORDINARY_6, Stage, VIP, VIP_6},
};
use vipward_tests::{
    frames::{Arp, Mac},
    kit::{interrupt, output_of, tools},
    lan::{Frame, Host, Wire},
    measure::{ArpProbe, ProbeMode},
};

/// Words for paths that differ in each run.
const PINS: &str = "$PINS";
const FILES: &str = "$FILES";
/// Requests before the kill, during the agent's absence, and after its return.
const BEFORE_DURING_AFTER: [usize; 3] = [500, 1_000, 1_000];

/// Runs all scenes and returns the rows of the result.
pub(super) fn run(narrator: &Narrator, stage: &mut Stage) -> Result<Vec<Row>> {
    introduce(narrator, stage)?;
    let stolen = steal_without_guard(narrator, stage)?;
    who_answers(narrator, stage)?;
    let kept = steal_with_guard(narrator, stage)?;
    let outage = kill_and_restart(narrator, stage)?;
    let many_hosts = many_hosts(narrator, stage)?;
    let conflicts = conflicts::run(narrator, stage)?;
    let moves = cluster::run(narrator)?;
    let rows = [outage.row()].into_iter().chain(moves).chain(conflicts);
    let rows = rows.chain([findings::gateway(kept, stolen)]);
    Ok(rows.chain(many_hosts.iter().map(ManyHosts::row)).collect())
}

/// Runs the scenes of about half a minute: a kill, a crowd, a silent rival, a failover and a move.
pub(super) fn run_short(narrator: &Narrator, stage: &mut Stage) -> Result<Vec<Row>> {
    introduce(narrator, stage)?;
    who_answers(narrator, stage)?;
    let outage = kill_and_restart(narrator, stage)?;
    let many_hosts = many_hosts(narrator, stage)?;
    conflicts::add_second(narrator, stage)?;
    let silent = conflicts::silent(narrator, stage)?;
    let moves = cluster::run(narrator)?;
    let rows = [outage.row()].into_iter().chain(moves).chain([silent]);
    Ok(rows.chain(many_hosts.iter().map(ManyHosts::row)).collect())
}

fn introduce(narrator: &Narrator, stage: &Stage) -> Result<()> {
    narrator.heading("A LAN in network namespaces");
    let hosts = [
        (&stage.client, "asks"),
        (&stage.node_a, "will run the agent"),
        (&stage.node_b, "its kernel answers for an ordinary address"),
        (&stage.gateway, "has the address that an impostor wants"),
        (&stage.rogue, "the impostor"),
        (&stage.printer, "will take an address that is meant to be a VIP"),
    ];
    for (host, about) in hosts {
        narrator.text(&format!("{:8} {:13} {}  {about}", host.name(), host.address(NIC)?, host.mac(NIC)?));
    }
    narrator.alias(stage.bpffs(), PINS);
    narrator.text(&format!("{PINS} stands for the bpffs with the pins, {FILES} for the agent's directory."));
    Ok(())
}

/// Returns true if the claim was believed.
fn steal_without_guard(narrator: &Narrator, stage: &Stage) -> Result<bool> {
    narrator.chapter("Without Vipward: a claim takes an address");
    let before = stage.node_a.resolve(GATEWAY)?;
    narrator.text(&format!("node-a has asked for the gateway: {GATEWAY} is at {before}."));
    claim(narrator, stage, GATEWAY)?;
    let rogue = stage.rogue.mac(NIC)?;
    interrupt::wait(LIMIT, "the claim to be believed", || {
        Ok((believed(&stage.node_a, GATEWAY)? == Some(rogue)).then_some(()))
    })?;
    narrator.found(false, &format!("node-a now sends to {rogue}, the rogue, what is for the gateway."));
    Ok(believed(&stage.node_a, GATEWAY)? == Some(rogue))
}

fn who_answers(narrator: &Narrator, stage: &mut Stage) -> Result<()> {
    narrator
        .chapter(&format!("The agent starts on node-a: it holds {VIP} and {VIP_6}, and guards the gateway"));
    stage.start_agent()?;
    let config = stage.agent()?.config_path();
    narrator.alias(config.parent().context("invariant: a file is in a directory")?, FILES);
    let addresses = stage.node_a.namespace().addresses(NIC)?;
    let has_vip = addresses.iter().any(|address| address.addr() == VIP);
    ensure!(!has_vip, "node-a's kernel has the VIP: {addresses:?}");
    let shown: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    narrator.text(&format!("node-a's kernel has {} on {NIC}, and not the VIP.", shown.join(", ")));

    let kernel_a = Wire::open(&stage.node_a, NIC)?;
    let kernel_b = Wire::open(&stage.node_b, NIC)?;
    let before = stage.counter("answered")?;
    arping(narrator, &stage.client, VIP)?;
    let by_program = stage.counter("answered")? - before;
    let received_by_kernel = requests_for(&kernel_a, VIP)?;
    narrator.found(
        by_program > 0 && received_by_kernel == 0,
        &format!(
            "node-a's program answered {by_program}; its kernel received {received_by_kernel} of the requests."
        ),
    );
    arping(narrator, &stage.client, ORDINARY)?;
    let other_kernel = requests_for(&kernel_b, ORDINARY)?;
    narrator.text(&format!(
        "For comparison: node-b's kernel received {other_kernel} for {ORDINARY}, and answered."
    ));
    Ok(())
}

/// Returns true if the claim was not believed.
fn steal_with_guard(narrator: &Narrator, stage: &mut Stage) -> Result<bool> {
    narrator.chapter("The impostor again");
    stage.node_a.flush_neighbours(NIC)?;
    let before = stage.node_a.resolve(GATEWAY)?;
    narrator.text(&format!("node-a has asked for the gateway anew: {GATEWAY} is at {before}."));
    let (seen, conflicts) = (stage.agent()?.logs()?.len(), stage.counter("claim_conflict")?);
    claim(narrator, stage, GATEWAY)?;
    let line = stage.wait_for_log(seen, "the claim on the gateway", |line| is_conflict(line, GATEWAY))?;
    let dropped = stage.counter("claim_conflict")? - conflicts;
    let after = believed(&stage.node_a, GATEWAY)?.context("node-a's entry for the gateway is gone")?;
    let unmoved =
        format!("{dropped} claims dropped; node-a still has the gateway at {after}. The agent says:");
    narrator.found(after == before, &unmoved);
    narrator.text(&shown(&line));

    let seen = stage.agent()?.logs()?.len();
    claim(narrator, stage, VIP)?;
    let line = stage.wait_for_log(seen, "the claim on the VIP", |line| is_conflict(line, VIP))?;
    let named: Mac =
        line.field("mac").and_then(|mac| mac.as_str()).context("the log line names no MAC")?.parse()?;
    narrator.found(named == stage.rogue.mac(NIC)?, "The claim on the VIP is dropped and named, too:");
    narrator.text(&shown(&line));
    Ok(after == before)
}

fn kill_and_restart(narrator: &Narrator, stage: &mut Stage) -> Result<Outage> {
    let [before, during, after] = BEFORE_DURING_AFTER;
    narrator.chapter("kill -9, and a new agent, under a thousand requests a second");
    let probe = ArpProbe::start(&stage.client, NIC, VIP, Duration::from_millis(1), ProbeMode::Broadcast)?;
    let ask = |count: usize| {
        let enough = probe.sent() + count;
        let what = format!("{count} more requests");
        interrupt::wait(LIMIT, &what, || Ok((probe.sent() >= enough).then_some(())))
    };
    ask(before)?;
    let seen = stage.agent()?.logs()?.len();
    narrator.act(&format!("kill -9 {}", stage.agent()?.pid()?));
    stage.agent()?.kill9()?;
    let dead = SystemTime::now();
    ask(during)?;
    let revived = SystemTime::now();
    stage.agent()?.restart()?;
    stage.wait_for_log(seen, "that it runs again", |line| line.message() == "agent is running")?;
    narrator.act(&format!("a new agent, process {}, runs", stage.agent()?.pid()?));
    ask(after)?;

    let probe = probe.stop()?;
    let dead_for = revived.duration_since(dead)?;
    let asked_while_dead = probe.between(dead, revived).sent();
    narrator.text(&format!("{asked_while_dead} of {} requests came while no agent ran.", probe.sent()));
    let found = format!(
        "{} of {} answered, longest gap {:.1} ms, slowest answer {:.1} ms.",
        probe.answered(),
        probe.sent(),
        millis(probe.longest_gap()),
        millis(probe.slowest_answer())
    );
    narrator.found(probe.answered() == probe.sent(), &found);
    Ok(Outage { probe, dead_for })
}

fn many_hosts(narrator: &Narrator, stage: &Stage) -> Result<Vec<ManyHosts>> {
    narrator.chapter(&format!("{ASKERS} askers that were never seen before, each asking once"));
    let rows: [(_, IpAddr, IpAddr); 2] =
        [("IPv4", VIP.into(), ORDINARY.into()), ("IPv6", VIP_6.into(), ORDINARY_6.into())];
    let mut many_hosts = Vec::new();
    for (family, vip, ordinary) in rows {
        let by_program = many_hosts::request(&stage.client, vip)?;
        let by_kernel = many_hosts::request(&stage.client, ordinary);
        // The limit on neighbour entries is one for the
        // whole machine, so the crowd's entries go at once.
        stage.node_b.flush_neighbours(NIC)?;
        let by_kernel = by_kernel?;
        let found = |who: &str, answered: usize| {
            narrator.found(answered == ASKERS, &format!("{family}: {who} answered {answered} of {ASKERS}."));
        };
        found("node-a (program)", by_program);
        found("node-b (kernel) ", by_kernel);
        many_hosts.push(ManyHosts { family, askers: ASKERS, by_program, by_kernel });
    }
    Ok(many_hosts)
}

/// Makes the rogue announce `address`.
fn claim(narrator: &Narrator, stage: &Stage, address: Ipv4Addr) -> Result<()> {
    let address = address.to_string();
    let args = ["-U", "-c", "2", "-I", NIC, &address];
    narrator.act(&format!("rogue: arping {}", args.join(" ")));
    let mut command = stage.rogue.command(tools::arping()?);
    // The exit code only shows whether there was an answer.
    command.args(args).output().context("failed to run arping")?;
    interrupt::check()
}

fn arping(narrator: &Narrator, client: &Host, address: Ipv4Addr) -> Result<()> {
    let address = address.to_string();
    let args = ["-c", "3", "-I", NIC, &address];
    narrator.act(&format!("client: arping {}", args.join(" ")));
    let mut command = client.command(tools::arping()?);
    command.args(args);
    let printed = output_of(command);
    interrupt::check()?;
    for line in printed?.lines().filter(|line| line.contains("reply from")) {
        narrator.text(&format!("  {line}"));
    }
    Ok(())
}

fn requests_for(wire: &Wire, address: Ipv4Addr) -> Result<usize> {
    let is_one = |arp: &Arp| arp.is_request() && arp.tpa == address && !arp.is_gratuitous();
    Ok(wire.drain()?.iter().filter_map(Frame::arp).filter(is_one).count())
}
