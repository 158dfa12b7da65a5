//! Schemas of texts that come from a closed set of names. docs/JSON.md lists the names.

use schemars::{Schema, SchemaGenerator, json_schema};
use vipward_common::{EventKind, FenceState, Outcome, Policy};

use crate::{
    answering::{Part, Silence},
    net::InterfaceFault,
    overview::VipState,
};

fn names<const N: usize>(names: [&'static str; N]) -> Schema {
    json_schema!({"type": "string", "enum": names.as_slice()})
}

fn or_null(mut schema: Schema) -> Schema {
    schema.insert("type".to_owned(), json_schema!({"type": ["string", "null"]}).as_value()["type"].clone());
    schema
}

pub(crate) fn fence_states(_: &mut SchemaGenerator) -> Schema {
    names(FenceState::ALL.map(FenceState::name))
}

pub(crate) fn policies(_: &mut SchemaGenerator) -> Schema {
    names(Policy::ALL.map(Policy::name))
}

pub(crate) fn roles(_: &mut SchemaGenerator) -> Schema {
    names(Part::NAMES)
}

pub(crate) fn role_or_null(generator: &mut SchemaGenerator) -> Schema {
    or_null(roles(generator))
}

pub(crate) fn silence_or_null(_: &mut SchemaGenerator) -> Schema {
    let [gone, not_attached, down, no_carrier, other_mac] = InterfaceFault::ALL.map(InterfaceFault::name);
    or_null(names([Silence::Fence.name(), gone, not_attached, down, no_carrier, other_mac]))
}

pub(crate) fn vip_states(_: &mut SchemaGenerator) -> Schema {
    names(VipState::ALL.map(VipState::name))
}

/// Returns the kinds of events that the program keeps records about.
pub(crate) fn offences(_: &mut SchemaGenerator) -> Schema {
    use EventKind::{Conflict, Contested, Probed, Sighted};
    names([Conflict, Contested, Sighted, Probed].map(EventKind::name))
}

pub(crate) fn counters(_: &mut SchemaGenerator) -> Schema {
    let outcomes: Vec<_> = Outcome::ALL.iter().map(|outcome| outcome.name()).collect();
    json_schema!({
        "type": "object",
        "propertyNames": {"enum": outcomes},
        "additionalProperties": {
            "type": "integer",
            "description": "Frames with this outcome ([DATAPLANE.md](DATAPLANE.md)).",
        },
    })
}
