//! The agent's pages over HTTP, and their users: Prometheus, the alerts, the
//! dashboard, and the readers of docs/reference/metrics.md.

mod alerts;
mod dashboard;
mod documented;
mod endpoints;
mod exposition;
mod scraped;

use std::fs;

use anyhow::{Context, Result};
use serde_json::Value;
use vipward_tests::kit::tools::in_checkout;

fn read(path: &str) -> Result<String> {
    let path = in_checkout(path);
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

fn yaml(path: &str) -> Result<Value> {
    serde_saphyr::from_str(&read(path)?).with_context(|| format!("{path} is no YAML"))
}
