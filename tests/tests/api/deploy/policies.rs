//! The admission policies: tables of legal and illegal writes, by the rules of
//! docs/threats.md.

mod claims;
mod engine;
mod leases;
mod others;
mod reservations;

use anyhow::{Context, Result};
use serde_json::Value;

use engine::{Policies, Write};

/// A description, the write, and a part of the only message with which it is refused, if it is.
type Row = (&'static str, Write, Option<&'static str>);

/// Checks each row. A write that is refused is refused for one reason.
fn check(rows: &[Row]) -> Result<()> {
    let policies = Policies::load()?;
    for (description, write, expected) in rows {
        let refusals = policies.refusals(write).with_context(|| format!("{description}: {write:#?}"))?;
        let is_expected = match expected {
            None => refusals.is_empty(),
            Some(part) => refusals.len() == 1 && refusals[0].contains(part),
        };
        assert!(is_expected, "{description}: {refusals:?}, not {expected:?}: {write:#?}");
    }
    Ok(())
}

/// Returns `object` after a merge patch.
fn patched(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    json_patch::merge(&mut object, patch);
    object
}
