//! Shows three nodes of a cluster that share a VIP, with an API server in this process.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};

use super::{
    findings::{self, Row},
    narrator::Narrator,
    timeline::Timeline,
};
use vipward_tests::{
    agent::VIP,
    cluster::{Cluster, ClusterOptions, Kind, NodeId, Seen, ServiceSpec},
    kit::interrupt,
};

/// Watched time before and after an action.
const A_WHILE: Duration = Duration::from_millis(800);
/// Width of a column in the pictures of a move and of a failover.
const FINE: Duration = Duration::from_millis(2);
const COARSE: Duration = Duration::from_millis(20);
/// Longest time without an answer after a loss of power, on a busy machine. By its Lease alone a node is
/// found dead after 3.5 s or more.
const LIMIT: Duration = Duration::from_secs(2);

/// Runs the scenes of the cluster. Returns the rows of the failover and of the move.
pub(super) fn run(narrator: &Narrator) -> Result<[Row; 2]> {
    narrator.chapter("Three nodes of a cluster agree on one holder, through the API server alone");
    let options = ClusterOptions { api_in_process: true, nodes: 3, ..ClusterOptions::default() };
    let mut cluster = Cluster::start("demo-cluster", options)?;
    for id in cluster.ids() {
        narrator.text(&format!("{id}  {}  {}  runs an agent", id.address(), id.mac()));
    }
    cluster.wait_until_all_renew()?;
    narrator.act(&format!("kubectl annotate service web vipward.io/addresses={VIP}"));
    cluster.create_service(&ServiceSpec::new("web", VIP))?;
    let first = cluster.wait_until_held(VIP)?;
    cluster.wait_for_ingress("web", VIP)?;
    get_vip(narrator, &cluster)?;
    narrator.act("vipward wire init");
    cluster.make_wire_key()?;
    cluster.wait_until_witnessed(first)?;
    narrator.text(&format!("The others ask {first} five times a second if it lives. Its program answers."));
    let rest = cluster.options().lease + cluster.options().margin;
    narrator.text(&format!(
        "A new MAC gets another node's VIP when all must know it, after {} ms.",
        rest.as_millis()
    ));
    interrupt::pass(rest)?;

    // The failover comes first: after a move the old holder names
    // the new one for ten seconds, even if that has no power.
    let (second, gap) = power_off(narrator, &mut cluster, first)?;
    let mut others = cluster.ids().into_iter().filter(|id| ![first, second].contains(id));
    let third = others.next().context("invariant: there are three nodes")?;
    let planned = move_it(narrator, &mut cluster, third)?;
    Ok([findings::power_off(gap, LIMIT), planned])
}

fn power_off(narrator: &Narrator, cluster: &mut Cluster, holder: NodeId) -> Result<(NodeId, Duration)> {
    narrator.chapter(&format!(
        "{holder} loses power, under a thousand requests and a thousand datagrams a second"
    ));
    let watch = cluster.watch(&[VIP])?;
    watch.let_pass(A_WHILE)?;
    narrator.act(&format!("{holder}: switched off"));
    let off = watch.step("switched off");
    cluster.power_off(holder)?;
    let new = cluster.wait_until_held_by_another(VIP, holder)?;
    watch.wait_until_received_by(VIP, new)?;
    watch.let_pass(A_WHILE)?;
    let seen = watch.stop()?;

    draw(narrator, cluster, &seen, Timeline::around(off, 5, COARSE))?;
    let wire = seen.wire.vip(VIP)?;
    let gap = wire.between(off, SystemTime::now()).gaps().into_iter().next();
    let gap =
        gap.and_then(|gap| gap.elapsed()).with_context(|| format!("no gap was seen to end:\n{seen}"))?;
    let flows = seen.felt(VIP)?.flows_for_good_after(off);
    let flows = flows.with_context(|| format!("datagrams did not flow again:\n{seen}"))?;
    let found = format!(
        "No node answered for {} ms; {new} does now. Datagrams flow again after {} ms (at most {} ms).",
        gap.as_millis(),
        flows.as_millis(),
        LIMIT.as_millis()
    );
    narrator.found(gap.max(flows) <= LIMIT, &found);
    get_vip(narrator, cluster)?;
    Ok((new, gap))
}

fn move_it(narrator: &Narrator, cluster: &mut Cluster, to: NodeId) -> Result<Row> {
    narrator.chapter("A planned move, under the same load");
    let rest = cluster.options().lease + cluster.options().margin;
    narrator.text(&format!("A claim that has changed its holder rests for {} ms.", rest.as_millis()));
    interrupt::pass(rest)?;
    let watch = cluster.watch(&[VIP])?;
    watch.let_pass(A_WHILE)?;
    narrator.act(&format!("vipward move {VIP} --to {to}"));
    let begun = watch.step("moved");
    let (code, printed) = cluster.vipward_move(VIP, &cluster.node_name(to))?;
    ensure!(code == Some(0), "`vipward move` failed: {printed}");
    watch.wait_until_received_by(VIP, to)?;
    watch.let_pass(A_WHILE)?;
    let seen = watch.stop()?;

    let (wire, felt) = (seen.wire.vip(VIP)?, seen.felt(VIP)?);
    let moved = wire.moves().into_iter().find(|moved| moved.at >= begun && moved.to == to.mac());
    let moved = moved.with_context(|| format!("it was not seen to move:\n{seen}"))?;
    draw(narrator, cluster, &seen, Timeline::around(moved.at, 20, FINE))?;
    let requests = wire.requests.len();
    let unanswered = requests - wire.answered();
    let (sent, lost) = (felt.sent.len(), felt.lost().len());
    narrator.found(
        unanswered == 0 && lost == 0,
        &format!("{unanswered} of {requests} requests unanswered, {lost} of {sent} datagrams lost."),
    );
    Ok(findings::planned_move(unanswered + lost, requests + sent))
}

/// Shows which node answered when, and which of the client's datagrams arrived.
fn draw(narrator: &Narrator, cluster: &Cluster, seen: &Seen, timeline: Timeline) -> Result<()> {
    let (wire, felt) = (seen.wire.vip(VIP)?, seen.felt(VIP)?);
    for id in cluster.ids() {
        let by = |mac| move |answer: &vipward_tests::measure::Answer| answer.by.sha == mac;
        let requests =
            wire.requests.iter().map(|request| (request.sent_at, request.answers.iter().any(by(id.mac()))));
        narrator.text(&format!("answered: {id}    {}", timeline.row(requests)));
    }
    let lost = felt.lost();
    let sent = felt.sent.iter().enumerate();
    let arrived = sent.map(|(number, at)| (*at, lost.binary_search(&number).is_err()));
    narrator.text(&format!("datagrams       {}", timeline.row(arrived)));
    narrator.text(&format!("                {}", timeline.ruler()));
    narrator.text("                █ every one, ▒ some, · none; blank: nothing was sent");
    Ok(())
}

/// Returns the output of `kubectl get vip`.
fn get_vip(narrator: &Narrator, cluster: &Cluster) -> Result<()> {
    narrator.act("kubectl get vip");
    let table = cluster.admin().table(Kind::VIRTUAL_IP)?;
    let columns = table.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        table
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &table {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        narrator.text(format!("  {}", cells.collect::<Vec<_>>().join("   ")).trim_end());
    }
    Ok(())
}
