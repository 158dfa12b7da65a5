//! Every value that a key with a closed set of them can have, as the types have them.

use std::{collections::BTreeSet, iter};

use bytemuck::{CheckedBitPattern, checked};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use vipward_common::{EventKind, Fence, FenceState, Outcome, Policy, Role};

use crate::{
    core::{doctor::State, net::LinkTrouble, watch::Change},
    shell::status::{FENCE_IS_OVER, fence_status},
};

/// The names of the variants, as serde has them: it lists them when it is given another one.
fn names<T: Deserialize<'static>>(unknown: &'static str) -> Vec<String> {
    let Err(error) = serde_json::from_str::<T>(unknown) else { panic!("{unknown} is known") };
    let (_, expected) = error.to_string().split_once("expected").map(owned).expect("what was expected");
    expected.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn owned((before, after): (&str, &str)) -> (String, String) {
    (before.to_owned(), after.to_owned())
}

/// Every variant of an enum without fields.
fn every<T: DeserializeOwned>() -> Vec<T> {
    let variants = names::<T>("\"?\"").into_iter().map(|name| serde_json::from_value(Value::String(name)));
    variants.collect::<Result<_, _>>().expect("they are its own names")
}

/// Every variant of an enum of the maps.
fn of_the_maps<T: CheckedBitPattern>() -> Vec<T> {
    (0..256_u32).filter_map(|number| checked::try_cast(number).ok()).collect()
}

fn texts(names: impl IntoIterator<Item = &'static str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// What becomes of each variant in JSON.
pub(super) fn serialised<T: DeserializeOwned + Serialize>() -> BTreeSet<String> {
    let text = |value: &T| match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        other => panic!("no text: {other:?}"),
    };
    every().iter().map(text).collect()
}

/// The events of `vipward watch`.
pub(super) fn events() -> BTreeSet<String> {
    names::<Change>(r#"{"event": "?"}"#).into_iter().collect()
}

pub(super) fn states() -> BTreeSet<String> {
    let text = |state: State| serde_json::to_value(state).expect("it serialises");
    State::ALL.map(text).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

pub(super) fn roles() -> BTreeSet<String> {
    texts(of_the_maps::<Role>().into_iter().map(Role::name))
}

/// What the program keeps records of.
pub(super) fn offences() -> BTreeSet<String> {
    let is_recorded = |kind: &EventKind| match kind {
        EventKind::Conflict | EventKind::Contested | EventKind::Sighted | EventKind::Probed => true,
        EventKind::Moved | EventKind::Yielded => false,
    };
    texts(of_the_maps().into_iter().filter(is_recorded).map(EventKind::name))
}

pub(super) fn outcomes() -> BTreeSet<String> {
    texts(Outcome::ALL.iter().map(|outcome| outcome.name()))
}

/// Why a VIP of this node is not answered.
pub(super) fn silences() -> BTreeSet<String> {
    texts(every().into_iter().map(LinkTrouble::name).chain([FENCE_IS_OVER]))
}

fn fence(policy: Policy) -> Fence {
    Fence { deadline_ns: 0, hold_until_ns: 0, yields_settled: 0, session: 0, policy, _pad: 0 }
}

pub(super) fn fence_states() -> BTreeSet<String> {
    let after = |state: &FenceState| match state {
        FenceState::Valid => Some(FenceState::HeldOver),
        FenceState::HeldOver => Some(FenceState::Over),
        FenceState::Over => None,
    };
    let states = iter::successors(Some(FenceState::Valid), after);
    texts(states.map(|state| fence_status(&fence(Policy::Stop), state, 0).state))
}

pub(super) fn policies() -> BTreeSet<String> {
    let policy = |policy| fence_status(&fence(policy), FenceState::Over, 0).policy;
    texts(of_the_maps().into_iter().map(policy))
}
