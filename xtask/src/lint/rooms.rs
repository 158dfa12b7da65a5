//! Checks that imports between files run one way, and that folders, lines and structs stay small.
//!
//! Rooms, lowest first. Each imports only rooms above it in this list.
//!
//! - [`source`]: what each file defines and which paths it writes.
//! - [`names`]: the file that defines what a path names, seen through re-exports.
//! - [`circles`]: files that import each other.
//! - [`order`]: rooms that import a later room of their parent's list.
//! - [`sizes`]: folders, lines and structs that are too large.

mod circles;
mod names;
mod order;
mod sizes;
mod source;

use anyhow::{Result, bail};

use self::source::Sources;

/// Fails with the faults of the workspace's Rust files.
pub(super) fn check(sources: &Sources) -> Result<()> {
    let faults = faults(sources)?;
    if faults.is_empty() { Ok(()) } else { bail!("\n{}", faults.join("\n")) }
}

fn faults(sources: &Sources) -> Result<Vec<String>> {
    let crates = source::crates(sources)?;
    let mut faults = Vec::new();
    for tree in &crates {
        faults.extend(circles::faults(&names::arrows(tree, false)));
        faults.extend(order::faults(tree, &names::arrows(tree, true)));
    }
    faults.extend(sizes::folders(sources));
    faults.extend(sizes::lines(sources));
    faults.extend(sizes::structs(&crates));
    Ok(faults)
}

#[cfg(test)]
mod tests;
