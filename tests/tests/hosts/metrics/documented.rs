//! docs/METRICS.md and the agents' pages have the same metrics.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};

use super::{
    exposition::{Exposition, Metric},
    read,
};

/// The mark of the metrics that the controller alone has.
const OF_THE_CONTROLLER: &str = "(controller)";

/// Returns the metrics of the agents in the page's tables: name, type, labels.
pub(crate) fn documented() -> Result<BTreeMap<String, Metric>> {
    rows(|row| !row.contains(OF_THE_CONTROLLER))
}

fn rows(is_one: fn(&str) -> bool) -> Result<BTreeMap<String, Metric>> {
    let page = read("docs/METRICS.md")?;
    let mut found = BTreeMap::new();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `vipward_"));
    for row in rows.filter(|row| is_one(row)) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let name = format!("vipward_{}", cells[0].trim_end_matches('`'));
        let labels = cells.get(2).with_context(|| format!("{name} has no labels"))?;
        let labels = labels.split(',').map(|label| label.trim().trim_matches('`'));
        let labels: BTreeSet<_> =
            labels.filter(|label| !label.is_empty() && *label != "–").map(str::to_owned).collect();
        let metric = Metric { kind: cells[1].to_owned(), labels };
        ensure!(found.insert(name.clone(), metric).is_none(), "{name} is there twice");
    }
    ensure!(found.len() > 4, "only {} metrics are documented", found.len());
    Ok(found)
}

/// Returns the metrics that a standalone agent has too: those without the mark of a cluster.
pub(crate) fn documented_everywhere() -> Result<BTreeSet<String>> {
    let page = read("docs/METRICS.md")?;
    let of_clusters = |name: &String| {
        page.lines().any(|line| line.starts_with(&format!("| `{name}` |")) && line.contains("(cluster)"))
    };
    Ok(documented()?.into_keys().filter(|name| !of_clusters(name)).collect())
}

/// Compares docs/METRICS.md with all the agents' pages together.
pub(crate) fn assert_documented(pages: &[Exposition]) -> Result<()> {
    let mut said: BTreeMap<String, Metric> = BTreeMap::new();
    for (name, metric) in pages.iter().flat_map(|page| &page.metrics) {
        let known = said.entry(name.clone()).or_insert_with(|| metric.clone());
        assert_eq!(known.kind, metric.kind, "{name}");
        known.labels.extend(metric.labels.iter().cloned());
    }
    let documented = documented()?;
    let names = |of: &BTreeMap<String, Metric>| of.keys().cloned().collect::<BTreeSet<_>>();
    let (said_names, documented_names) = (names(&said), names(&documented));
    let undocumented: Vec<_> = said_names.difference(&documented_names).collect();
    let unsaid: Vec<_> = documented_names.difference(&said_names).collect();
    assert!(
        undocumented.is_empty() && unsaid.is_empty(),
        "not in the page: {undocumented:?}; in it only: {unsaid:?}"
    );
    for (name, metric) in &documented {
        assert_eq!(&said[name], metric, "{name}");
    }
    Ok(())
}

/// Compares docs/METRICS.md with the page of a controller that leads.
pub(crate) fn assert_documented_of_the_controller(page: &Exposition) -> Result<()> {
    /// Metrics that the agents have too.
    const COMMON: [&str; 2] = ["vipward_build_info", "vipward_api_"];
    let is_common = |name: &&String| COMMON.iter().any(|prefix| name.starts_with(prefix));
    let own = page.metrics.iter().filter(|(name, _)| !is_common(name));
    let own: BTreeMap<_, _> = own.map(|(name, metric)| (name.clone(), metric.clone())).collect();
    assert_eq!(own, rows(|row| row.contains(OF_THE_CONTROLLER))?);
    Ok(())
}
