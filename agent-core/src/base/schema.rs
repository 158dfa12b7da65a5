//! Schemas of texts that come from a closed set of names. docs/reference/json/ has the names.
//!
//! A type of this crate has its schema beside it; the types of `vipward-common` have theirs here.

use schemars::{Schema, SchemaGenerator, json_schema};
use vipward_common::{DeadlineState, EventKind, Outcome, Policy, Proof, WireOutcome};

pub(crate) fn names(names: impl IntoIterator<Item = &'static str>) -> Schema {
    json_schema!({"type": "string", "enum": names.into_iter().collect::<Vec<_>>()})
}

pub(crate) fn or_null(mut schema: Schema) -> Schema {
    schema.insert("type".to_owned(), json_schema!({"type": ["string", "null"]}).as_value()["type"].clone());
    schema
}

pub(crate) fn deadline_states(_: &mut SchemaGenerator) -> Schema {
    names(DeadlineState::ALL.map(DeadlineState::name))
}

pub(crate) fn policies(_: &mut SchemaGenerator) -> Schema {
    names(Policy::ALL.map(Policy::name))
}

pub(crate) fn proofs(_: &mut SchemaGenerator) -> Schema {
    names(Proof::NAMES)
}

/// Returns the kinds of events that the program keeps records about.
pub(crate) fn offences(_: &mut SchemaGenerator) -> Schema {
    use EventKind::{Conflict, Contested, Probed, Sighted};
    names([Conflict, Contested, Sighted, Probed].map(EventKind::name))
}

pub(crate) fn counters(_: &mut SchemaGenerator) -> Schema {
    counts(Outcome::ALL.iter().map(|outcome| outcome.name()))
}

pub(crate) fn wire_counters(_: &mut SchemaGenerator) -> Schema {
    counts(WireOutcome::ALL.iter().map(|outcome| outcome.name()))
}

fn counts(outcomes: impl Iterator<Item = &'static str>) -> Schema {
    let outcomes: Vec<_> = outcomes.collect();
    json_schema!({
        "type": "object",
        "propertyNames": {"enum": outcomes},
        "additionalProperties": {
            "type": "integer",
            "description": "Frames with this outcome (docs/internals/dataplane.md).",
        },
    })
}
