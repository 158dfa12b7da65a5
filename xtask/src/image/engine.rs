//! Builds images with buildah, podman or docker.

use std::{fmt, path::Path, path::PathBuf, process::Command};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::process;

/// Programs that build images, in the order of preference: those without a daemon first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum EngineKind {
    Buildah,
    Podman,
    Docker,
}

impl EngineKind {
    const fn program(self) -> &'static str {
        match self {
            Self::Buildah => "buildah",
            Self::Podman => "podman",
            Self::Docker => "docker",
        }
    }
}

/// An engine that works on this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Engine {
    kind: EngineKind,
    program: PathBuf,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.program())
    }
}

impl Engine {
    /// Returns the engine that is wanted, or without a wish the first that works.
    pub(super) fn find(wanted: Option<EngineKind>) -> Result<Self> {
        let mut why = Vec::new();
        for &kind in EngineKind::value_variants().iter().filter(|kind| wanted.is_none_or(|it| it == **kind)) {
            match Self::try_one(kind) {
                Ok(engine) => return Ok(engine),
                Err(error) => why.push(format!("{}: {error:#}", kind.program())),
            }
        }
        bail!("nothing here can build an image ({}): on Debian, `apt-get install buildah`", why.join("; "))
    }

    fn try_one(kind: EngineKind) -> Result<Self> {
        let program = process::find(kind.program()).context("not installed")?;
        // `info` needs docker's daemon, and a storage driver that works here.
        process::output(Command::new(&program).arg("info"))?;
        Ok(Self { kind, program })
    }

    fn command(&self) -> Command {
        Command::new(&self.program)
    }

    pub(super) fn build(&self, containerfile: &Path, context: &Path, version: &str, tag: &str) -> Result<()> {
        let mut command = self.command();
        command.arg("build");
        command.arg("--build-arg").arg(format!("VERSION={version}")).args(["--tag", tag]);
        process::run(command.arg("--file").arg(containerfile).arg(context))
    }

    /// Returns the image's size, as the engine prints it.
    pub(super) fn size(&self, tag: &str) -> Result<String> {
        let said = process::output(self.command().args(["images", "--format", "{{.Size}}", tag]))?;
        Ok(said.lines().next().with_context(|| format!("{self} does not list {tag}"))?.trim().to_owned())
    }

    /// Saves the image as an archive in docker's format, which every runtime imports.
    pub(super) fn save(&self, tag: &str, archive: &Path) -> Result<()> {
        let mut command = self.command();
        match self.kind {
            EngineKind::Buildah => {
                command.arg("push").arg(tag).arg(format!("docker-archive:{}:{tag}", archive.display()))
            }
            EngineKind::Podman => {
                command.args(["save", "--format=docker-archive", "--output"]).arg(archive).arg(tag)
            }
            EngineKind::Docker => command.args(["save", "--output"]).arg(archive).arg(tag),
        };
        process::run(&mut command)
    }
}
