//! Checks in a manifest that a crate has the workspace's lints.

use anyhow::{Context as _, Result};

/// Returns whether a manifest has `[lints] workspace = true`, in any TOML notation.
pub(super) fn inherits_lints(manifest: &str) -> Result<bool> {
    let manifest: toml::Table = manifest.parse().context("it is no TOML")?;
    Ok(manifest.get("lints").and_then(|lints| lints.get("workspace")).and_then(toml::Value::as_bool)
        == Some(true))
}

/// Returns whether a crate outside the workspace has the lints that members inherit.
pub(super) fn same_lints(workspace: &str, outsider: &str) -> Result<bool> {
    let workspace: toml::Table = workspace.parse().context("the workspace's manifest is no TOML")?;
    let outsider: toml::Table = outsider.parse().context("the manifest outside the workspace is no TOML")?;
    let inherited = workspace.get("workspace").and_then(|workspace| workspace.get("lints"));
    let inherited = inherited.context("the workspace's manifest has no `[workspace.lints]`")?;
    Ok(outsider.get("lints") == Some(inherited))
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
    fn an_outsider_with_other_lints_is_noticed() {
        let workspace = "[workspace.lints.rust]\na = \"warn\"\n[workspace.lints.clippy]\nb = \"warn\"\n";
        let table = [
            ("the same", "[lints.clippy]\nb = \"warn\" # why\n[lints.rust]\na = \"warn\"\n", true),
            ("one is missing", "[lints.rust]\na = \"warn\"\n[lints.clippy]\n", false),
            ("another level", "[lints.rust]\na = \"allow\"\n[lints.clippy]\nb = \"warn\"\n", false),
            ("one more", "[lints.rust]\na = \"warn\"\nc = \"allow\"\n[lints.clippy]\nb = \"warn\"\n", false),
            ("none", "[package]\nname = \"a\"\n", false),
        ];
        for (what, outsider, expected) in table {
            assert_eq!(same_lints(workspace, outsider).expect("valid TOML"), expected, "{what}");
        }
        assert!(same_lints("[workspace]\n", "").is_err());
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_an_error() {
        assert!(inherits_lints("[lints\nworkspace = true").is_err());
    }
}
