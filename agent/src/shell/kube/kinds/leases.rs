//! Leases as objects: reading one as a [`LeaseRecord`], and sending a [`LeaseWrite`].
//!
//! A node's Lease has the node's name, and is in the agents' namespace. A write is a merge patch with
//! the `resourceVersion` that it rests on, as for claims. A node writes the whole of its own Lease. In
//! another node's Lease it only ends sessions: the admission policies refuse more.

use std::{
    collections::BTreeMap,
    str::FromStr,
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vipward_core::{
    base::pattern::InterfaceName,
    ownership::LeaseWrite,
    records::{LeaseRecord, MOST_ENDED, NodeInterface, NodeName, Proxy, Room, Session, Version},
};

use super::{
    meta::{MANAGED_BY, Meta},
    text,
};
use crate::shell::kube::link::call::MANAGER;

mod offer;
#[cfg(test)]
mod tests;

/// The annotation with the exact lease duration; `leaseDurationSeconds` has it rounded up.
const DURATION: &str = "vipward.io/duration";
/// The annotation with the last sessions that have ended, separated by commas.
const ENDED: &str = "vipward.io/ended";
/// The Lease by which the controllers elect their leader. It is no node's.
pub(crate) const LEADER: &str = "vipward-controller";
/// `IFNAMSIZ` less the terminating zero. An alternative name may be longer.
const NAME_BYTES: usize = 15;
const INTERFACES: &str = "vipward.io/interfaces";
/// The annotation of a node that leaves.
const LEAVING: &str = "vipward.io/leaving";
/// The annotation with the node's offer of the failure detector.
const WIRE: &str = "vipward.io/wire";
/// The annotation with the state of the node's service proxy.
const PROXY: &str = "vipward.io/proxy";

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Meta,
    #[serde(default)]
    spec: Value,
}

/// An interface in the annotation.
#[derive(Serialize, Deserialize)]
struct InterfaceText {
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    altnames: Vec<String>,
    mac: String,
    subnets: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bound: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<String>,
    carrier: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    last_for: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unreached: Vec<String>,
}

/// The parts of a Lease that a write needs for the fields that only an operator reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Known {
    session: Option<Session>,
    transitions: i64,
}

/// The last known state of each node's Lease.
#[derive(Debug, Default)]
pub(crate) struct KnownLeases(Mutex<BTreeMap<NodeName, Known>>);

impl KnownLeases {
    pub(crate) fn learn(&self, node: &NodeName, known: Known) {
        self.0.lock().expect("invariant: no thread panics with this lock").insert(node.clone(), known);
    }

    pub(crate) fn forget(&self, node: &NodeName) {
        self.0.lock().expect("invariant: no thread panics with this lock").remove(node);
    }

    pub(crate) fn latest(&self, node: &NodeName) -> Option<Known> {
        self.0.lock().expect("invariant: no thread panics with this lock").get(node).cloned()
    }
}

#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) record: LeaseRecord,
    pub(crate) known: Known,
    /// True if an agent has written it: the namespace may have other Leases.
    pub(crate) is_ours: bool,
    /// True if it is [`LEADER`], and names a controller.
    pub(crate) leads: bool,
}

/// Reads an object.
///
/// A Lease that names no session of its node, or has no duration, is blank. It does not count as
/// renewed, and its owner writes it again.
pub(crate) fn read(object: &str) -> Result<Read, serde_json::Error> {
    let Object { metadata, spec } = serde_json::from_str(object)?;
    let node = NodeName::from(metadata.name.as_str());
    let duration = duration(&metadata, &spec);
    let session = spec["holderIdentity"]
        .as_str()
        .and_then(|identity| identity.rsplit_once('/'))
        .filter(|(holder, _)| *holder == metadata.name)
        .and_then(|(_, session)| Session::parse(session))
        .filter(|_| duration.is_some());
    let ended = metadata.annotation(ENDED).unwrap_or_default();
    let is_ours = metadata.label(MANAGED_BY) == Some(MANAGER)
        || metadata.annotation(DURATION).is_some()
        || session.is_some();
    let record = LeaseRecord {
        node,
        version: Version::from(metadata.resource_version.as_str()),
        session,
        ended: ended.split(',').filter_map(|session| Session::parse(session.trim())).collect(),
        duration: duration.unwrap_or_default(),
        interfaces: metadata.annotation(INTERFACES).and_then(interfaces).unwrap_or_default(),
        leaving: metadata.annotation(LEAVING) == Some("true"),
        wire: metadata.annotation(WIRE).and_then(offer::read),
        proxy: metadata.annotation(PROXY).and_then(Proxy::parse),
    };
    let known = Known { session, transitions: spec["leaseTransitions"].as_i64().unwrap_or_default() };
    let leads = metadata.name == LEADER && spec["holderIdentity"].as_str().is_some_and(|it| !it.is_empty());
    Ok(Read { record, known, is_ours, leads })
}

fn duration(metadata: &Meta, spec: &Value) -> Option<Duration> {
    let seconds = spec["leaseDurationSeconds"].as_u64().map(Duration::from_secs)?;
    let exact = humantime::parse_duration(metadata.annotation(DURATION)?).ok()?;
    // If they differ, a user has edited one of them, and neither counts.
    (!exact.is_zero() && rounded_up(exact) == seconds.as_secs()).then_some(exact)
}

fn rounded_up(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

fn interfaces(text: &str) -> Option<Vec<NodeInterface>> {
    let interfaces: Vec<InterfaceText> = serde_json::from_str(text).ok()?;
    // Another version, or a user, may have written a longer list. It must not reserve every address.
    let mut room = Room::default();
    let name_of = |text: &String| Some(Arc::<str>::from(InterfaceName::parse(text).ok()?.as_str()));
    let read = |text: InterfaceText| {
        let InterfaceText { name, altnames, mac, subnets, bound, gateways, carrier, last_for, unreached } =
            text;
        Some(room.limit(NodeInterface {
            name: name_of(&name).filter(|name| name.len() <= NAME_BYTES)?,
            altnames: altnames.iter().filter_map(name_of).collect(),
            mac: text::mac(&mac)?,
            subnets: parsed(&subnets),
            bound: parsed(&bound),
            gateways: parsed(&gateways),
            carrier,
            last_for: parsed(&last_for),
            unreached: parsed(&unreached),
        }))
    };
    Some(interfaces.into_iter().filter_map(read).collect())
}

fn parsed<T: FromStr>(texts: &[String]) -> Vec<T> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// Returns the object that creates this node's Lease. With `node_uid`, it is deleted with the Node.
pub(crate) fn creation(write: &LeaseWrite, node_uid: Option<&str>, now: Timestamp) -> Value {
    let mut object = contents(write, None, now);
    object["apiVersion"] = "coordination.k8s.io/v1".into();
    object["kind"] = "Lease".into();
    object["metadata"]["name"] = write.node.as_str().into();
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|_, value| !value.is_null());
    }
    if let Some(uid) = node_uid {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Node", "name": write.node.as_str(), "uid": uid}]);
    }
    object
}

/// Returns the patch that writes this node's Lease over the one at
/// `version`. `known` is its last known state.
pub(crate) fn patch(write: &LeaseWrite, version: &Version, known: Option<&Known>, now: Timestamp) -> Value {
    let mut patch = contents(write, known, now);
    patch["metadata"]["resourceVersion"] = version.as_str().into();
    patch
}

/// Returns the object that creates the missing Lease of another node, with its ended sessions only.
/// It has no owner: an object whose owner's uid is wrong would be deleted.
pub(crate) fn creation_ended(write: &LeaseWrite) -> Value {
    let mut object = ending(write);
    object["apiVersion"] = "coordination.k8s.io/v1".into();
    object["kind"] = "Lease".into();
    object["metadata"]["name"] = write.node.as_str().into();
    object
}

/// Returns the patch that ends sessions in the Lease of another node at `version`. It removes
/// `renewTime`, so that no node can write there again before the owner has renewed the Lease. Otherwise
/// each write would look like a renewal.
pub(crate) fn patch_ended(write: &LeaseWrite, version: &Version) -> Value {
    let mut patch = ending(write);
    patch["metadata"]["resourceVersion"] = version.as_str().into();
    patch["spec"] = json!({"renewTime": null});
    if write.session.is_none() {
        patch["spec"]["holderIdentity"] = Value::Null;
    }
    patch
}

fn ending(write: &LeaseWrite) -> Value {
    // The owner shortens the list when it renews the Lease.
    json!({"metadata": {"labels": {(MANAGED_BY): MANAGER}, "annotations": {ENDED: listed(&write.ended)}}})
}

fn listed(sessions: &[Session]) -> String {
    sessions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn contents(write: &LeaseWrite, known: Option<&Known>, now: Timestamp) -> Value {
    let LeaseWrite { node, expected: _, session, ended, duration, interfaces, leaving, wire, proxy } = write;
    let interfaces: Vec<InterfaceText> = interfaces
        .iter()
        .map(
            |NodeInterface {
                 name,
                 altnames,
                 mac,
                 subnets,
                 bound,
                 gateways,
                 carrier,
                 last_for,
                 unreached,
             }| {
                InterfaceText {
                    name: name.to_string(),
                    altnames: altnames.iter().map(ToString::to_string).collect(),
                    mac: mac.to_string(),
                    subnets: subnets.iter().map(ToString::to_string).collect(),
                    bound: bound.iter().map(ToString::to_string).collect(),
                    gateways: gateways.iter().map(ToString::to_string).collect(),
                    carrier: *carrier,
                    last_for: last_for.iter().map(ToString::to_string).collect(),
                    unreached: unreached.iter().map(ToString::to_string).collect(),
                }
            },
        )
        .collect();
    let interfaces =
        serde_json::to_string(&interfaces).expect("invariant: names, numbers and texts are JSON");
    let latest = &ended[ended.len().saturating_sub(MOST_ENDED)..];
    let mut spec = json!({
        // Without a session there is no holder, not an empty one.
        "holderIdentity": session.map(|session| format!("{node}/{session}")),
        "leaseDurationSeconds": rounded_up(*duration).max(1),
    });
    if session.is_some() {
        spec["renewTime"] = text::micro_time(now).into();
    }
    let before = known.map(|known| known.session);
    if before != Some(*session) {
        if session.is_some() {
            spec["acquireTime"] = text::micro_time(now).into();
        }
        // The API server's number has 32 bits. A user may have edited it.
        let transitions = known.map_or(0, |known| known.transitions.saturating_add(1));
        spec["leaseTransitions"] = transitions.clamp(0, i32::MAX.into()).into();
    }
    json!({
        "metadata": {
            "labels": {(MANAGED_BY): MANAGER},
            "annotations": {
                DURATION: humantime::format_duration(*duration).to_string(),
                ENDED: listed(latest),
                INTERFACES: interfaces,
                LEAVING: leaving.to_string(),
                // A node that takes no part removes an earlier offer.
                WIRE: wire.as_ref().map(offer::text),
                PROXY: proxy.as_ref().map(ToString::to_string),
            },
        },
        "spec": spec,
    })
}
