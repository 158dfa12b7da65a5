//! External tools that tests use; one that is missing is a failure that says how to get it.

#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::output_of;

/// Directories that hold administrators' tools and are not on everybody's PATH.
const ADMIN_PATH: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
const GET_IT: &str = "run `cargo xtask setup`";

/// iputils' arping.
pub fn arping() -> Result<PathBuf> {
    let arping = find("arping")?;
    let mut version = Command::new(&arping);
    version.arg("-V");
    let version = output_of(version)?;
    ensure!(version.contains("iputils"), "{} is not iputils' arping: {GET_IT}", arping.display());
    Ok(arping)
}

/// Thomas Habets' arping, which cannot be installed beside iputils' and lives in our own tools directory.
pub fn habets_arping() -> Result<PathBuf> {
    unpacked("habets-arping/usr/sbin/arping")
}

/// keepalived, which is not installed, since it would be started then.
pub fn keepalived() -> Result<PathBuf> {
    unpacked("keepalived/usr/sbin/keepalived")
}

/// ucarp, which is not installed either.
pub fn ucarp() -> Result<PathBuf> {
    unpacked("ucarp/usr/sbin/ucarp")
}

/// arp-scan.
pub fn arp_scan() -> Result<PathBuf> {
    find("arp-scan")
}

/// tcpdump.
pub fn tcpdump() -> Result<PathBuf> {
    find("tcpdump")
}

/// Prometheus, which is not installed: its package would start it.
pub fn prometheus() -> Result<PathBuf> {
    unpacked("prometheus/usr/bin/prometheus")
}

/// promtool, of the same package.
pub fn promtool() -> Result<PathBuf> {
    unpacked("prometheus/usr/bin/promtool")
}

fn unpacked(program: &str) -> Result<PathBuf> {
    let program = tools_dir().join(program);
    ensure!(program.is_file(), "{} is missing: {GET_IT}", program.display());
    Ok(program)
}

/// bpftool.
pub fn bpftool() -> Result<PathBuf> {
    find("bpftool")
}

/// A Python that can import scapy: `VIPWARD_PYTHON` when it is set, else the first `python3` that can.
pub fn scapy_python() -> Result<PathBuf> {
    if let Some(python) = env::var_os("VIPWARD_PYTHON") {
        let python = PathBuf::from(python);
        ensure!(
            has_scapy(&python),
            "VIPWARD_PYTHON is {}, which cannot import scapy: {GET_IT}",
            python.display()
        );
        return Ok(python);
    }
    // The first python3 on the PATH need not be the one that the distribution installs scapy for.
    let pythons = search_path().into_iter().map(|directory| directory.join("python3"));
    let found = pythons.filter(|python| python.is_file()).find(|python| has_scapy(python));
    found.with_context(|| format!("no python3 with scapy is installed: {GET_IT}"))
}

fn has_scapy(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import scapy"]);
    output_of(command).is_ok()
}

/// Cargo's target directory.
pub fn target_dir() -> PathBuf {
    let workspace =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("invariant: the package is in a workspace");
    match env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => workspace.join(directory),
        None => workspace.join("target"),
    }
}

fn tools_dir() -> PathBuf {
    env::var_os("VIPWARD_TOOLS").map_or_else(|| target_dir().join("tools"), PathBuf::from)
}

fn find(name: &str) -> Result<PathBuf> {
    let found = search_path().into_iter().map(|directory| directory.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed: {GET_IT}"))
}

fn search_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).chain(ADMIN_PATH.map(PathBuf::from)).collect()
}
