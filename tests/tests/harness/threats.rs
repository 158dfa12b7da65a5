//! docs/threats.md names a test for everything that an adversary cannot do by it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use vipward_tests::kit::tools::in_checkout;

/// Programs in `tests/tests`, and modules of the core, by which a name begins.
const PROGRAMS: [&str; 5] = ["api", "fixtures", "harness", "hosts", "kubernetes"];
const OF_THE_CORE: [&str; 3] = ["ownership", "pools", "services"];
/// What stands for a name: the row before, a fuzz target, or the simulation.
const OTHERWISE: [&str; 6] =
    ["the same", "as [above]", "the latter", "likewise", "fuzz/fuzz_targets", "the simulation"];

/// Returns the Rust files below a directory.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the rows of the tables of what an adversary cannot do, each with its line.
fn cannot_rows(page: &str) -> Vec<(usize, &str)> {
    let mut rows = Vec::new();
    let mut is_inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("| cannot |") {
            is_inside = true;
        } else if !line.starts_with('|') {
            is_inside = false;
        } else if is_inside && !line.starts_with("|---") {
            rows.push((number + 1, line));
        }
    }
    rows
}

/// Returns the names of tests and modules in a text.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| name.contains("::") && !name.contains(['/', ' ']))
}

/// Returns true if a test has this name, or a module with tests.
fn exists(name: &str) -> Result<bool> {
    let parts: Vec<_> = name.split("::").collect();
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    let dir = if PROGRAMS.contains(&first) {
        in_checkout("tests/tests").join(first)
    } else if OF_THE_CORE.contains(&first) {
        in_checkout("agent-core/src").join(first)
    } else {
        // The name of the row before goes on.
        in_checkout("tests/tests")
    };
    let modules = parts[1..parts.len() - 1].iter().filter(|module| !matches!(**module, "tests" | "…"));
    let modules: Vec<_> = modules.collect();
    for path in files(&dir)? {
        let place = path.strip_prefix(&dir)?.with_extension("");
        let has = |module: &str| place.iter().any(|part| part == module);
        if !modules.iter().all(|module| has(module)) {
            continue;
        }
        if has(last) || fs::read_to_string(&path)?.contains(&format!("fn {last}(")) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn everything_that_an_adversary_cannot_do_has_a_test_that_exists() -> Result<()> {
    let page = fs::read_to_string(in_checkout("docs/threats.md"))?;
    let rows = cannot_rows(&page);
    ensure!(rows.len() > 40, "only {} rows are found", rows.len());
    for (number, row) in rows {
        let test = row.trim_end_matches(" |").rsplit(" | ").next().context("a row has cells")?;
        let is_named = names(test).next().is_some() || OTHERWISE.iter().any(|other| test.contains(other));
        ensure!(is_named, "docs/threats.md:{number}: no test is named");
    }
    for name in names(&page).filter(|name| !name.starts_with("program::")) {
        ensure!(exists(name)?, "docs/threats.md names {name}, which does not exist");
    }
    Ok(())
}

#[test]
fn a_name_that_does_not_exist_is_noticed() -> Result<()> {
    for (name, expected) in [
        ("hosts::conflicts::flood", true),
        ("ownership::tests::vacant", true),
        ("hosts::guarding::no_attack_moves_a_held_vip", true),
        ("hosts::guarding::no_attack_moves_a_vip_at_all", false),
        ("hosts::conflicts::no_attack_moves_a_held_vip", false),
        ("ownership::nothing::tests", false),
    ] {
        assert_eq!(exists(name)?, expected, "{name}");
    }
    Ok(())
}
