//! `image`: builds the agent as a static binary, and an image with nothing else in it.

mod binary;
mod engine;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use self::{
    binary::Binary,
    engine::{Engine, EngineKind},
};
use crate::{
    build_ebpf, licences,
    process::{self, Stopwatch},
    setup::{self, Need},
    workspace::Workspace,
};

/// The image's name; its tag is the workspace's version.
const NAME: &str = "vipward";
/// Files of the workspace that go with a binary.
const LICENCES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", licences::LIST];
/// Name of the notices of Rust's standard library beside these.
const LIBRARY_NOTICES: &str = "RUST-LIBRARY.html";
/// Name of the note about glibc beside these.
const GLIBC_NOTE: &str = "GLIBC.txt";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Name and tag, with your registry if you push it there [default: vipward:VERSION]
    #[arg(long, value_name = "NAME:TAG")]
    tag: Option<String>,
    /// The program that builds the image [default: the first of these that works]
    #[arg(long, value_enum)]
    engine: Option<EngineKind>,
    /// Also save it as an archive, for `kind load image-archive`, `ctr images import` or
    /// `k3s ctr images import`
    #[arg(long, value_name = "FILE")]
    archive: Option<PathBuf>,
    /// Only build the static binary
    #[arg(long, conflicts_with_all = ["tag", "engine", "archive"])]
    binary_only: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let watch = Stopwatch::start();
    // Before the build, to fail early.
    let engine = if args.binary_only { None } else { Some(Engine::find(args.engine)?) };
    setup::ensure(workspace, &[Need::Build])?;
    licences::check(workspace)?;
    build_ebpf::build_embedded(workspace)?;
    let binary = binary::build(workspace)?;
    let version = binary::version(&binary.path)?;
    let (path, context) = (&binary.path, workspace.target.join("image"));
    let bytes = fs::metadata(path).with_context(|| format!("failed to read {}", path.display()))?.len();
    println!("{} is static, says {NAME} {version}, and has {}", path.display(), mebibytes(bytes));
    fill(&context, workspace, &binary)?;
    println!("the licences that go with it are in {}", context.join("licenses").display());
    let Some(engine) = engine else { return Ok(()) };

    let tag = args.tag.clone().unwrap_or_else(|| format!("{NAME}:{version}"));
    process::step(&format!("building the image {tag} with {engine}"));
    engine.build(&workspace.root.join("deploy/image/Containerfile"), &context, &version, &tag)?;
    println!("{tag} is in {engine}'s storage, and has {}", engine.size(&tag)?);
    if let Some(archive) = &args.archive {
        save(&engine, &tag, archive)?;
    }
    process::step(&format!("built {tag} ({:.0} s)", watch.seconds()));
    Ok(())
}

fn save(engine: &Engine, tag: &str, archive: &Path) -> Result<()> {
    // buildah does not overwrite an archive.
    match fs::remove_file(archive) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("failed to replace {}", archive.display()));
        }
        Ok(()) | Err(_) => {}
    }
    engine.save(tag, archive)?;
    let bytes = fs::metadata(archive).with_context(|| format!("failed to read {}", archive.display()))?.len();
    println!("{} has {}", archive.display(), mebibytes(bytes));
    Ok(())
}

/// Fills a directory with the files of the image.
fn fill(context: &Path, workspace: &Workspace, binary: &Binary) -> Result<()> {
    let licences = context.join("licenses");
    fs::create_dir_all(&licences).with_context(|| format!("failed to create {}", licences.display()))?;
    let own = LICENCES.map(|name| (workspace.root.join(name), licences.join(name)));
    let others = [
        (binary.library_notices.clone(), licences.join(LIBRARY_NOTICES)),
        (binary.path.clone(), context.join(NAME)),
    ];
    for (from, to) in own.into_iter().chain(others) {
        fs::copy(&from, &to)
            .with_context(|| format!("failed to copy {} to {}", from.display(), to.display()))?;
    }
    let note = licences.join(GLIBC_NOTE);
    // xtask's version is the workspace's, as the agent's is.
    fs::write(&note, glibc_note(&binary.glibc, env!("CARGO_PKG_VERSION")))
        .with_context(|| format!("failed to write {}", note.display()))
}

/// Returns the notice that the LGPL demands with a binary that contains glibc.
fn glibc_note(release: &str, version: &str) -> String {
    format!(
        "vipward {version} is linked statically with glibc: {release}.\n\
         glibc is free software under the GNU Lesser General Public License, version 2.1 or later. The text\n\
         and glibc's notices are in {} beside this file. There is no warranty.\n\
         \n\
         To link vipward with another glibc: install it with its libc.a, and run `cargo xtask image` in the\n\
         source of vipward {version}, which is complete. The linker is `cc`, and takes the libc.a that\n\
         `cc -print-file-name=libc.a` prints.\n\
         \n\
         glibc's source is Debian's source package of that version, if Debian is named above (`apt-get source\n\
         glibc`, snapshot.debian.org), else that of the distribution named, or of https://sourceware.org/glibc.\n\
         Whoever hands this binary on offers it too (section 6 of the licence).\n",
        licences::LIST
    )
}

/// Returns a size in MiB, rounded to a tenth.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
