//! Names network namespaces for `ip netns exec`.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::stat;
use nix::unistd::Pid;

use super::netns::NetNs;

/// Directory of `ip netns`.
const DIRECTORY: &str = "/run/netns";

/// Names in /run/netns. Dropping the value removes them, unless they are left.
#[derive(Debug, Default)]
pub struct NamedNamespaces {
    names: Vec<String>,
}

impl NamedNamespaces {
    /// Returns the names, as `ip netns exec` takes them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Leaves the names and the namespaces for [`remove_named`].
    pub fn leave(mut self) -> Vec<String> {
        std::mem::take(&mut self.names)
    }

    pub(super) fn add(&mut self, name: String, namespace: &NetNs) -> Result<()> {
        fs::create_dir_all(DIRECTORY).with_context(|| format!("failed to make {DIRECTORY}"))?;
        let path = path_of(&name);
        File::create_new(&path).with_context(|| format!("failed to make {}", path.display()))?;
        self.names.push(name);
        let source = format!("/proc/self/fd/{}", namespace.as_fd().as_raw_fd());
        mount(Some(source.as_str()), &path, None::<&str>, MsFlags::MS_BIND, None::<&str>)
            .with_context(|| format!("failed to bind a network namespace to {}", path.display()))
    }
}

impl Drop for NamedNamespaces {
    fn drop(&mut self) {
        for name in &self.names {
            if let Err(error) = remove_name(&path_of(name)) {
                eprintln!("{error:#}");
            }
        }
    }
}

/// Removes namespaces of a LAN that [`NamedNamespaces::leave`] left:
/// kills their processes and removes their names. Returns the names.
pub fn remove_named(lan: &str) -> Result<Vec<String>> {
    crate::kit::require_root()?;
    let prefix = prefix(lan);
    let mut names = Vec::new();
    if !Path::new(DIRECTORY).exists() {
        return Ok(names);
    }
    for entry in fs::read_dir(DIRECTORY).with_context(|| format!("failed to list {DIRECTORY}"))? {
        let entry = entry?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if name.starts_with(&prefix) {
            kill_processes_in(&entry.path())?;
            remove_name(&entry.path())?;
            names.push(name);
        }
    }
    Ok(names)
}

/// Returns the prefix of a LAN's namespaces; pid and host follow.
pub(super) fn prefix(lan: &str) -> String {
    format!("vw-{lan}-")
}

fn path_of(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(name)
}

fn remove_name(path: &Path) -> Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        // The name exists without a mount if binding the namespace failed.
        Ok(()) | Err(Errno::EINVAL) => {}
        Err(error) => return Err(error).with_context(|| format!("failed to unmount {}", path.display())),
    }
    fs::remove_file(path).with_context(|| format!("failed to remove {}", path.display()))
}

fn kill_processes_in(namespace: &Path) -> Result<()> {
    let inode = |path: &Path| stat(path).map(|status| (status.st_dev, status.st_ino));
    let wanted = inode(namespace).with_context(|| format!("failed to stat {}", namespace.display()))?;
    for entry in fs::read_dir("/proc").context("failed to list /proc")? {
        let entry = entry?;
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process that has ended has no namespace.
        if inode(&entry.path().join("ns/net")) == Ok(wanted) {
            match kill(Pid::from_raw(pid), Signal::SIGKILL) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("failed to kill {pid}")),
            }
        }
    }
    Ok(())
}
