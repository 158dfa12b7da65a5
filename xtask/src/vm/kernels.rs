//! Debian's kernels that the machines boot.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use super::archive::Archive;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Arch {
    Amd64,
    Arm64,
}

impl Arch {
    pub(super) const fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub(super) enum Kernel {
    /// Debian 12's own
    #[value(name = "6.1")]
    V6_1,
    /// the newer one of Debian 12
    #[value(name = "6.12")]
    V6_12,
    /// 6.1 on arm64
    #[value(name = "arm64")]
    Arm64,
}

impl Kernel {
    pub(super) const ALL: [Self; 3] = [Self::V6_1, Self::V6_12, Self::Arm64];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
            Self::Arm64 => "arm64",
        }
    }

    pub(super) const fn arch(self) -> Arch {
        match self {
            Self::V6_1 | Self::V6_12 => Arch::Amd64,
            Self::Arm64 => Arch::Arm64,
        }
    }

    /// Returns the package that depends on the newest build.
    const fn metapackage(self) -> &'static str {
        match self {
            Self::V6_1 => "linux-image-amd64",
            Self::V6_12 => "linux-image-6.12-amd64",
            Self::Arm64 => "linux-image-arm64",
        }
    }
}

#[derive(Debug)]
pub(super) struct Unpacked {
    /// Its version, as `uname -r` prints it.
    pub(super) release: String,
    pub(super) image: PathBuf,
    /// Directory of `modules.builtin` and the modules.
    pub(super) modules: PathBuf,
}

impl Unpacked {
    /// Returns the kernel that was fetched, or fetches Debian's newest.
    pub(super) fn get(kernel: Kernel, dir: &Path) -> Result<Self> {
        let root = dir.join("kernels").join(kernel.name());
        if !root.is_dir() {
            let archive = Archive::open(&dir.join("apt"), kernel.arch().debian())?;
            archive.unpack(&archive.newest_of(kernel.metapackage())?, &root)?;
        }
        Self::find(&root)
    }

    fn find(root: &Path) -> Result<Self> {
        let releases = root.join("lib/modules");
        let entries =
            fs::read_dir(&releases).with_context(|| format!("failed to list {}", releases.display()))?;
        let entry = entries.flatten().next();
        let modules = entry.with_context(|| format!("{} is empty", releases.display()))?.path();
        let release = modules.file_name().map(|name| name.to_string_lossy().into_owned());
        let release = release.with_context(|| format!("{} has no name", modules.display()))?;
        Ok(Self { image: root.join("boot").join(format!("vmlinuz-{release}")), release, modules })
    }
}
