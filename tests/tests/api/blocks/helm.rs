//! The commands of Helm in the pages. No release is made: that needs Helm, and charts of others.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use vipward_tests::kit::tools::in_checkout;

use crate::deploy::documents;

const CHART: &str = "deploy/helm/vipward";
/// Charts of other projects.
const OTHERS: [&str; 2] = ["metallb/metallb", "cilium/cilium"];

/// Checks each command of Helm in a script: the chart is there, and has the values that are set.
pub(super) fn check(script: &str) -> Result<()> {
    let script = script.replace("\\\n", " ");
    let mut commands = script.lines().map(str::trim).filter(|line| line.starts_with("helm "));
    commands.try_for_each(|command| check_command(command).with_context(|| format!("`{command}`")))
}

fn check_command(command: &str) -> Result<()> {
    let words: Vec<&str> = command.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let is_ours = match words.as_slice() {
        ["helm", "install" | "upgrade", "vipward", CHART, ..] => true,
        ["helm", "upgrade", _, chart, ..] if OTHERS.contains(chart) => false,
        _ => bail!("it is none of the commands that are known"),
    };
    let values = documents(&in_checkout(CHART).join("values.yaml"))?.remove(0);
    let mut words = words.into_iter().skip(4);
    while let Some(word) = words.next() {
        match word {
            "--reuse-values" => {}
            "--namespace" => drop(words.next()),
            "--set" => {
                let setting = words.next().and_then(|setting| setting.split_once('='));
                let (path, _) = setting.context("a setting without a value")?;
                let found = path.split('.').try_fold(&values, |value: &Value, name| value.get(name));
                ensure!(!is_ours || found.is_some(), "the chart has no value {path}");
            }
            _ => bail!("{word} is no option that is known"),
        }
    }
    Ok(())
}
