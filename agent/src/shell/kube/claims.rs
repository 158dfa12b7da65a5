//! Claims as objects: a `VirtualIP` read as a [`ClaimRecord`], and a [`ClaimWrite`] as what is sent.
//!
//! A write is a merge patch with the `resourceVersion` that it rests on, which the API server compares and swaps
//! exactly as it does for a whole object. It names our fields only, so that labels, annotations and finalizers of
//! others stay without being remembered here; a field that is to go is `null`. One list cannot be patched in part:
//! the finalizers. [`Known`] has them where they are not just ours.

use std::{collections::BTreeMap, net::Ipv4Addr, sync::Mutex};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use thiserror::Error;

use super::{
    meta::Meta,
    text,
    virtual_ip::{Condition, FINALIZER, MOVE_TO, OfferedBy, Truth, VirtualIpSpec, VirtualIpStatus},
};
use crate::core::{
    cluster::{ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, NodeName, Session, Version},
    ownership::ClaimWrite,
};

#[cfg(test)]
mod tests;

/// Condition: somebody holds it.
const HELD: &str = "Held";
/// Condition: it is not where it is wanted.
const TROUBLE: &str = "Trouble";
/// Condition: somebody else claims it on the segment.
const CONFLICT: &str = "Conflict";

/// Why an object is no claim.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// It is not even an object.
    #[error("it is no VirtualIP")]
    Json(#[from] serde_json::Error),
    /// Its name says no address.
    #[error("its name {name:?} is no IPv4 address")]
    Name {
        /// The name.
        name: String,
    },
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(default)]
    metadata: Meta,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

impl Object<'_> {
    /// The spec. One that is not of its form says no address, but what can be read for people stays.
    fn spec(&self) -> VirtualIpSpec {
        let text = self.spec.map_or("null", RawValue::get);
        serde_json::from_str(text).unwrap_or_else(|_| {
            let legible: Value = serde_json::from_str(text).unwrap_or_default();
            VirtualIpSpec {
                epoch: legible["epoch"].as_i64().unwrap_or_default(),
                services: legible["services"].as_str().unwrap_or_default().to_owned(),
                cause: legible["cause"].as_str().unwrap_or_default().to_owned(),
                ..VirtualIpSpec::default()
            }
        })
    }

    /// The status, likewise.
    fn status(&self) -> VirtualIpStatus {
        let text = self.status.map_or("null", RawValue::get);
        serde_json::from_str(text).unwrap_or_else(|_| {
            let legible: Value = serde_json::from_str(text).unwrap_or_default();
            VirtualIpStatus {
                trouble: legible["trouble"].as_str().map(ToOwned::to_owned),
                ..VirtualIpStatus::default()
            }
        })
    }
}

/// Of the object of a claim, what a write needs beyond its record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub(super) version: Version,
    pub(super) uid: Option<Box<str>>,
    epoch: Epoch,
    /// Those of others and ours, when they are not just ours.
    finalizers: Option<Box<[String]>>,
    held: Option<(Truth, Timestamp)>,
    trouble: Option<(Truth, Timestamp)>,
    conflict: Option<Box<Condition>>,
}

/// What was last seen of each claim's object, whoever has read or written it.
#[derive(Debug, Default)]
pub(super) struct KnownClaims(Mutex<BTreeMap<Ipv4Addr, Known>>);

impl KnownClaims {
    /// Takes note of an object, unless a later one is known.
    pub(super) fn learn(&self, vip: Ipv4Addr, known: Known) {
        let mut all = self.0.lock().expect("invariant: nobody panics with this lock");
        if all.get(&vip).is_none_or(|old| !known.version.is_older_than(&old.version)) {
            all.insert(vip, known);
        }
    }

    /// Takes note that an object is gone.
    pub(super) fn forget(&self, vip: Ipv4Addr) {
        self.0.lock().expect("invariant: nobody panics with this lock").remove(&vip);
    }

    /// The object as it was seen last.
    pub(super) fn latest(&self, vip: Ipv4Addr) -> Option<Known> {
        self.0.lock().expect("invariant: nobody panics with this lock").get(&vip).cloned()
    }

    /// The conflict that the object shows.
    pub(super) fn conflict(&self, vip: Ipv4Addr) -> Option<String> {
        let all = self.0.lock().expect("invariant: nobody panics with this lock");
        let conflict = all.get(&vip)?.conflict.as_deref()?;
        (conflict.status == Truth::True).then(|| conflict.message.clone())
    }
}

/// Reads an object.
///
/// Whatever does not say one thing clearly is [`ClaimState::Blank`]: a holder without a session, a release that names
/// a holder, an address that is not the object's name.
pub(super) fn read(object: &str) -> Result<(ClaimRecord, Known), ClaimError> {
    let object: Object<'_> = serde_json::from_str(object)?;
    let (spec, status) = (object.spec(), object.status());
    let metadata = object.metadata;
    let vip: Ipv4Addr =
        metadata.name.parse().map_err(|_| ClaimError::Name { name: metadata.name.clone() })?;
    let version = Version::from(metadata.resource_version.as_str());
    let epoch = Epoch(spec.epoch.try_into().unwrap_or_default());
    let state = state(&spec, &metadata.name);
    let note = ClaimNote {
        services: text::split_services(&spec.services),
        cause: spec.cause,
        trouble: status.trouble,
    };
    let conditions = status.conditions;
    let since = |kind: &str| {
        let condition = conditions.iter().find(|condition| condition.kind == kind)?;
        Some((condition.status, condition.last_transition_time.parse().ok()?))
    };
    let known = Known {
        version: version.clone(),
        uid: metadata.uid.clone(),
        epoch,
        finalizers: foreign(metadata.finalizers.as_deref().unwrap_or_default()),
        held: since(HELD),
        trouble: since(TROUBLE),
        conflict: conditions.iter().find(|condition| condition.kind == CONFLICT).cloned().map(Box::new),
    };
    let deleting = metadata.is_deleting();
    let move_to = metadata.annotation(MOVE_TO).filter(|node| !node.is_empty()).map(NodeName::from);
    Ok((ClaimRecord { vip, version, epoch, state, deleting, move_to, note }, known))
}

/// `finalizers`, unless they are just ours.
fn foreign(finalizers: &[String]) -> Option<Box<[String]>> {
    let just_ours = finalizers.len() == 1 && finalizers[0] == FINALIZER;
    (!just_ours).then(|| finalizers.into())
}

fn state(spec: &VirtualIpSpec, name: &str) -> ClaimState {
    let names_nobody =
        spec.holder.is_none() && spec.session.is_none() && spec.mac.is_none() && spec.interface.is_none();
    let state = match (spec.released.unwrap_or(false), holder(spec), &spec.offered_by) {
        (true, None, None) if names_nobody => Some(ClaimState::Released),
        (false, Some(holder), None) => Some(ClaimState::Held(holder)),
        (false, Some(to), Some(OfferedBy { node, session })) => Session::parse(session)
            .filter(|_| !node.is_empty())
            .map(|session| ClaimState::Offered { to, from: (node.as_str().into(), session) }),
        (true | false, Some(_) | None, Some(_) | None) => None,
    };
    state.filter(|_| spec.address == name).unwrap_or(ClaimState::Blank)
}

fn holder(spec: &VirtualIpSpec) -> Option<Holder> {
    let named = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    Some(Holder {
        node: named(&spec.holder)?.as_str().into(),
        session: Session::parse(spec.session.as_deref()?)?,
        mac: text::mac(spec.mac.as_deref()?)?,
        interface: named(&spec.interface)?.into(),
    })
}

/// The object that makes a claim.
pub(super) fn creation(write: &ClaimWrite, now: Timestamp) -> Value {
    let mut object = contents(write, None, now);
    without_nulls(&mut object);
    object["apiVersion"] = "vipward.io/v1alpha1".into();
    object["kind"] = "VirtualIP".into();
    object["metadata"] = json!({
        "name": write.vip.to_string(),
        "labels": {super::MANAGED_BY: super::MANAGER},
        "finalizers": [FINALIZER],
    });
    object
}

/// The patch that writes a claim over what `known` is of it.
pub(super) fn patch(write: &ClaimWrite, known: &Known, now: Timestamp) -> Value {
    let mut patch = contents(write, Some(known), now);
    patch["metadata"] = json!({
        "resourceVersion": known.version.as_str(),
        "annotations": {MOVE_TO: null},
    });
    if let Some(finalizers) = &known.finalizers
        && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
    {
        let all = finalizers.iter().map(String::as_str).chain([FINALIZER]);
        patch["metadata"]["finalizers"] = all.collect();
    }
    patch
}

/// The patch that takes our finalizer away.
pub(super) fn letting_go(known: &Known) -> Value {
    let others = known.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER);
    let others: Vec<&String> = others.collect();
    json!({"metadata": {"resourceVersion": known.version.as_str(), "finalizers": others}})
}

/// Whether somebody's finalizer keeps the object besides ours.
pub(super) fn is_kept_by_others(known: &Known) -> bool {
    known.finalizers.iter().flatten().any(|finalizer| finalizer != FINALIZER)
}

/// The patch that tells of a conflict on the segment, or that it is over.
pub(super) fn conflict(
    known: &Known,
    object: &str,
    conflict: Option<&str>,
    now: Timestamp,
) -> Result<Value, ClaimError> {
    let mut conditions = serde_json::from_str::<Object<'_>>(object)?.status().conditions;
    let before = known
        .conflict
        .as_ref()
        .and_then(|condition| Some((condition.status, condition.last_transition_time.parse().ok()?)));
    conditions.retain(|condition| condition.kind != CONFLICT);
    conditions.push(match conflict {
        Some(message) => condition(CONFLICT, Truth::True, "ClaimedByOther", message, before, now),
        None => condition(CONFLICT, Truth::False, "Over", "", before, now),
    });
    Ok(json!({
        "metadata": {"resourceVersion": known.version.as_str()},
        "status": {"conflict": conflict.map(text::message), "conditions": conditions},
    }))
}

/// Spec and status of a write, with `null` for what is not there.
fn contents(write: &ClaimWrite, known: Option<&Known>, now: Timestamp) -> Value {
    let ClaimWrite { vip, expected: _, epoch, state, note, can_wait: _ } = write;
    let holder = state.holder();
    let offered_by = match state {
        ClaimState::Offered { from: (node, session), .. } => {
            Some(OfferedBy { node: node.to_string(), session: session.to_string() })
        }
        ClaimState::Held(_) | ClaimState::Released | ClaimState::Blank => None,
    };
    let mut spec = json!({
        "address": vip,
        "epoch": epoch.0,
        "holder": holder.map(|holder| holder.node.as_str()),
        "session": holder.map(|holder| holder.session.to_string()),
        "mac": holder.map(|holder| holder.mac.to_string()),
        "interface": holder.map(|holder| &*holder.interface),
        "released": (*state == ClaimState::Released).then_some(true),
        "offeredBy": offered_by,
        "services": text::join_services(&note.services),
        "cause": note.cause,
    });
    // It stays what it is while the VIP does.
    let moved = known.is_none_or(|known| known.epoch != *epoch);
    if moved {
        spec["since"] = text::time(now).into();
    }
    let mut conditions = vec![held_condition(write, known, now), trouble_condition(note, known, now)];
    let mut status = json!({"trouble": note.trouble.as_deref().map(text::message)});
    if let Some(conflict) = known.and_then(|known| known.conflict.as_deref()) {
        // What the last holder heard says nothing about the next one, and nobody hears what there is when there is none.
        let let_go = *state == ClaimState::Released
            && known.is_some_and(|known| known.held.is_some_and(|(held, _)| held == Truth::True));
        if (moved || let_go) && conflict.status == Truth::True {
            status["conflict"] = Value::Null;
            conditions.push(condition(CONFLICT, Truth::False, "Moved", "", None, now));
        } else {
            conditions.push(conflict.clone());
        }
    }
    status["conditions"] = json!(conditions);
    json!({"spec": spec, "status": status})
}

fn held_condition(write: &ClaimWrite, known: Option<&Known>, now: Timestamp) -> Condition {
    let note = &write.note;
    let (status, reason) = match &write.state {
        ClaimState::Held(_) => (Truth::True, "Held"),
        ClaimState::Offered { .. } => (Truth::True, "HandingOver"),
        ClaimState::Released => (Truth::False, "Released"),
        ClaimState::Blank => (Truth::False, "Blank"),
    };
    let message = note.trouble.as_ref().filter(|_| status == Truth::False).unwrap_or(&note.cause);
    condition(HELD, status, reason, message, known.and_then(|known| known.held), now)
}

fn trouble_condition(note: &ClaimNote, known: Option<&Known>, now: Timestamp) -> Condition {
    let before = known.and_then(|known| known.trouble);
    match &note.trouble {
        Some(trouble) => condition(TROUBLE, Truth::True, "NotWhereWanted", trouble, before, now),
        None => condition(TROUBLE, Truth::False, "None", "", before, now),
    }
}

fn condition(
    kind: &str,
    status: Truth,
    reason: &str,
    message: &str,
    before: Option<(Truth, Timestamp)>,
    now: Timestamp,
) -> Condition {
    let unchanged = before.filter(|(was, _)| *was == status);
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        message: text::message(message).to_owned(),
        last_transition_time: text::time(unchanged.map_or(now, |(_, since)| since)),
    }
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}
