//! Reads whether a workspace member takes the workspace's lints.

use anyhow::{Context as _, Result};

/// Whether a manifest says `[lints] workspace = true`, in any of TOML's ways of writing that.
pub(super) fn inherits_lints(manifest: &str) -> Result<bool> {
    let manifest: toml::Table = manifest.parse().context("it is no TOML")?;
    Ok(manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool)
        == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_without_the_workspaces_lints_is_noticed() {
        let table = [
            ("inherits", "[package]\nname = \"a\"\n[lints]\nworkspace = true\n", true),
            ("inherits, inline", "lints = { workspace = true }\n[package]\nname = \"a\"\n", true),
            ("inherits, dotted", "lints.workspace = true\n[package]\nname = \"a\"\n", true),
            ("no lints", "[package]\nname = \"a\"\n", false),
            ("declines", "[package]\nname = \"a\"\n[lints]\nworkspace = false\n", false),
            ("lints of its own", "[package]\nname = \"a\"\n[lints.clippy]\npedantic = \"warn\"\n", false),
            ("a comment only", "[package]\nname = \"a\"\n# [lints]\n# workspace = true\n", false),
            ("the workspace's table only", "[workspace.lints.rust]\nmissing_docs = \"warn\"\n", false),
            ("in another table", "[package.metadata.lints]\nworkspace = true\n", false),
        ];
        for (what, manifest, expected) in table {
            assert_eq!(inherits_lints(manifest).expect("valid TOML"), expected, "{what}");
        }
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_an_error() {
        assert!(inherits_lints("[lints\nworkspace = true").is_err());
    }
}
