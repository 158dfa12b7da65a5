//! Programs that a user without any right runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use tempfile::TempDir;
use vipward_tests::kit::output_of;

/// Arguments of setpriv(1) for the user nobody, without any right.
pub(crate) const AS_NOBODY: [&str; 9] = [
    "--reuid",
    "65534",
    "--regid",
    "65534",
    "--clear-groups",
    "--inh-caps",
    "-all",
    "--bounding-set",
    "-all",
];

/// Copies a program to a place where every user may run it. Another process writes the copy. A child that
/// another test starts meanwhile would inherit this process's open file, and a file that is open for
/// writing cannot be run.
pub(crate) fn copy_for_everybody(program: &Path, directory: &TempDir, name: &str) -> Result<PathBuf> {
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
    let copy = directory.path().join(name);
    let mut install = Command::new("install");
    install.arg("--mode=755").args([program, copy.as_path()]);
    output_of(install)?;
    Ok(copy)
}
