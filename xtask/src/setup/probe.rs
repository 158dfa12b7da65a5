//! Finds installed tools by running them.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use super::requirements::{LLVM_PREFIX, Probe, Requirement, Source};
use crate::{
    compiler::{self, Compiler, Linker},
    process,
    version::Version,
    workspace::Workspace,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(super) version: String,
    pub(super) path: PathBuf,
}

pub(super) fn find(requirement: &Requirement, workspace: &Workspace) -> Option<Found> {
    match requirement.probe {
        Probe::Program => version_of(process::find(requirement.name)?),
        Probe::Compiler => compiler(),
        Probe::Linker => linker(),
        Probe::Llvm => llvm(),
        Probe::EbpfClippy => version_of(clippy_driver(&chosen_compiler()?)?),
        Probe::IputilsArping => iputils_arping(),
        Probe::Unpacked => unpacked(requirement, workspace),
        Probe::Scapy => scapy(),
        Probe::Own => version_of(own(workspace, requirement.name)).filter(|found| found.path.is_file()),
    }
}

/// Runs a program for its version. One that does not start counts as missing.
fn version_of(path: PathBuf) -> Option<Found> {
    let flag = match path.file_name()?.to_str()? {
        "arping" | "ip" => "-V",
        _ => "--version",
    };
    let banner = process::banner(Command::new(&path).arg(flag))?;
    let version = Version::find(&banner).map_or_else(|| "found".to_owned(), |version| version.to_string());
    Some(Found { version, path })
}

fn compiler() -> Option<Found> {
    let compiler = chosen_compiler()?;
    Some(Found { version: compiler.release.to_string(), path: compiler.rustc })
}

/// Returns the compiler to use. If the linker is missing or too old, returns the compiler to use
/// with the next linker.
fn chosen_compiler() -> Option<Compiler> {
    compiler::choose(Linker::find().as_ref()).or_else(|_| compiler::choose(None)).ok()
}

/// Finds the linker. One that is too old for every installed compiler counts as missing.
fn linker() -> Option<Found> {
    let linker = Linker::find()?;
    if compiler::choose(Some(&linker)).is_err() && compiler::choose(None).is_ok() {
        return None;
    }
    Some(Found { version: linker.release.to_string(), path: linker.path })
}

/// Finds the LLVM of bpf-linker or, if bpf-linker must be built, LLVM with its headers.
fn llvm() -> Option<Found> {
    if let Some(Linker { path, llvm: Some(llvm), .. }) = Linker::find() {
        return Some(Found { version: llvm.to_string(), path });
    }
    version_of(Path::new(LLVM_PREFIX).join("bin/llvm-config")).filter(|found| found.path.is_file())
}

pub(crate) fn clippy_driver(compiler: &Compiler) -> Option<PathBuf> {
    Some(compiler.rustc.with_file_name("clippy-driver")).filter(|path| path.is_file())
}

/// Finds iputils' arping. habets' arping has the same name, and prints another banner.
fn iputils_arping() -> Option<Found> {
    let path = process::find("arping")?;
    let banner = process::banner(Command::new(&path).arg("-V"))?;
    let version = iputils_release(&banner)?.to_owned();
    Some(Found { version, path })
}

/// Returns the release in iputils' banner, which is a date and no version number.
pub(super) fn iputils_release(banner: &str) -> Option<&str> {
    banner.lines().next()?.strip_prefix("arping from iputils ")?.split_whitespace().next()
}

/// Finds the program in the target directory. The program of that name on PATH may be another.
fn unpacked(requirement: &Requirement, workspace: &Workspace) -> Option<Found> {
    let Source::Unpacked { package, program } = requirement.source else { return None };
    Some(unpacked_dir(workspace, package).join(program)).filter(|path| path.is_file()).and_then(version_of)
}

/// Returns the directory of an unpacked package, such as `target/tools/habets-arping`.
pub(super) fn unpacked_dir(workspace: &Workspace, package: &str) -> PathBuf {
    workspace.tools().join(unpacked_name(package))
}

pub(super) fn unpacked_name(package: &str) -> &str {
    if package == "arping" { "habets-arping" } else { package }
}

/// Returns the path of a program that `cargo install` puts into the target directory.
pub(super) fn own(workspace: &Workspace, program: &str) -> PathBuf {
    workspace.tools().join("bin").join(program)
}

fn scapy() -> Option<Found> {
    let (path, version) = python_with_scapy()?;
    Some(Found { version: version.to_string(), path })
}

/// Returns the first python3 that can import scapy: Debian's, else the one on PATH.
pub(super) fn python_with_scapy() -> Option<(PathBuf, Version)> {
    let debian = PathBuf::from("/usr/bin/python3");
    [Some(debian), process::find("python3")].into_iter().flatten().find_map(|python| {
        let ask = "import importlib.metadata as m; print(m.version('scapy'))";
        let version = Version::find(&process::output(Command::new(&python).args(["-c", ask])).ok()?)?;
        Some((python, version))
    })
}
