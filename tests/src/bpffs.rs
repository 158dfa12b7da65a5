//! A BPF file system of one's own, so that the pins of tests never meet.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use tempfile::TempDir;

/// A bpffs mounted on a temporary directory; unmounted, and all pins with it, when dropped.
#[derive(Debug)]
pub struct Bpffs {
    /// None after [`Bpffs::leave`].
    directory: Option<TempDir>,
}

impl Bpffs {
    /// Mounts an empty one.
    pub fn mount() -> Result<Self> {
        crate::require_root()?;
        let directory =
            TempDir::with_prefix("vipward-bpffs-").context("failed to make a directory for bpffs")?;
        mount(Some("bpf"), directory.path(), Some("bpf"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("failed to mount bpffs on {}", directory.path().display()))?;
        Ok(Self { directory: Some(directory) })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.as_ref().expect("invariant: only leaving takes the directory").path()
    }

    /// A directory for the pins of one agent; the agent makes it.
    pub fn pin_dir(&self, agent: &str) -> PathBuf {
        self.path().join(agent)
    }

    /// Leaves it mounted until [`remove_bpffs`].
    pub fn leave(mut self) -> PathBuf {
        self.directory.take().expect("invariant: only leaving takes the directory").keep()
    }
}

impl Drop for Bpffs {
    fn drop(&mut self) {
        let Some(directory) = self.directory.take() else { return };
        if let Err(error) = unmount(directory.path()) {
            // Not to be removed recursively while something is mounted in it.
            eprintln!("{error:#}; {} is left", directory.keep().display());
        }
    }
}

/// Unmounts and removes what [`Bpffs::leave`] left.
pub fn remove_bpffs(path: &Path) -> Result<()> {
    unmount(path)?;
    std::fs::remove_dir(path).with_context(|| format!("failed to remove {}", path.display()))
}

fn unmount(path: &Path) -> Result<()> {
    // Detached: a process that is about to end may still have it open.
    umount2(path, MntFlags::MNT_DETACH).with_context(|| format!("failed to unmount {}", path.display()))
}
