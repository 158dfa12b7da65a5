//! `image`: builds the agent as a static binary, and an image with nothing else in it.

mod binary;
mod engine;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use self::engine::{Engine, EngineKind};
use crate::{
    build_ebpf,
    process::{self, Stopwatch},
    setup::{self, Need},
    workspace::Workspace,
};

/// The image's name; its tag is the workspace's version.
const NAME: &str = "vipward";
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

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
    build_ebpf::build_embedded(workspace)?;
    let binary = binary::build(workspace)?;
    let version = binary::version(&binary)?;
    let bytes = fs::metadata(&binary).with_context(|| format!("failed to read {}", binary.display()))?.len();
    println!("{} is static, says {NAME} {version}, and has {}", binary.display(), mebibytes(bytes));
    let Some(engine) = engine else { return Ok(()) };

    let tag = args.tag.clone().unwrap_or_else(|| format!("{NAME}:{version}"));
    process::step(&format!("building the image {tag} with {engine}"));
    let context = fill_context(workspace, &binary)?;
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

/// Fills a directory with the files of the image, and returns it.
fn fill_context(workspace: &Workspace, binary: &Path) -> Result<PathBuf> {
    let context = workspace.target.join("image");
    fs::create_dir_all(&context).with_context(|| format!("failed to create {}", context.display()))?;
    let licences = LICENCES.map(|name| workspace.root.join(name));
    for source in licences.iter().map(PathBuf::as_path).chain([binary]) {
        let name = source.file_name().expect("invariant: these are files");
        fs::copy(source, context.join(name))
            .with_context(|| format!("failed to copy {} to {}", source.display(), context.display()))?;
    }
    Ok(context)
}

/// Returns a size in MiB, rounded to a tenth.
fn mebibytes(bytes: u64) -> String {
    let tenths = (bytes * 10 + (1 << 19)) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
