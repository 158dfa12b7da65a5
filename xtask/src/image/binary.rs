//! Builds the agent as a static binary, and verifies that it is one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, elf, read::elf::ElfFile64, read::elf::ProgramHeader as _};

use crate::{process, workspace::Workspace};

/// Target of the static binary.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Target {
    triple: String,
    /// Compiler flags for static linking; musl needs none.
    flags: &'static str,
}

impl Target {
    /// Returns the musl target if its standard library and a C compiler for it are installed, else
    /// this machine's own target.
    pub(super) fn find() -> Result<Self> {
        let rustc = process::find("rustc").context("rustc is not installed")?;
        let about = process::output(Command::new(&rustc).arg("-vV"))?;
        let host = about
            .lines()
            .find_map(|line| line.strip_prefix("host: "))
            .context("`rustc -vV` names no host")?;
        Ok(Self::choose(host, |triple| {
            let libraries =
                process::output(Command::new(&rustc).args(["--print=target-libdir", "--target", triple]));
            let has_std = libraries.is_ok_and(|dir| Path::new(dir.trim()).is_dir());
            has_std && process::find("musl-gcc").is_some()
        }))
    }

    pub(super) fn choose(host: &str, usable: impl Fn(&str) -> bool) -> Self {
        let musl = host.replace("-gnu", "-musl");
        if usable(&musl) {
            Self { triple: musl, flags: "" }
        } else {
            Self { triple: host.to_owned(), flags: "-C target-feature=+crt-static" }
        }
    }
}

/// Builds the agent and returns the path of the binary.
pub(super) fn build(workspace: &Workspace, target: Target) -> Result<PathBuf> {
    let Target { triple, flags } = target;
    process::step(&format!("building a static agent for {triple}"));
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(["build", "--release", "--package=vipward", "--bin=vipward"]);
    // With `--target`, the flags do not apply to build scripts and procedural macros, which cannot
    // be static.
    cargo.arg("--target").arg(&triple);
    if !flags.is_empty() {
        let others = env::var("RUSTFLAGS").unwrap_or_default();
        cargo.env("RUSTFLAGS", format!("{others} {flags}").trim());
    }
    process::run(&mut cargo)?;
    let binary = workspace.target.join(&triple).join("release/vipward");
    let bytes = fs::read(&binary).with_context(|| format!("failed to read {}", binary.display()))?;
    let static_ = is_static(&bytes).with_context(|| format!("{} is no program", binary.display()))?;
    ensure!(
        static_,
        "{} is linked dynamically, and an image from scratch has no libraries: install the target {} and musl-gcc \
         (`rustup target add`, Debian's musl-tools), or the C library's static archive (Debian's libc6-dev)",
        binary.display(),
        triple.replace("-gnu", "-musl")
    );
    Ok(binary)
}

/// Returns whether a program needs neither a loader nor a library.
pub(super) fn is_static(bytes: &[u8]) -> Result<bool> {
    let file: ElfFile64 = ElfFile64::parse(bytes).context("it is no 64-bit ELF file")?;
    let endian = file.endian();
    let asks_for_loader =
        file.elf_program_headers().iter().any(|header| header.p_type(endian) == elf::PT_INTERP);
    Ok(!asks_for_loader && file.imports()?.is_empty())
}

/// Returns the version that the binary prints, which also proves that it runs.
pub(super) fn version(binary: &Path) -> Result<String> {
    let said = process::output(Command::new(binary).arg("--version"))?;
    let version = said.trim().strip_prefix("vipward ");
    Ok(version.with_context(|| format!("{} --version says {:?}", binary.display(), said.trim()))?.to_owned())
}
