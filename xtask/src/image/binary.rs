//! Builds the agent as a static binary, and verifies that it is one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, elf, read::elf::ElfFile64, read::elf::ProgramHeader as _};

use crate::{process, programs::STATIC, workspace::Workspace};

/// Builds the agent and returns the path of the binary.
pub(super) fn build(workspace: &Workspace) -> Result<PathBuf> {
    let triple = process::host()?;
    process::step(&format!("building a static agent for {triple} (about six minutes at first)"));
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(["build", "--release", "--package=vipward", "--bin=vipward"]);
    // With `--target`, the flags do not apply to build scripts and procedural macros, which cannot
    // be static.
    cargo.arg("--target").arg(&triple);
    let others = env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("RUSTFLAGS", format!("{others} {STATIC}").trim()).env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::run(&mut cargo).context("no static agent, which needs libc.a (Debian's libc6-dev)")?;
    let binary = workspace.target.join(&triple).join("release/vipward");
    let bytes = fs::read(&binary).with_context(|| format!("failed to read {}", binary.display()))?;
    let static_ = is_static(&bytes).with_context(|| format!("{} is no program", binary.display()))?;
    ensure!(
        static_,
        "{} is linked dynamically, although rustc was given `{STATIC}`: an image from scratch has no libraries",
        binary.display()
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
