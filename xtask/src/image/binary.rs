//! Builds the agent as a static binary, and verifies that it is one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, elf, read::elf::ElfFile64, read::elf::ProgramHeader as _};

use crate::{process, programs::STATIC, workspace::Workspace};

/// Static binary, and the notices that the licences of its libraries demand.
pub(super) struct Binary {
    pub(super) path: PathBuf,
    /// Notices of Rust's standard library.
    pub(super) library_notices: PathBuf,
    pub(super) glibc: String,
}

pub(super) fn build(workspace: &Workspace) -> Result<Binary> {
    let triple = process::host()?;
    // Before the build, to fail early.
    let library_notices = library_notices()?;
    let archive = process::output(Command::new("cc").arg("-print-file-name=libc.a"))?;
    let archive = fs::read(archive.trim()).context("there is no libc.a (Debian's libc6-dev)")?;
    let glibc = glibc_release(&archive).context("libc.a is not glibc's")?;
    process::step(&format!("building a static agent for {triple} (about six minutes at first)"));
    let mut cargo = process::cargo();
    cargo.current_dir(&workspace.root).args(["build", "--release", "--package=vipward", "--bin=vipward"]);
    // With `--target`, the flags do not apply to build scripts and procedural macros, which cannot
    // be static.
    cargo.arg("--target").arg(&triple);
    let others = env::var("RUSTFLAGS").unwrap_or_default();
    cargo.env("RUSTFLAGS", format!("{others} {STATIC}").trim()).env_remove("CARGO_ENCODED_RUSTFLAGS");
    process::run(&mut cargo).context("no static agent, which needs libc.a (Debian's libc6-dev)")?;
    let path = workspace.target.join(&triple).join("release/vipward");
    let bytes = fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let static_ = is_static(&bytes).with_context(|| format!("{} is no program", path.display()))?;
    ensure!(
        static_,
        "{} is linked dynamically, although rustc was given `{STATIC}`: an image from scratch has no libraries",
        path.display()
    );
    Ok(Binary { path, library_notices, glibc })
}

/// Returns the path of the notices of Rust's standard library.
fn library_notices() -> Result<PathBuf> {
    let sysroot = process::output(Command::new("rustc").arg("--print=sysroot"))?;
    let notices = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    ensure!(
        notices.is_file(),
        "{} is missing, which an image must have: use rustup's Rust",
        notices.display()
    );
    Ok(notices)
}

/// Returns the release of glibc that an archive is, such as `Debian GLIBC 2.36-9+deb12u14`, from the
/// string that it prints about itself.
pub(super) fn glibc_release(archive: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"GNU C Library (";
    let start = archive.windows(BANNER.len()).position(|window| window == BANNER)? + BANNER.len();
    let release = archive[start..].split(|byte| *byte == b')').next()?;
    let version = archive[start + release.len()..].split(|byte| *byte == b'\n').next()?;
    let version = version.strip_prefix(b") stable release version ")?.strip_suffix(b".")?;
    let [release, version] = [release, version].map(String::from_utf8_lossy);
    // A distribution's name for glibc has the version. Its authors call it `GNU libc`.
    Some(if release.contains(&*version) { release.into_owned() } else { format!("{release} {version}") })
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
