//! Runs scenarios, and skips those that an API server cannot play.

use std::io::{self, Write as _};

use anyhow::{Context, Result};

use super::{options::ClusterOptions, running::Cluster};

/// Runs a scenario on a new cluster. A failure shows the agents' logs and the cluster's objects.
pub fn scenario(
    name: &str,
    options: ClusterOptions,
    steps: impl FnOnce(&mut Cluster) -> Result<()>,
) -> Result<()> {
    let mut cluster = Cluster::start(name, options)?;
    let done = steps(&mut cluster);
    if done.is_err() {
        eprintln!("{}", cluster.describe());
    }
    done
}

/// Skips a scenario that needs an API server in this
/// process. Prints so past the capture of test output.
pub fn skip(needed: &str) -> Result<()> {
    say_skipped(&format!("{needed}, which only an API server in this process can be made to do"))
}

/// Skips a scenario whose real API server cannot restore a backup.
pub fn skip_without_backup() -> Result<()> {
    say_skipped("the API server is a real one, and VIPWARD_API_BACKUP names no program that has it go back")
}

/// Skips a scenario that needs the admission policies of a real API server.
pub fn skip_without_admission() -> Result<()> {
    say_skipped("the API server in this process has no admission policies; KUBECONFIG names none")
}

fn say_skipped(why: &str) -> Result<()> {
    writeln!(io::stderr(), "skipped: {why}").context("failed to write to stderr")
}
