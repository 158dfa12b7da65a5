//! The files under deploy/: they grant the agent exactly its
//! needs, the same in kustomize and in Helm.

mod chart;
mod manifests;
mod pages;
mod permissions;
mod policies;
mod rendered;
mod uninstalling;

use std::collections::BTreeSet;
use std::io::{Write, stderr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use vipward_tests::{
    agent::Agent,
    kit::{output_of, tools::in_checkout},
};

/// The agent's namespace in the manifests.
const NAMESPACE: &str = "vipward-system";

pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

/// Returns the path of an installed program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Reports a skipped test past the capture of test output, so that people see it.
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(stderr(), "skipped: {why}");
}

pub(crate) fn documents(path: &Path) -> Result<Vec<Value>> {
    parse(&read(path)?).with_context(|| format!("{} is no YAML", path.display()))
}

pub(crate) fn parse(yaml: &str) -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(yaml)?)
}

/// Returns the only object of this kind in a file of the base.
fn in_base(file: &str, kind: &str) -> Result<Value> {
    let path = in_checkout("deploy/kubernetes/base").join(file);
    let found: Vec<_> = documents(&path)?.into_iter().filter(|object| object["kind"] == kind).collect();
    ensure!(found.len() == 1, "{} has {} objects of kind {kind}", path.display(), found.len());
    Ok(found.into_iter().next().expect("invariant: just counted"))
}

/// Returns the container of Vipward in a `DaemonSet` or `Deployment`.
fn container(workload: &Value) -> Result<&Value> {
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array();
    let is_ours =
        |container: &&Value| ["vipward", "controller"].iter().any(|name| container["name"] == *name);
    containers.and_then(|all| all.iter().find(is_ours)).context("there is no container of Vipward")
}

fn strings(list: &Value) -> Result<Vec<&str>> {
    let strings = list.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
    strings.with_context(|| format!("{list} is no list of strings"))
}

/// Returns the `flag` of `--flag=value` and `--flag`.
fn flag_of(argument: &str) -> Option<&str> {
    argument.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag))
}

/// Returns the flags of `vipward kubernetes`, without their hyphens.
fn flags_of_the_agent() -> Result<BTreeSet<String>> {
    let mut help = Command::new(Agent::default_binary());
    help.args(["kubernetes", "--help"]);
    let help = output_of(help)
        .context("this agent has no subcommand `kubernetes` to check the manifests against")?;
    let flags = help.lines().filter_map(|line| {
        // A flag begins its line, after its one-letter form if it has one.
        let words = line.split_whitespace();
        let first = words.take(2).find_map(flag_of)?;
        line.trim_start().starts_with('-').then(|| first.trim_end_matches([',', '.']).to_owned())
    });
    let flags: BTreeSet<_> = flags.collect();
    ensure!(flags.contains("help"), "found no flags in: {help}");
    Ok(flags)
}
