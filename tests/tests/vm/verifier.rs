//! Every program on this kernel.

use anyhow::Result;
use serde_json::json;
use vipward_tests::{
    lan::vm::Machine,
    oracle::verifier::{check, kernel, load_all},
};

#[test]
#[ignore = "runs in a virtual machine: `cargo xtask vm`"]
fn every_program_loads_within_its_budget() -> Result<()> {
    let (machine, kernel) = (Machine::here()?, kernel()?);
    let counts = load_all()?;
    for ((object, program), count) in &counts {
        let row = json!({"kernel": kernel, "object": object, "program": program, "instructions": count});
        machine.report(&row)?;
    }
    check(&kernel, &counts)
}
