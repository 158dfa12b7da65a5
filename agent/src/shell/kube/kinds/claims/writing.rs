//! The JSON of a claim: the object that creates it, and the patches that change it.
//!
//! A write is a merge patch with the `resourceVersion` that it rests on. The API server compares
//! and swaps, as it does for a whole object. The patch names the agents' fields only, so that
//! labels, annotations and finalizers of others stay. A `null` removes a field.
//!
//! A claim has no finalizer of the agents: a definition that is deleted with everything else would
//! wait for agents that are gone. Builds before wrote one, which the next write removes.

use std::net::IpAddr;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use vipward_core::{
    base::legible,
    ownership::{ClaimWrite, Expected},
    records::{ClaimNote, ClaimRecord, ClaimState, Epoch, NoAnswer, NodeName, Reservation, object_name},
    reports::claim_findings::{Before, Finding, Kept},
};

use super::{
    conditions::{CONFLICT, condition, held_condition, shown_state, trouble_condition},
    known::Known,
    reading::{self, ClaimError},
};
use crate::shell::kube::{
    kinds::{
        condition::Truth,
        meta::{MANAGED_BY, VERSION},
        text,
        virtual_ip::{FINALIZER, FOREVER, MOVE_TO, OfferedBy, RELEASE, ReservationSpec},
    },
    link::call::MANAGER,
};

/// Returns the object that creates a claim.
pub(crate) fn creation(write: &ClaimWrite, now: Timestamp) -> Value {
    let mut object = contents(write, None, now);
    without_nulls(&mut object);
    object["apiVersion"] = VERSION.into();
    object["kind"] = "VirtualIP".into();
    object["metadata"] = json!({
        "name": object_name(write.vip),
        "labels": {(MANAGED_BY): MANAGER},
    });
    object
}

/// Returns the patch that writes a claim over the known one.
pub(crate) fn patch(write: &ClaimWrite, known: &Known, now: Timestamp) -> Value {
    let mut patch = contents(write, Some(known), now);
    patch["metadata"] = json!({
        "resourceVersion": known.version.as_str(),
        "annotations": {MOVE_TO: null},
    });
    if has_finalizer(known) {
        patch["metadata"]["finalizers"] = json!(foreign_finalizers(known));
    }
    patch
}

/// Returns the object that reserves an address which has none.
pub(crate) fn reserving(vip: IpAddr, reservation: &Reservation, now: Timestamp) -> Value {
    let note = ClaimNote {
        services: vec![reservation.service.clone()],
        cause: "its address is reserved".to_owned(),
        trouble: None,
    };
    let (expected, epoch, state) = (Expected::Absent, Epoch(0), ClaimState::Released);
    let mut object = creation(&ClaimWrite { vip, expected, epoch, state, note, can_wait: true }, now);
    object["spec"]["reservation"] = reservation_spec(reservation);
    object
}

/// Returns the patch that writes a reservation over the known object, or removes it with the request to
/// release it.
pub(crate) fn reservation(reservation: Option<&Reservation>, known: &Known) -> Value {
    let mut metadata = json!({"resourceVersion": known.version.as_str()});
    if reservation.is_none() {
        metadata["annotations"] = json!({(RELEASE): null});
    }
    // A merge would leave the fields of the reservation before.
    let mut spec = reservation.map_or(Value::Null, reservation_spec);
    if let Value::Object(fields) = &mut spec {
        for field in ["pool", "keptUntil"] {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    json!({"metadata": metadata, "spec": {"reservation": spec}})
}

fn reservation_spec(reservation: &Reservation) -> Value {
    let kept_until = |kept: Option<i64>| {
        let time = kept.and_then(|seconds| Timestamp::from_second(seconds).ok());
        time.map_or_else(|| FOREVER.to_owned(), text::time)
    };
    json!(ReservationSpec {
        service: reservation.service.to_string(),
        pool: reservation.pool.as_deref().map(str::to_owned),
        kept_until: reservation.kept.map(kept_until),
    })
}

/// Returns the patch that the agent of `node` needs before it may delete a claim, if any. It releases
/// a claim that names other nodes only, such as a dead one: the admission policies let no agent
/// delete a claim that another node has.
pub(crate) fn letting_go(known: &Known, node: &NodeName) -> Option<Value> {
    let is_of_others = !known.nodes.is_empty() && !known.nodes.contains(node);
    if !is_of_others && !has_finalizer(known) {
        return None;
    }
    let others = foreign_finalizers(known);
    let mut patch = json!({"metadata": {"resourceVersion": known.version.as_str(), "finalizers": others}});
    if is_of_others {
        patch["spec"] = json!({
            "holder": null, "session": null, "mac": null, "interface": null, "offeredBy": null, "released": true,
        });
    }
    Some(patch)
}

/// Returns true if another finalizer than the agents' keeps the object.
pub(crate) fn is_kept_by_others(known: &Known) -> bool {
    !foreign_finalizers(known).is_empty()
}

fn has_finalizer(known: &Known) -> bool {
    known.finalizers.iter().any(|finalizer| finalizer == FINALIZER)
}

fn foreign_finalizers(known: &Known) -> Vec<&String> {
    known.finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect()
}

/// Returns the patch that shows a node's finding.
/// Returns `None` if the finding does not concern the claim any more.
pub(crate) fn showing(
    record: &ClaimRecord,
    known: &Known,
    object: &str,
    finding: &Finding,
    now: Timestamp,
) -> Result<Option<Value>, ClaimError> {
    if !finding.concerns(&record.state) {
        return Ok(None);
    }
    let mut conditions = reading::conditions(object)?;
    let (mut status, shown) = match finding {
        Finding::Conflict(conflict) => {
            let before = known
                .conflict
                .as_ref()
                .and_then(|condition| Some((condition.status, condition.last_transition_time.parse().ok()?)));
            let shown = match conflict {
                Some(message) => condition(CONFLICT, Truth::True, "ClaimedByOther", message, before, now),
                None => condition(CONFLICT, Truth::False, "Over", "", before, now),
            };
            (json!({"conflict": conflict.as_deref().map(legible::message)}), shown)
        }
        Finding::Answers(_, unanswered) => {
            let unanswered = unanswered.as_ref().map(NoAnswer::from);
            let status = answers(&record.state, unanswered.as_ref());
            (status, held_condition(&record.state, &record.note, unanswered.as_ref(), known.held, now))
        }
    };
    conditions.retain(|condition| condition.kind != shown.kind);
    conditions.push(shown);
    status["conditions"] = json!(conditions);
    Ok(Some(json!({"metadata": {"resourceVersion": known.version.as_str()}, "status": status})))
}

/// Returns the part of the status about who answers, with `null` for what is absent.
fn answers(state: &ClaimState, unanswered: Option<&NoAnswer>) -> Value {
    json!({
        "state": shown_state(state, unanswered).name(),
        "unanswered": unanswered.map(|unanswered| &unanswered.message),
    })
}

/// Returns spec and status of a write, with `null` for what is absent.
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
    let before = known.map(|known| Before {
        epoch: known.epoch,
        has_holder: known.unanswered.is_some() || known.held.is_some_and(|(held, _)| held == Truth::True),
    });
    let kept = Kept::by_write(state, *epoch, before);
    if !kept.place {
        spec["since"] = text::time(now).into();
    }
    let unanswered = known.filter(|_| kept.answers).and_then(|known| known.unanswered.as_deref());
    let held = held_condition(state, note, unanswered, known.and_then(|known| known.held), now);
    let mut conditions = vec![held, trouble_condition(note, known, now)];
    let mut status = answers(state, unanswered);
    status["trouble"] = json!(note.trouble.as_deref().map(text::finding));
    if let Some(conflict) = known.and_then(|known| known.conflict.as_deref()) {
        if !kept.conflict && conflict.status == Truth::True {
            status["conflict"] = Value::Null;
            conditions.push(condition(CONFLICT, Truth::False, "Moved", "", None, now));
        } else {
            conditions.push(conflict.clone());
        }
    }
    status["conditions"] = json!(conditions);
    json!({"spec": spec, "status": status})
}

fn without_nulls(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(without_nulls);
    }
}
