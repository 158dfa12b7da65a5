//! The dashboard as a file: its rows, its panels' places and words, and the names in its queries.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;

use super::read;

const DASHBOARD: &str = "deploy/grafana/vipward.json";
/// Grafana's window of a rate at the interval of the tests' Prometheus.
pub(super) const WINDOW: &str = "10s";
const ROWS: [&str; 7] = ["Is all well?", "VIPs", "Conflicts", "Data plane", "Cluster", "Pools", "Agent"];
/// Columns of Grafana's grid.
const COLUMNS: u64 = 24;

fn panels() -> Result<Vec<Value>> {
    let dashboard: Value =
        serde_json::from_str(&read(DASHBOARD)?).with_context(|| format!("{DASHBOARD} is no JSON"))?;
    Ok(dashboard["panels"].as_array().context("no panels")?.clone())
}

fn title(panel: &Value) -> Result<&str> {
    panel["title"].as_str().context("a panel without a title")
}

/// Returns the dashboard's queries, each with the title of its panel.
pub(super) fn queries() -> Result<Vec<(String, String)>> {
    let mut queries = Vec::new();
    for panel in panels()? {
        let title = title(&panel)?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let query = target["expr"].as_str().with_context(|| format!("{title} has no query"))?;
            let query = query.replace("$__rate_interval", WINDOW).replace("$job", "vipward");
            let query = query.replace("$instance", ".*");
            ensure!(!query.contains('$'), "{title}: {query}");
            queries.push((title.to_owned(), query));
        }
    }
    ensure!(queries.len() > 15, "only {} queries", queries.len());
    Ok(queries)
}

/// Panel with a single value.
pub(super) struct Stat {
    pub(super) title: String,
    pub(super) queries: Vec<String>,
    unit: Option<String>,
    /// Values from which on the colour is another one: the first is that of the least values.
    colours: Vec<(f64, String)>,
}

impl Stat {
    pub(super) fn words(&self, value: f64) -> String {
        match &self.unit {
            Some(unit) => format!("{value:.1} {unit}"),
            None => format!("{value:.0}"),
        }
    }

    /// Returns true unless the panel is red.
    pub(super) fn is_good(&self, value: f64) -> bool {
        let colour = self.colours.iter().rfind(|(from, _)| value >= *from);
        colour.is_none_or(|(_, colour)| colour != "red")
    }
}

/// Returns the panels with a single value.
pub(super) fn stats() -> Result<Vec<Stat>> {
    let all = queries()?;
    let panels = panels()?.into_iter().filter(|panel| panel["type"] == "stat");
    let stat = |panel: Value| -> Result<Stat> {
        let title = title(&panel)?.to_owned();
        let defaults = &panel["fieldConfig"]["defaults"];
        let steps = defaults["thresholds"]["steps"].as_array().into_iter().flatten();
        let colours = steps.map(|step| {
            let colour = step["color"].as_str().context("a step without a colour")?;
            Ok((step["value"].as_f64().unwrap_or(f64::NEG_INFINITY), colour.to_owned()))
        });
        Ok(Stat {
            queries: all.iter().filter(|(of, _)| *of == title).map(|(_, query)| query.clone()).collect(),
            unit: defaults["unit"].as_str().map(str::to_owned),
            colours: colours.collect::<Result<_>>()?,
            title,
        })
    };
    panels.map(stat).collect()
}

#[test]
fn the_reference_has_each_metric_of_the_dashboard() -> Result<()> {
    let reference = read("docs/reference/metrics.md")?;
    let names = Regex::new("vipward_[a-z_]+")?;
    for (panel, query) in queries()? {
        for name in names.find_iter(&query).map(|found| found.as_str()) {
            let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let known = [Some(name), of_histogram].into_iter().flatten();
            let is_known = known.into_iter().any(|name| reference.contains(&format!("| `{name}` |")));
            assert!(is_known, "{panel}: the reference has no {name}");
        }
    }
    Ok(())
}

#[test]
fn the_dashboard_begins_with_whether_all_is_well_and_each_panel_has_a_description_and_a_place() -> Result<()>
{
    let (mut rows, mut ids, mut cells) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for panel in panels()? {
        let title = title(&panel)?.to_owned();
        assert!(ids.insert(panel["id"].as_u64()), "{title}: another panel has its number");
        if panel["type"] == "row" {
            rows.push(title.clone());
        } else {
            let description = panel["description"].as_str().unwrap_or_default();
            assert!(description.ends_with('.'), "{title} is described by {description:?}");
        }
        assert!(!rows.is_empty(), "{title} is in no row");
        let at = |key: &str| panel["gridPos"][key].as_u64().with_context(|| format!("{title} has no {key}"));
        let (x, y, width, height) = (at("x")?, at("y")?, at("w")?, at("h")?);
        assert!(x + width <= COLUMNS, "{title} is too wide");
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies on another panel");
        }
    }
    assert_eq!(rows, ROWS);
    Ok(())
}
