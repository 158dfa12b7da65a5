//! Paths of the workspace: root, members and target directory, as cargo reports them.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process;

pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    pub(crate) manifests: Vec<PathBuf>,
}

impl Workspace {
    pub(crate) fn discover() -> Result<Self> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let json = process::output(
            process::cargo()
                .args(["metadata", "--no-deps", "--format-version=1"])
                .args(["--manifest-path", manifest]),
        )?;
        let metadata: Value = serde_json::from_str(&json).context("failed to parse `cargo metadata`")?;
        Self::from_metadata(&metadata).context("`cargo metadata` lacks the workspace's paths")
    }

    fn from_metadata(metadata: &Value) -> Option<Self> {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let packages = metadata.get("packages")?.as_array()?;
        Some(Self {
            root: path(metadata.get("workspace_root")?)?,
            target: path(metadata.get("target_directory")?)?,
            manifests: packages
                .iter()
                .map(|package| path(package.get("manifest_path")?))
                .collect::<Option<_>>()?,
        })
    }

    pub(crate) fn bpf(&self) -> PathBuf {
        self.target.join("bpf")
    }

    /// Returns the directory of tools that are unpacked for this workspace only.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }
}
