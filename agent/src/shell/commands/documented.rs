//! The reference in docs/reference, generated from the code.
//!
//! `VIPWARD_WRITE_DOCS=1 cargo test -p vipward --lib documented` writes the files. Without the
//! variable, the tests compare.

mod commands;
#[cfg(not(feature = "next-layout"))]
mod comments;
mod doctor;
mod json;
#[cfg(not(feature = "next-layout"))]
mod maps;
mod metrics;
mod samples;

use std::{env, fs, path::PathBuf};

const WRITE: &str = "VIPWARD_WRITE_DOCS";
/// The second line of each page.
const GENERATED: &str = "Generated from the code ([how](README.md)).";

fn reference(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference")).join(name)
}

/// Compares a file of the reference with the text from the code.
fn assert_committed(name: &str, text: &str) {
    let path = reference(name);
    if env::var_os(WRITE).is_some() {
        fs::write(&path, text).expect("the file can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == committed,
        "docs/reference/{name} is not what the code says: {WRITE}=1 cargo test -p vipward --lib documented"
    );
}

fn row(cells: &[&str]) -> String {
    assert!(!cells.iter().any(|cell| cell.contains('|')), "a bar ends a cell: {cells:?}");
    format!("| {} |\n", cells.join(" | "))
}

/// Returns the first two lines of a table.
fn head(names: &[&str]) -> String {
    row(names) + &"|---".repeat(names.len()) + "|\n"
}
