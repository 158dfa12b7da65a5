//! The API server goes back to an older state, as after etcd was restored from a snapshot.
//!
//! The API server does not know the changes since the snapshot, and sends no sign that
//! they were lost. Claims and Leases have their old contents and versions, and the
//! agents' watches continue from versions in the future.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use vipward_tests::{
    agent::{VIP, ip},
    apiserver::Verb,
    cluster::{
        Cluster, ClusterOptions, N1, N2, N3, NodeId, PATIENCE, ServiceSpec, Watch, scenario,
        skip_without_backup,
    },
    measure::{Monitor, MonitorReport},
};

/// A VIP without a change after the snapshot.
const UNTOUCHED: Ipv4Addr = VIP;
/// A VIP that moves to another node after the snapshot.
const MOVED: Ipv4Addr = ip(50);
/// A VIP whose Service is created after the snapshot.
const CREATED: Ipv4Addr = ip(51);
/// A VIP whose Service is deleted after the snapshot.
const DELETED: Ipv4Addr = ip(52);
/// Time from the API server's return until the right node alone answers for every VIP.
const LIMIT: Duration = Duration::from_secs(10);
/// Time after that in which everything must be quiet.
const QUIET: Duration = Duration::from_secs(10);
/// Outage that ends before any lease deadline has passed.
const BRIEF: Duration = Duration::from_secs(1);
/// Outage that ends after all lease deadlines have passed.
const LONG: Duration = Duration::from_secs(8);
/// The most complaints of an agent: one for each of five types that it cannot read during the outage, and
/// a few others. A real API server that does not know its permissions yet causes five more.
const COMPLAINTS: usize = 15;

/// The number of an agent's log lines so far, and its process.
struct Mark {
    id: NodeId,
    lines: usize,
    pid: u32,
}

fn mark(cluster: &Cluster) -> Result<Vec<Mark>> {
    let marks = cluster.ids().into_iter().map(|id| {
        let agent = cluster.member(id)?.agent().context("every agent runs")?;
        Ok(Mark { id, lines: agent.logs()?.len(), pid: agent.pid()? })
    });
    marks.collect()
}

/// Fails if an agent has ended, or has complained more often than expected.
fn check_agents(cluster: &mut Cluster, marks: &[Mark]) -> Result<()> {
    for Mark { id, lines, pid } in marks {
        let member = cluster.member_mut(*id)?;
        ensure!(member.agent_runs()?, "the agent on {id} has ended:\n{}", member.agent_mut()?.log_tail(20));
        let agent = member.agent_mut()?;
        ensure!(agent.pid()? == *pid, "the agent on {id} was started again");
        let logged = agent.logs()?.into_iter().skip(*lines);
        let complaints: Vec<_> = logged.filter(|line| ["WARN", "ERROR"].contains(&line.level())).collect();
        let text = complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        ensure!(complaints.len() <= COMPLAINTS, "{id} has complained {} times:\n{text}", complaints.len());
        ensure!(!text.contains("by hand"), "{id} takes the older state for edits:\n{text}");
    }
    Ok(())
}

fn create(cluster: &Cluster, vip: Ipv4Addr) -> Result<()> {
    let last = vip.octets()[3];
    cluster.create_service(&ServiceSpec::new(&name_of(vip), vip).port(u16::from(last)))
}

fn name_of(vip: Ipv4Addr) -> String {
    format!("web-{}", vip.octets()[3])
}

/// Moves a VIP to another node. Returns that node.
fn move_away(cluster: &Cluster, vip: Ipv4Addr) -> Result<NodeId> {
    let old = cluster.wait_until_held(vip)?;
    let new = cluster.ids().into_iter().find(|id| *id != old).context("there is but one node")?;
    move_to(cluster, vip, new)?;
    Ok(new)
}

fn move_to(cluster: &Cluster, vip: Ipv4Addr, new: NodeId) -> Result<()> {
    let (code, printed) = cluster.vipward_move(vip, &cluster.node_name(new))?;
    ensure!(code == Some(0), "{vip} was not moved to {new}: {printed}");
    cluster.wait_until_held_by(vip, new)
}

/// The quiet time after the API server went back.
struct Settled {
    /// Time from which one node must answer for every VIP.
    from: SystemTime,
    /// Time at which [`QUIET`] has passed after that.
    to: SystemTime,
}

/// Lets the agents' time pass, and then the quiet time.
fn settle(cluster: &mut Cluster, pass: impl Fn(Duration) -> Result<()>) -> Result<Settled> {
    pass(LIMIT)?;
    let from = SystemTime::now();
    if let Some(server) = cluster.api_mut().in_this_process() {
        server.reset_stats();
    }
    pass(QUIET)?;
    let to = SystemTime::now();
    check_quiet(cluster)?;
    Ok(Settled { from, to })
}

/// Fails if the agents have sent more requests since the reset
/// of the counters than calm renewals need.
fn check_quiet(cluster: &mut Cluster) -> Result<()> {
    let agents: BTreeSet<String> = cluster.ids().into_iter().map(|id| cluster.user_of(id)).collect();
    let nodes = u64::try_from(agents.len())?;
    let renewals = QUIET.as_secs().div_ceil(cluster.options().renewal.as_secs());
    // A real API server does not count requests.
    let Some(server) = cluster.api_mut().in_this_process() else { return Ok(()) };
    let stats = server.stats();
    let count = |wanted: &dyn Fn(Verb, &str) -> bool| {
        stats.count(|kind| agents.contains(&kind.user) && wanted(kind.verb, &kind.resource))
    };
    let renewed = count(&|verb, resource| verb == Verb::Patch && resource == "leases");
    // Each watch lasts for 30 seconds or more.
    let watched = count(&|verb, _| verb == Verb::Watch);
    let all = count(&|_, _| true);
    let types = 5;
    ensure!(
        renewed <= nodes * (renewals + 2) && watched <= nodes * types && all == renewed + watched,
        "the agents are not quiet: {:#?}",
        stats.requests
    );
    Ok(())
}

/// Returns the only node that has answered for a VIP throughout. Fails if its claim names another.
fn holder_throughout(
    cluster: &Cluster,
    wire: &MonitorReport,
    vip: Ipv4Addr,
    settled: &Settled,
) -> Result<NodeId> {
    let seen = wire.vip(vip)?.between(settled.from, settled.to);
    let holder = cluster.holder(vip)?.with_context(|| format!("the claim of {vip} names no node"))?;
    let macs: BTreeSet<_> = seen.answers_by().into_keys().map(|by| by.sha).collect();
    ensure!(
        seen.answered() > 0 && seen.gaps().is_empty() && macs == BTreeSet::from([holder.mac()]),
        "the claim of {vip} names {holder}, which is to answer alone: {macs:?} did\n{wire}"
    );
    Ok(holder)
}

fn stopped(watch: Watch, monitor: Monitor) -> Result<(vipward_tests::cluster::Seen, MonitorReport)> {
    Ok((watch.stop()?, monitor.stop()?))
}

/// Goes back to a snapshot after some VIPs have changed.
/// Checks that each VIP ends at the right node without a gap.
fn goes_back(name: &str, down: Duration) -> Result<()> {
    scenario(name, ClusterOptions::default(), |cluster| {
        for vip in [UNTOUCHED, MOVED, DELETED] {
            create(cluster, vip)?;
        }
        for vip in [UNTOUCHED, MOVED, DELETED] {
            cluster.wait_until_held(vip)?;
        }
        cluster.wait_until_all_renew()?;
        let Some(saved) = cluster.api().save()? else { return skip_without_backup() };

        let new = move_away(cluster, MOVED)?;
        create(cluster, CREATED)?;
        cluster.wait_until_held(CREATED)?;
        cluster.delete_service(&name_of(DELETED))?;
        cluster.wait_until_gone(DELETED)?;
        let (holder, epoch) = (cluster.wait_until_held(UNTOUCHED)?, cluster.epoch(MOVED)?);
        let marks = mark(cluster)?;
        let watch = cluster.watch(&[UNTOUCHED, MOVED])?;
        let monitor = cluster.monitor(&[CREATED, DELETED])?;

        watch.step("the API server goes back");
        cluster.go_back(&saved, down)?;
        watch.step("it is ready again");
        let settled = settle(cluster, |time| watch.let_pass(time))?;
        let (seen, others) = stopped(watch, monitor)?;

        seen.check_seamless(UNTOUCHED)?;
        seen.check_seamless(MOVED)?;
        assert_eq!(holder_throughout(cluster, &seen.wire, UNTOUCHED, &settled)?, holder);
        assert_eq!(holder_throughout(cluster, &seen.wire, MOVED, &settled)?, new);
        assert!(cluster.epoch(MOVED)? > epoch, "{:?} is no higher than {epoch:?}", cluster.epoch(MOVED)?);
        holder_throughout(cluster, &others, DELETED, &settled)?;
        let created = others.vip(CREATED)?.between(settled.from, settled.to);
        assert_eq!(created.answers_by().len(), 0, "its Service is gone: {others}");
        assert_eq!(cluster.holder(CREATED)?, None);
        check_agents(cluster, &marks)
    })
}

#[test]
fn a_store_that_goes_back_before_the_lease_deadlines_pass_moves_nothing() -> Result<()> {
    goes_back("back", BRIEF)
}

#[test]
fn a_store_that_goes_back_after_the_lease_deadlines_have_passed_moves_nothing() -> Result<()> {
    goes_back("backlong", LONG)
}

#[test]
fn a_store_that_goes_back_to_the_same_state_disturbs_no_vip() -> Result<()> {
    let vips = [UNTOUCHED, MOVED];
    scenario("backnow", ClusterOptions::default(), |cluster| {
        for vip in vips {
            create(cluster, vip)?;
        }
        for vip in vips {
            cluster.wait_until_held(vip)?;
        }
        cluster.wait_until_all_renew()?;
        let state = |cluster: &Cluster| -> Result<_> {
            let claims = vips.map(|vip| Ok((cluster.holder(vip)?, cluster.epoch(vip)?)));
            let sessions = cluster.ids().into_iter().map(|id| cluster.session(id));
            Ok((claims.into_iter().collect::<Result<Vec<_>>>()?, sessions.collect::<Result<Vec<_>>>()?))
        };
        let before = state(cluster)?;
        let marks = mark(cluster)?;
        let watch = cluster.watch(&vips)?;
        let Some(saved) = cluster.api().save()? else { return skip_without_backup() };

        watch.step("the API server goes back to what it has just saved");
        cluster.go_back(&saved, BRIEF)?;
        watch.step("it is ready again");
        let settled = settle(cluster, |time| watch.let_pass(time))?;
        let seen = watch.stop()?;

        for vip in vips {
            seen.check_seamless(vip)?;
            holder_throughout(cluster, &seen.wire, vip, &settled)?;
        }
        assert_eq!(state(cluster)?, before);
        check_agents(cluster, &marks)
    })
}

#[test]
fn an_agent_whose_session_is_younger_than_the_store_goes_on() -> Result<()> {
    let vips = [UNTOUCHED, MOVED];
    scenario("backyoung", ClusterOptions::default(), |cluster| {
        for vip in vips {
            create(cluster, vip)?;
        }
        let lost = cluster.wait_until_held(vips[0])?;
        cluster.wait_until_held(vips[1])?;
        cluster.wait_until_all_renew()?;
        let old = cluster.session(lost)?;
        let Some(saved) = cluster.api().save()? else { return skip_without_backup() };

        cluster.power_off(lost)?;
        for vip in vips {
            cluster.wait_until_held_by_another(vip, lost)?;
        }
        cluster.power_on(lost)?;
        cluster.restart_agent(lost)?;
        let young = cluster.session(lost)?;
        ensure!(young.is_some() && young != old, "{lost} is to have begun a session: {old:?}, {young:?}");
        let marks = mark(cluster)?;
        let monitor = cluster.monitor(&vips)?;

        monitor.note("the API server goes back");
        cluster.go_back(&saved, BRIEF)?;
        monitor.note("it is ready again");
        let settled = settle(cluster, vipward_tests::kit::interrupt::pass)?;
        let seen = monitor.stop()?;

        check_agents(cluster, &marks)?;
        for vip in vips {
            holder_throughout(cluster, &seen, vip, &settled)?;
        }
        cluster.wait_until_renewing(lost)?;
        let now = cluster.session(lost)?;
        assert!(now.is_some() && now != old, "it does not go on with a session that has ended: {now:?}");
        Ok(())
    })
}

#[test]
fn a_node_that_is_younger_than_the_store_makes_its_lease_again_and_keeps_its_vips() -> Result<()> {
    let options = ClusterOptions { start_agents: false, ..ClusterOptions::default() };
    scenario("backnode", options, |cluster| {
        for id in [N1, N2] {
            cluster.start_agent(id)?;
        }
        create(cluster, UNTOUCHED)?;
        create(cluster, MOVED)?;
        let holder = cluster.wait_until_held(UNTOUCHED)?;
        cluster.wait_until_held(MOVED)?;
        for id in [N1, N2] {
            cluster.wait_until_renewing(id)?;
        }
        let Some(saved) = cluster.api().save()? else { return skip_without_backup() };

        cluster.start_agent(N3)?;
        cluster.wait_until_renewing(N3)?;
        move_to(cluster, MOVED, N3)?;
        let session = cluster.session(N3)?;
        let marks = mark(cluster)?;
        let watch = cluster.watch(&[UNTOUCHED, MOVED])?;

        watch.step("the API server goes back");
        cluster.go_back(&saved, BRIEF)?;
        watch.step("it is ready again");
        let settled = settle(cluster, |time| watch.let_pass(time))?;
        let seen = watch.stop()?;

        for (vip, holder) in [(UNTOUCHED, holder), (MOVED, N3)] {
            seen.check_seamless(vip)?;
            assert_eq!(holder_throughout(cluster, &seen.wire, vip, &settled)?, holder);
        }
        let lease = cluster.lease_of(N3)?.with_context(|| format!("{N3} has no Lease"))?;
        cluster.admin().wait_for(PATIENCE, &lease, "to be there", |lease| lease.is_some())?;
        assert_eq!(cluster.session(N3)?, session, "it goes on with its session");
        check_agents(cluster, &marks)
    })
}
