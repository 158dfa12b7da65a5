//! The agent's pages over HTTP, and their users: Prometheus, the alerts, the
//! dashboard, and the readers of docs/METRICS.md.

mod alerts;
mod documented;
mod exposition;
mod pages;
mod scraped;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

fn in_checkout(path: &str) -> PathBuf {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("invariant: the package is in a workspace");
    root.join(path)
}

fn read(path: &str) -> Result<String> {
    let path = in_checkout(path);
    fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))
}

fn yaml(path: &str) -> Result<Value> {
    serde_saphyr::from_str(&read(path)?).with_context(|| format!("{path} is no YAML"))
}
