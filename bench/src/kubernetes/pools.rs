//! The controller's work: thousands of Services that request an address at once, and single ones.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    bare::{AT_ONCE, manifest},
    objects,
    scene::{MEANWHILE, segment},
};
use crate::{
    host::peak_resident_bytes,
    report::{Group, Item, Limit, MIB, Options, Report, Samples, Unit, push_time},
};
use vipward_tests::{
    cluster::{Cluster, ClusterOptions, Kind, N1, Object, SEGMENT},
    kit::interrupt,
};

const GROUP: Group = Group::Pools;
/// Services that request an address at once, and one after the other.
const WHOLE: (u32, u32) = (10_000, 200);
const QUICK: (u32, u32) = (1_000, 50);
/// The pool, with an address for each of them.
const POOL: &str = "10.64.1.0-10.64.250.255";
/// Longest wait for all of them.
const LIMIT: Duration = Duration::from_mins(5);
/// The field manager of Vipward's statuses.
const MANAGER: &str = "vipward";
const CONTROLLER: u8 = 1;
/// The last number of the node's address.
const N1_HOST: u8 = 11;

/// Measures everything, prints the table to stdout, and writes the file. Returns how many bars were
/// missed.
pub(crate) fn run(options: &Options, services: Option<u32>) -> Result<usize> {
    let started = Instant::now();
    let (all, singles) = if options.quick { QUICK } else { WHOLE };
    let all = services.unwrap_or(all);
    let mut report = Report::begin(options)?;
    let progress = |what: &str| eprintln!("[{:>3} s] {what}", started.elapsed().as_secs());
    progress("the cluster and its Services");
    let cluster = ClusterOptions { start_agents: false, ..ClusterOptions::default() };
    let mut cluster = Cluster::start("scale", cluster)?;
    let namespace = cluster.namespace().to_owned();
    let service = |number| objects::service_without_vip(number, &namespace);
    let services: Vec<_> = (0..all).map(service).collect();
    cluster.admin().create_all("package-manager", &services, MEANWHILE)?;
    // A status names an address of a node's segment. A dead node's Lease still lists the segment.
    cluster.member(N1)?.host.add_address(SEGMENT, segment(N1_HOST)?)?;
    cluster.start_agent(N1)?;
    cluster.wait_until_renewing(N1)?;
    cluster.member_mut(N1)?.agent_mut()?.signal(Signal::SIGKILL)?;
    cluster.start_controller(CONTROLLER, &[])?;
    wait_for_leader(&cluster)?;

    progress("all Services ask at once");
    let took = request_at_once(&mut cluster, &services)?;
    progress("one Service asks after the other");
    let single = request_singly(&cluster, (0..singles).map(|number| service(all + number)))?;
    let pid = cluster.controller(CONTROLLER)?.pid();
    let memory = peak_resident_bytes(pid)?;
    cluster.kill_controller(CONTROLLER)?;
    progress("a bare client does the same writes");
    let bare = bare(&cluster, all)?;

    let most = 1.2 * bare.as_secs_f64() + 2.0;
    push_time(
        &mut report,
        GROUP,
        &format!("{all} Services, from the pool until their statuses"),
        took,
        Some(most),
    );
    push_time(&mut report, GROUP, "a bare client that does the same writes", bare, None);
    let ratio = took.as_secs_f64() / bare.as_secs_f64();
    report.push(Item::new(GROUP, "controller ÷ bare client", Unit::Ratio, &ratio.into()));
    let name = format!("{singles} Services, each from its creation until its status, median");
    report.push(Item::new(GROUP, name, Unit::Seconds, &single));
    let p99 = Item::new(GROUP, "99th percentile", Unit::Seconds, &single.percentile(99).into());
    report.push(p99.bar(Limit::AtMost(0.1)));
    let item =
        Item::new(GROUP, "peak resident memory of the controller (VmHWM)", Unit::Bytes, &memory.into());
    report.push(item.bar(Limit::AtMost(64.0 * MIB)));
    report.finish(started, options, "pools.json")
}

fn wait_for_leader(cluster: &Cluster) -> Result<()> {
    let lease = Object::within(Kind::LEASE, cluster.system_namespace(), "vipward-controller");
    cluster.admin().wait_for(LIMIT, &lease, "to have a holder", |lease| {
        lease.is_some_and(|lease| lease["spec"]["holderIdentity"].as_str().is_some_and(|it| !it.is_empty()))
    })?;
    Ok(())
}

/// Creates the pool. Returns the time until each Service has a status.
fn request_at_once(cluster: &mut Cluster, services: &[Value]) -> Result<Duration> {
    let changes = cluster.admin().changes(Kind::SERVICE, Some(cluster.namespace()))?;
    let begun = SystemTime::now();
    cluster.put_pool("bench", &json!({"addresses": [POOL]}))?;
    let mut waiting: BTreeSet<_> = services.iter().filter_map(name).collect();
    let mut last = begun;
    while !waiting.is_empty() {
        interrupt::check()?;
        let what = format!("{} statuses", waiting.len());
        let change = changes.wait_for(LIMIT, &what, has_address)?;
        let new = name(&change.object).is_some_and(|name| waiting.remove(&name));
        last = if new { change.at } else { last };
    }
    last.duration_since(begun).context("a status came before the pool")
}

/// Creates one Service after the other. Returns the times until their statuses.
fn request_singly(cluster: &Cluster, services: impl Iterator<Item = Value>) -> Result<Samples> {
    let changes = cluster.admin().changes(Kind::SERVICE, Some(cluster.namespace()))?;
    let mut times = Vec::new();
    for service in services {
        interrupt::check()?;
        let begun = SystemTime::now();
        cluster.admin().create(&service)?;
        let is_it = |object: &Value| name(object) == name(&service) && has_address(object);
        let change = changes.wait_for(LIMIT, "a status", is_it)?;
        times.push(change.at.duration_since(begun).context("the clock was set")?.as_secs_f64());
    }
    Ok(times.into_iter().collect())
}

/// Returns the time that a bare client takes to write the first `number` reservations and statuses as the
/// controller has written them. Of several numbers of requests at a time, the fastest counts.
fn bare(cluster: &Cluster, number: u32) -> Result<Duration> {
    let admin = cluster.admin();
    let number = usize::try_from(number)?;
    let claims = admin.list(Kind::VIRTUAL_IP, None)?.into_iter().map(manifest).collect::<Vec<_>>();
    ensure!(claims.len() >= number, "there are {} reservations", claims.len());
    let objects: Vec<Object> = claims.iter().map(Object::of).collect::<Result<_>>()?;
    let services = admin.list(Kind::SERVICE, Some(cluster.namespace()))?;
    let statuses = services.iter().filter(|service| has_address(service));
    let mut statuses: Vec<_> =
        statuses.map(|it| Ok((Object::of(it)?, json!({"status": it["status"]})))).collect::<Result<_>>()?;
    statuses.truncate(number);
    let empty: Vec<_> = statuses
        .iter()
        .map(|(object, _)| (object.clone(), json!({"status": {"loadBalancer": {"ingress": null}}})))
        .collect();
    let mut fastest = None;
    for at_once in AT_ONCE {
        interrupt::check()?;
        admin.delete_all_for_good(&objects, MEANWHILE)?;
        admin.merge_statuses(MANAGER, &empty, MEANWHILE)?;
        let begun = Instant::now();
        admin.create_all(MANAGER, &claims[..number], at_once)?;
        admin.merge_statuses(MANAGER, &statuses, at_once)?;
        let took = begun.elapsed();
        fastest = Some(fastest.map_or(took, |fastest: Duration| fastest.min(took)));
    }
    fastest.context("invariant: there are several numbers")
}

fn name(service: &Value) -> Option<String> {
    service["metadata"]["name"].as_str().map(ToOwned::to_owned)
}

fn has_address(service: &Value) -> bool {
    service.pointer("/status/loadBalancer/ingress/0/ip").is_some()
}
