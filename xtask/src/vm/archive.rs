//! Fetches packages of Debian 12 without touching this machine's apt.
//!
//! apt runs with lists, cache and sources of its own. So packages of other architectures come the same
//! way, and so does everything on Ubuntu. Nothing is installed, and none of it needs root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::process;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Suites, of which the security archive has the newest kernels and 6.12.
const SUITES: [(&str, &str); 2] = [
    ("http://deb.debian.org/debian", "bookworm"),
    ("http://deb.debian.org/debian-security", "bookworm-security"),
];

/// Debian's archive for one architecture.
pub(super) struct Archive {
    dir: PathBuf,
    /// Debian's name of the architecture.
    arch: &'static str,
}

impl Archive {
    /// Downloads the lists of packages into `dir`.
    pub(super) fn open(dir: &Path, arch: &'static str) -> Result<Self> {
        let archive = Self { dir: dir.join(arch), arch };
        for part in ["lists/partial", "cache/archives/partial"] {
            let part = archive.dir.join(part);
            fs::create_dir_all(&part).with_context(|| format!("failed to make {}", part.display()))?;
        }
        let lines = SUITES.map(|(uri, suite)| format!("deb [signed-by={KEYRING}] {uri} {suite} main\n"));
        write(&archive.dir.join("sources.list"), &lines.concat())?;
        write(&archive.dir.join("status"), "")?;
        process::run(archive.apt("apt-get").args(["update", "-qq"]))?;
        Ok(archive)
    }

    /// Returns the package that a metapackage depends on, such as the newest kernel.
    pub(super) fn newest_of(&self, metapackage: &str) -> Result<String> {
        let mut show = self.apt("apt-cache");
        let shown = process::output(show.args(["show", "--no-all-versions", metapackage]))?;
        let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "));
        let first = depends.and_then(|list| list.split([' ', ',']).next());
        Ok(first.with_context(|| format!("{metapackage} depends on no package"))?.to_owned())
    }

    /// Downloads a package and unpacks it into `dir`, which appears when it is complete.
    pub(super) fn unpack(&self, package: &str, dir: &Path) -> Result<()> {
        process::step(&format!("fetching {package} ({})", self.arch));
        let (download, unpacked) = (dir.with_extension("download"), dir.with_extension("part"));
        for part in [&download, &unpacked] {
            remove(part)?;
            fs::create_dir_all(part).with_context(|| format!("failed to make {}", part.display()))?;
        }
        let mut get = self.apt("apt-get");
        process::run(get.args(["download", "-qq", package]).current_dir(&download))?;
        let entries =
            fs::read_dir(&download).with_context(|| format!("failed to list {}", download.display()))?;
        let Some(deb) = entries.flatten().next() else { bail!("apt-get left no package of {package}") };
        process::run(Command::new("dpkg-deb").arg("-x").arg(deb.path()).arg(&unpacked))?;
        remove(&download)?;
        remove(dir)?;
        fs::rename(&unpacked, dir).with_context(|| format!("failed to make {}", dir.display()))
    }

    /// Returns a program of apt that sees only this archive.
    fn apt(&self, program: &str) -> Command {
        let mut apt = Command::new(program);
        let options = [
            ("APT::Architecture", self.arch.to_owned()),
            ("APT::Architectures", self.arch.to_owned()),
            ("APT::Sandbox::User", "root".to_owned()),
            ("Dir::State", self.dir.display().to_string()),
            ("Dir::State::status", self.dir.join("status").display().to_string()),
            ("Dir::Cache", self.dir.join("cache").display().to_string()),
            ("Dir::Etc::SourceList", self.dir.join("sources.list").display().to_string()),
            ("Dir::Etc::SourceParts", "/dev/null".to_owned()),
        ];
        for (key, value) in options {
            apt.arg("-o").arg(format!("{key}={value}"));
        }
        apt
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("failed to remove {}", dir.display()))?;
    }
    Ok(())
}
