//! Every metric that a running agent or controller shows is in docs/reference/metrics.md.
//!
//! The page is generated. The generator's test compares it with the code.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::{
    exposition::{Exposition, Metric},
    read,
};

/// Returns the metrics in the tables of these sections: name, type, labels.
fn documented(sections: &[&str]) -> Result<BTreeMap<String, Metric>> {
    let page = read("docs/reference/metrics.md")?;
    let mut found = BTreeMap::new();
    for section in sections {
        let (_, rows) = page.split_once(&format!("\n## {section}\n")).context("no such section")?;
        let rows = rows.split("\n## ").next().unwrap_or_default();
        for row in rows.lines().filter_map(|line| line.strip_prefix("| `")) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let [name, kind, labels, ..] = &cells[..] else { anyhow::bail!("too few cells: {row}") };
            let labels = labels.split(',').map(|label| label.trim().trim_matches('`'));
            let labels: BTreeSet<_> = labels.filter(|label| !label.is_empty()).map(str::to_owned).collect();
            let metric = Metric { kind: (*kind).to_owned(), labels };
            let name = name.trim_end_matches('`').to_owned();
            ensure!(found.insert(name.clone(), metric).is_none(), "{name} is there twice");
        }
    }
    ensure!(found.len() > 4, "only {} metrics are documented", found.len());
    Ok(found)
}

/// Compares a page of metrics with these sections.
pub(crate) fn assert_documented(page: &Exposition, sections: &[&str]) -> Result<()> {
    let documented = documented(sections)?;
    for (name, metric) in &page.metrics {
        let known = documented.get(name).with_context(|| format!("{name} is not in the page"))?;
        assert_eq!(known.kind, metric.kind, "{name}");
        assert!(
            metric.labels.is_subset(&known.labels),
            "{name}: {:?}, not {:?}",
            metric.labels,
            known.labels
        );
    }
    Ok(())
}
