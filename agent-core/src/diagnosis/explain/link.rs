//! The links of the chain, in order: the subjects of the steps. docs/commands.md states what each
//! inspects.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    base::schema::{names, or_null},
    diagnosis::{doctor, finding::Finding},
};

pub const CLUSTER: &str = "cluster";
pub const SERVICE: &str = "service";
pub const REQUEST: &str = "request";
pub const POOL: &str = "pool";
pub const STATUS: &str = "status";
pub const ADDRESS: &str = "address";
pub const CANDIDATES: &str = "candidates";
pub const CLAIM: &str = "claim";
pub const SESSION: &str = "session";
pub const CONFIG: &str = "config";
pub const PLACEMENT: &str = "placement";
pub const ENTRY: &str = "entry";
pub const ATTACHED: &str = "attached";
pub const LEASE_DEADLINE: &str = doctor::LEASE_DEADLINE;
pub const BOUND: &str = "bound";
pub const SEGMENT: &str = "segment";

/// All of them, in order.
pub(super) const ALL: [&str; 16] = [
    CLUSTER,
    SERVICE,
    REQUEST,
    POOL,
    STATUS,
    ADDRESS,
    CANDIDATES,
    CLAIM,
    SESSION,
    CONFIG,
    PLACEMENT,
    ENTRY,
    ATTACHED,
    LEASE_DEADLINE,
    BOUND,
    SEGMENT,
];

/// Returns the schema of one of them, or of null.
pub(super) fn name_or_null(_: &mut SchemaGenerator) -> Schema {
    or_null(names(ALL))
}

/// Returns the schema of steps, with these subjects.
pub(super) fn steps(generator: &mut SchemaGenerator) -> Schema {
    let mut step = Finding::json_schema(generator);
    if let Some(subject) = step.pointer_mut("/properties/subject") {
        subject["enum"] = ALL.as_slice().into();
    }
    json_schema!({"type": "array", "items": step})
}
