//! Finds external tools of the tests. Its error tells how to install a missing one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kit::output_of;

/// Directories of administrators' tools, which a PATH may lack.
const ADMIN_PATH: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
const GET_IT: &str = "run `cargo xtask setup`";

/// Returns iputils' arping.
pub fn arping() -> Result<PathBuf> {
    let arping = find("arping")?;
    let mut version = Command::new(&arping);
    version.arg("-V");
    let version = output_of(version)?;
    ensure!(version.contains("iputils"), "{} is not iputils' arping: {GET_IT}", arping.display());
    Ok(arping)
}

/// Returns Thomas Habets' arping, unpacked because it conflicts with iputils'.
pub fn habets_arping() -> Result<PathBuf> {
    unpacked("habets-arping/usr/sbin/arping")
}

/// Returns keepalived, unpacked because its package would start it.
pub fn keepalived() -> Result<PathBuf> {
    unpacked("keepalived/usr/sbin/keepalived")
}

/// Returns ucarp, unpacked too.
pub fn ucarp() -> Result<PathBuf> {
    unpacked("ucarp/usr/sbin/ucarp")
}

pub fn arp_scan() -> Result<PathBuf> {
    find("arp-scan")
}

pub fn ndisc6() -> Result<PathBuf> {
    find("ndisc6")
}

/// Returns iputils' ping.
pub fn ping() -> Result<PathBuf> {
    find("ping")
}

/// Returns Prometheus, unpacked because its package would start it.
pub fn prometheus() -> Result<PathBuf> {
    unpacked("prometheus/usr/bin/prometheus")
}

/// Returns promtool, from the same package.
pub fn promtool() -> Result<PathBuf> {
    unpacked("prometheus/usr/bin/promtool")
}

/// Returns Debian's kubectl 1.20, unpacked because PATH may have a newer one.
pub fn kubectl() -> Result<PathBuf> {
    unpacked("kubernetes-client/usr/bin/kubectl")
}

fn unpacked(program: &str) -> Result<PathBuf> {
    let program = tools_dir().join(program);
    ensure!(program.is_file(), "{} is missing: {GET_IT}", program.display());
    Ok(program)
}

pub fn bpftool() -> Result<PathBuf> {
    find("bpftool")
}

/// Returns a Python that can import scapy: `VIPWARD_PYTHON`
/// if it is set, else the first such `python3`.
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
    // The distribution may install scapy for another python3 than the first on PATH.
    let pythons = search_path().into_iter().map(|directory| directory.join("python3"));
    let found = pythons.filter(|python| python.is_file()).find(|python| has_scapy(python));
    found.with_context(|| format!("no python3 with scapy is installed: {GET_IT}"))
}

fn has_scapy(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import scapy"]);
    output_of(command).is_ok()
}

/// Returns the path of a file of the repository.
pub fn in_checkout(path: impl AsRef<Path>) -> PathBuf {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("invariant: the package is in a workspace");
    root.join(path)
}

/// Returns cargo's target directory.
pub fn target_dir() -> PathBuf {
    in_checkout(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
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
