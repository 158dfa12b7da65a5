//! Mounts a private BPF file system for the pins of a test.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

/// bpffs on a temporary directory. Dropping it removes the mount and all pins.
#[derive(Debug)]
pub struct Bpffs {
    /// Directory of the mount; `None` after [`Bpffs::leave`].
    directory: Option<TempDir>,
}

impl Bpffs {
    /// Mounts an empty bpffs.
    pub fn mount() -> Result<Self> {
        crate::kit::require_root()?;
        let directory =
            TempDir::with_prefix("vipward-bpffs-").context("failed to make a directory for bpffs")?;
        mount(Some("bpf"), directory.path(), Some("bpf"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("failed to mount bpffs on {}", directory.path().display()))?;
        Ok(Self { directory: Some(directory) })
    }

    pub fn path(&self) -> &Path {
        self.directory.as_ref().expect("invariant: only leaving takes the directory").path()
    }

    /// Returns a directory for the pins of an agent, which creates it.
    pub fn pin_dir(&self, agent: &str) -> PathBuf {
        self.path().join(agent)
    }

    /// Leaves the mount for [`remove_bpffs`], and returns its path.
    pub fn leave(mut self) -> PathBuf {
        self.directory.take().expect("invariant: only leaving takes the directory").keep()
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        let Some(directory) = self.directory.take() else { return };
        if let Err(error) = unmount(directory.path()) {
            // A recursive removal would reach into the mount.
            eprintln!("{error:#}; {} is left", directory.keep().display());
        }
    }
}

/// Removes a mount that [`Bpffs::leave`] left.
pub fn remove_bpffs(path: &Path) -> Result<()> {
    unmount(path)?;
    std::fs::remove_dir(path).with_context(|| format!("failed to remove {}", path.display()))
}

fn unmount(path: &Path) -> Result<()> {
    // Detached, because a process that is ending may still have it open.
    umount2(path, MntFlags::MNT_DETACH).with_context(|| format!("failed to unmount {}", path.display()))
}
