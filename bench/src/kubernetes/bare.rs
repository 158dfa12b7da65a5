//! A bare client that creates the same claims as the agents: what the API server itself needs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::scene::{MEANWHILE, Scene};
use crate::report::{Group, Item, Report, Unit, count, push_time};
use vipward_tests::cluster::{NodeId, Object};

/// Numbers of requests at a time. The fastest run counts.
pub(super) const AT_ONCE: [usize; 3] = [4, 12, 32];
/// Number of claims with which each of them is tried first, if there are many.
const TRIED: usize = 1_000;
/// Fields that the API server sets.
const OF_THE_SERVER: [&str; 5] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

/// Measures the creation of all claims with the bodies that the agents have written, and holds the
/// cold start against it. No agent runs.
pub(super) fn measure(scene: &mut Scene, report: &mut Report) -> Result<()> {
    const GROUP: Group = Group::Bare;
    scene.stop_agents()?;
    let node = *scene.cluster.ids().last().context("a cluster has nodes")?;
    let claims = bodies(scene, node)?;
    ensure!(!claims.is_empty(), "the agents have created no claims");
    let tried = &claims[..claims.len().min(TRIED)];
    let mut fastest: Option<(Duration, usize)> = None;
    for at_once in AT_ONCE {
        let took = create(scene, node, tried, at_once)?;
        let rate = count(tried.len())? / took.as_secs_f64();
        let name = format!("claims that a bare client creates, {at_once} at a time");
        report.push(Item::new(GROUP, &name, Unit::PerSecond, &rate.into()));
        if fastest.is_none_or(|(fastest, _)| took < fastest) {
            fastest = Some((took, at_once));
        }
    }
    let (mut took, at_once) = fastest.context("invariant: there are several numbers")?;
    if tried.len() < claims.len() {
        took = create(scene, node, &claims, at_once)?;
    }
    push_time(report, GROUP, &format!("all claims, {at_once} at a time"), took, None);
    let cold = scene.cold.context("the cold start was not measured")?;
    let bar = 1.2 * took.as_secs_f64() + 1.0;
    push_time(report, Group::ColdStart, "all answered; at most 1.2 × the bare client + 1 s", cold, Some(bar));
    let ratio = cold.as_secs_f64() / took.as_secs_f64();
    report.push(Item::new(GROUP, "cold start ÷ bare client", Unit::Ratio, &ratio.into()));
    Ok(())
}

/// Returns the manifests that create the claims again, for one node: an agent may write no others.
/// Removes the claims.
fn bodies(scene: &Scene, node: NodeId) -> Result<Vec<Value>> {
    let mut bodies = Vec::new();
    for mut claim in scene.claims()? {
        claim["spec"]["holder"] = scene.cluster.node_name(node).into();
        bodies.push(manifest(claim));
    }
    remove(scene, &bodies)?;
    Ok(bodies)
}

/// Returns the manifest that creates an object again.
pub(super) fn manifest(mut object: Value) -> Value {
    if let Value::Object(metadata) = &mut object["metadata"] {
        metadata.retain(|key, _| !OF_THE_SERVER.contains(&key.as_str()));
    }
    object
}

/// Returns the time that a client with the rights of the node's agent takes to create claims.
/// Removes them.
fn create(scene: &Scene, node: NodeId, claims: &[Value], at_once: usize) -> Result<Duration> {
    let took = scene.cluster.as_agent(node, |client| {
        let begin = Instant::now();
        client.create_all("vipward", claims, at_once)?;
        Ok(begin.elapsed())
    })?;
    remove(scene, claims)?;
    Ok(took)
}

fn remove(scene: &Scene, claims: &[Value]) -> Result<()> {
    let objects: Vec<Object> = claims.iter().map(Object::of).collect::<Result<_>>()?;
    scene.cluster.admin().delete_all_for_good(&objects, MEANWHILE)
}
