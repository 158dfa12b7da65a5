//! Statements that several pages share: they are the same on each.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{in_checkout, read};

/// The pages' allowance for the API server's work in a failover.
const REQUESTS: Duration = Duration::from_millis(500);
/// The pages that state the duration of a failover with the default flags.
const ABOUT_FAILOVERS: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "docs/COMPARISON.md",
    "docs/KUBERNETES.md",
    "docs/OWNERSHIP.md",
    "docs/PERFORMANCE.md",
    "docs/RUNBOOKS.md",
    "docs/SCALE.md",
    "docs/migrating/from-kube-vip.md",
    "docs/migrating/from-metallb.md",
];

/// Returns the default of a flag in the table of flags.
fn default_of(page: &str, flag: &str) -> Result<Duration> {
    let row = page.lines().find(|line| line.starts_with(&format!("| `{flag} ")));
    let cell = row.and_then(|row| row.split('|').nth(2)).with_context(|| format!("no row of {flag}"))?;
    humantime::parse_duration(cell.trim().trim_matches('`')).with_context(|| format!("{flag}: {cell}"))
}

/// Returns the time from the crash until the next holder answers.
///
/// A node is deposed when its Lease has stood unchanged for lease and margin. The last renewal was
/// up to one renewal before the crash.
fn failover(page: &str) -> Result<String> {
    let lease = default_of(page, "--lease-duration")?;
    let renewal = default_of(page, "--lease-renewal")?;
    let margin = default_of(page, "--margin")?;
    let silent = lease + margin;
    let best = silent.checked_sub(renewal).context("a renewal is longer than a lease")?;
    Ok(format!("{}–{} s", best.as_secs_f64(), (silent + REQUESTS).as_secs_f64()))
}

#[test]
fn every_page_gives_the_same_time_of_a_failover() -> Result<()> {
    let figure = failover(&read(&in_checkout("docs/KUBERNETES.md"))?)?;
    let begins = figure.split('–').next().context("invariant: it is a range")?;
    for path in ABOUT_FAILOVERS {
        let page = read(&in_checkout(path))?;
        assert!(page.contains(&figure), "{path} does not say {figure}");
        for (at, _) in page.match_indices(begins) {
            let rest = &page[at + begins.len()..];
            let is_range = rest.starts_with('–') || rest.starts_with(" to ");
            let line = page[..at].lines().count();
            assert!(!is_range || page[at..].starts_with(&figure), "{path}:{line} says another range");
        }
    }
    Ok(())
}

/// Returns the figures of a text: numbers that one of these units follows.
fn figures(text: &str) -> Vec<String> {
    const UNITS: [&str; 5] = ["ms", "s", "%", "M/s", "MiB"];
    let words: Vec<&str> =
        text.split_whitespace().map(|word| word.trim_matches(['(', ')', ',', ';'])).collect();
    let pairs = words.windows(2).filter(|pair| pair[0].starts_with(|c: char| c.is_ascii_digit()));
    pairs.filter(|pair| UNITS.contains(&pair[1])).map(|pair| pair.join(" ")).collect()
}

#[test]
fn the_figures_of_the_short_comparison_are_those_of_the_long_one() -> Result<()> {
    let (short, long) = (read(&in_checkout("README.md"))?, read(&in_checkout("docs/COMPARISON.md"))?);
    let section = short.split("## ").find(|section| section.starts_with("How it compares"));
    let section = section.context("README.md compares nothing")?;
    let table: Vec<&str> = section.lines().filter(|line| line.starts_with('|')).collect();
    let long = figures(&long);
    for row in &table {
        for figure in figures(row) {
            assert!(long.contains(&figure), "docs/COMPARISON.md has no {figure}, which README.md has: {row}");
        }
    }
    let count: usize = table.iter().map(|row| figures(row).len()).sum();
    assert!(count > table.len(), "there are {count} figures in {} rows", table.len());
    Ok(())
}
