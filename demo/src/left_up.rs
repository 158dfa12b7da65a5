//! Records a LAN that was left up, and removes it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use vipward_tests::{agent::remove_bpffs, lan::remove_named};

const DIRECTORY: &str = "/run/vipward-demo";
const STATE: &str = "/run/vipward-demo/state.json";

/// Record of a LAN that was left up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LanLeftUp {
    pub(super) lan: String,
    pub(super) namespaces: Vec<String>,
    pub(super) agent_pid: u32,
    pub(super) agent_directory: PathBuf,
    pub(super) vipward: PathBuf,
    pub(super) pin_dir: PathBuf,
    pub(super) bpffs: PathBuf,
    pub(super) log: PathBuf,
}

/// Fails if a LAN was left up.
pub(super) fn ensure_none() -> Result<()> {
    ensure!(
        !Path::new(STATE).exists(),
        "a LAN of an earlier demo is up ({STATE}): remove it with `cargo xtask demo --down`"
    );
    Ok(())
}

/// Writes the record for [`LanLeftUp::read`].
pub(super) fn write(lan: &LanLeftUp) -> Result<()> {
    fs::create_dir_all(DIRECTORY).with_context(|| format!("failed to make {DIRECTORY}"))?;
    let json = serde_json::to_string_pretty(lan)? + "\n";
    fs::write(STATE, json).with_context(|| format!("failed to write {STATE}"))
}

impl LanLeftUp {
    /// Returns the record, if a LAN was left up.
    pub(super) fn read() -> Result<Option<Self>> {
        match fs::read_to_string(STATE) {
            Ok(json) => {
                let lan = serde_json::from_str(&json);
                Ok(Some(lan.with_context(|| format!("{STATE} is not what the demo writes"))?))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("failed to read {STATE}")),
        }
    }

    /// Ends the agent and removes everything that still exists.
    pub(super) fn remove(&self) -> Result<()> {
        let directory = &self.agent_directory;
        let name = directory.file_name().unwrap_or_default().to_string_lossy();
        ensure!(
            name.starts_with("vipward-agent-"),
            "{STATE} names {}, which is no directory of an agent: nothing is removed",
            directory.display()
        );
        // Ends all processes in the namespaces, also the agent.
        remove_named(&self.lan)?;
        if self.bpffs.exists() {
            remove_bpffs(&self.bpffs)?;
        }
        if directory.exists() {
            fs::remove_dir_all(directory)
                .with_context(|| format!("failed to remove {}", directory.display()))?;
        }
        fs::remove_dir_all(DIRECTORY).with_context(|| format!("failed to remove {DIRECTORY}"))
    }
}
