//! A `VirtualIP` object read as a claim.

use std::{net::IpAddr, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use thiserror::Error;
use vipward_core::records::{
    ClaimNote, ClaimRecord, ClaimState, Epoch, Holder, NoAnswer, NodeName, Reservation, Session, Shows,
    Version, vip_named,
};

use super::{
    conditions::{CONFLICT, HELD, TROUBLE, held_reason, shown_state},
    known::Known,
};
use crate::shell::kube::kinds::{
    condition::{Condition, Truth},
    meta::Meta,
    text,
    virtual_ip::{
        FORCE, FOREVER, MOVE_TO, OfferedBy, RELEASE, ReservationSpec, VirtualIpSpec, VirtualIpStatus,
    },
};

/// Length of the longest name of a node, in bytes.
const MAX_NAME: usize = 253;

/// Reason why an object is no claim.
#[derive(Debug, Error)]
pub enum ClaimError {
    /// Text that is no object, or an object of another type.
    #[error("it is no VirtualIP")]
    Json(#[from] serde_json::Error),
    #[error("its name {name:?} is no address in the form of such names")]
    Name { name: String },
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
    /// Returns the spec. A spec of another form has no address, but keeps the fields that only an
    /// operator reads.
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

    /// Returns the status. A status of another form keeps the fields that only an operator reads.
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

/// Reads an object.
///
/// A claim that contradicts itself is [`ClaimState::Blank`]: a holder without a session, a release
/// that names a holder, another address than the name's.
pub(crate) fn read(object: &str) -> Result<(ClaimRecord, Known), ClaimError> {
    read_with_metadata(object).map(|(record, known, _)| (record, known))
}

pub(crate) fn read_with_metadata(object: &str) -> Result<(ClaimRecord, Known, Meta), ClaimError> {
    let object: Object<'_> = serde_json::from_str(object)?;
    let (spec, status) = (object.spec(), object.status());
    let metadata = object.metadata;
    let vip = vip_named(&metadata.name).ok_or_else(|| ClaimError::Name { name: metadata.name.clone() })?;
    let version = Version::from(metadata.resource_version.as_str());
    let epoch = Epoch(spec.epoch.try_into().unwrap_or_default());
    let state = state(&spec, vip);
    // A claim that a user has edited may name a node without its session.
    let giver = spec.offered_by.as_ref().map(|giver| giver.node.as_str());
    let nodes = spec.holder.as_deref().into_iter().chain(giver).map(NodeName::from).collect();
    let reservation = spec.reservation.as_ref().and_then(reservation).map(Box::new);
    let note = ClaimNote {
        services: text::split_services(&spec.services),
        cause: spec.cause,
        trouble: status.trouble,
    };
    let conditions = status.conditions;
    let of_kind = |kind: &str| conditions.iter().find(|condition| condition.kind == kind);
    let since = |kind: &str| {
        let condition = of_kind(kind)?;
        Some((condition.status, condition.last_transition_time.parse().ok()?))
    };
    let held = of_kind(HELD);
    let word = held.map(|held| held.reason.clone()).unwrap_or_default();
    let unanswered = status.unanswered.map(|message| NoAnswer { word, message });
    let is_consistent = status.state.as_deref() == Some(shown_state(&state, unanswered.as_ref()).name())
        && held.is_some_and(|held| match &unanswered {
            Some(unanswered) => held.status == Truth::False && held.message == unanswered.message,
            None => (held.status, held.reason.as_str()) == held_reason(&state),
        });
    let conflict = of_kind(CONFLICT).cloned().map(Box::new);
    let shown = conflict.as_deref().filter(|conflict| conflict.status == Truth::True);
    let shows = Shows {
        conflict: shown.map(|conflict| conflict.message.clone()),
        unanswered: unanswered.clone(),
        is_torn: !is_consistent,
    };
    let shows = (shows != Shows::default()).then(|| Box::new(shows));
    let uid: Option<Arc<str>> = metadata.uid.as_deref().map(Into::into);
    let known = Known {
        version: version.clone(),
        uid: uid.clone(),
        epoch,
        nodes,
        reservation: reservation.clone(),
        finalizers: metadata.finalizers.as_deref().unwrap_or_default().into(),
        held: since(HELD),
        unanswered: unanswered.map(Box::new),
        trouble: since(TROUBLE),
        conflict,
    };
    let deleting = metadata.is_deleting();
    let move_to = metadata.annotation(MOVE_TO).filter(|node| !node.is_empty());
    let move_to = move_to.map(|node| NodeName::from(text::clipped_bytes(node, MAX_NAME)));
    let is_wished = |wish| metadata.annotation(wish) == Some("true");
    let (force, release) = (is_wished(FORCE), is_wished(RELEASE));
    let record = ClaimRecord {
        vip,
        uid,
        version,
        epoch,
        state,
        deleting,
        move_to,
        force,
        release,
        note,
        reservation,
        shows,
    };
    Ok((record, known, metadata))
}

pub(super) fn conditions(object: &str) -> Result<Vec<Condition>, ClaimError> {
    Ok(serde_json::from_str::<Object<'_>>(object)?.status().conditions)
}

fn state(spec: &VirtualIpSpec, vip: IpAddr) -> ClaimState {
    let names_no_holder =
        spec.holder.is_none() && spec.session.is_none() && spec.mac.is_none() && spec.interface.is_none();
    let state = match (spec.released.unwrap_or(false), holder(spec), &spec.offered_by) {
        (true, None, None) if names_no_holder => Some(ClaimState::Released),
        (false, Some(holder), None) => Some(ClaimState::Held(holder)),
        (false, Some(to), Some(OfferedBy { node, session })) => Session::parse(session)
            .filter(|_| !node.is_empty())
            .map(|session| ClaimState::Offered { to, from: (node.as_str().into(), session) }),
        (true | false, Some(_) | None, Some(_) | None) => None,
    };
    state.filter(|_| spec.address == vip.to_string()).unwrap_or(ClaimState::Blank)
}

/// Returns a reservation. A reservation of another form counts as none.
fn reservation(spec: &ReservationSpec) -> Option<Reservation> {
    let [service] = &text::split_services(&spec.service)[..] else { return None };
    let kept = spec.kept_until.as_deref().map(|until| match until {
        FOREVER => None,
        // An unreadable time frees nothing.
        time => time.parse::<Timestamp>().ok().map(Timestamp::as_second),
    });
    Some(Reservation { service: service.clone(), pool: spec.pool.as_deref().map(Into::into), kept })
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
