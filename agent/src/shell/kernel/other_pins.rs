//! Vipward's pin directories on every bpffs that is mounted here: an agent that was killed, or another one
//! that runs, may have pinned a program under a directory that no option names.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use vipward_core::{diagnosis::doctor::OtherPins, host::net::NetView};

use super::{bpf::Pins, preflight::user_of};

const MOUNTS: &str = "/proc/thread-self/mountinfo";
/// The levels below a mount that are searched.
const DEPTH: usize = 4;

/// Returns all pin directories of Vipward that are in sight, each once.
pub fn all() -> io::Result<Vec<PathBuf>> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for mount in mounts(&fs::read_to_string(MOUNTS)?) {
        search(&mount, DEPTH, &mut seen, &mut found);
    }
    Ok(found)
}

/// Returns the directories whose programs run on interfaces of this network namespace, without `own`.
pub fn running(own: &Path, view: &NetView) -> io::Result<Vec<OtherPins>> {
    let own = identity(own).ok();
    let mut running = Vec::new();
    for dir in all()? {
        if own.is_some() && identity(&dir).ok() == own {
            continue;
        }
        let links = Pins::new(&dir).links().map_err(io::Error::other)?;
        let programs: Vec<_> = links
            .iter()
            .filter_map(|link| {
                // An interface of another network namespace may have the same index.
                let (interface, id) = (view.interfaces.get(&link.ifindex)?, link.ids().ok()?.program);
                let tc = interface.tc_programs.as_deref().unwrap_or_default();
                let runs = interface.xdp_programs.contains(&id) || tc.contains(&id);
                runs.then_some((link.ifindex, id))
            })
            .collect();
        if !programs.is_empty() {
            running.push(OtherPins { agent: user_of(&dir)?, dir, programs });
        }
    }
    Ok(running)
}

/// Returns the device and the inode: a bpffs may be mounted at several places.
fn identity(dir: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(dir).map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Adds the pin directories at and below `dir`. What may not be read is left out.
fn search(dir: &Path, depth: usize, seen: &mut BTreeSet<(u64, u64)>, found: &mut Vec<PathBuf>) {
    if !identity(dir).is_ok_and(|identity| seen.insert(identity)) {
        return;
    }
    if Pins::new(dir).are_vipwards().unwrap_or(false) {
        found.push(dir.to_owned());
    }
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    for entry in entries.filter(|entry| depth > 0 && entry.file_type().is_ok_and(|it| it.is_dir())) {
        search(&entry.path(), depth - 1, seen, found);
    }
}

/// Returns the mount points of each bpffs, by lines like `26 22 0:23 / /sys/fs/bpf rw - bpf bpf rw`.
fn mounts(mounts: &str) -> Vec<PathBuf> {
    let mount_point = |line: &str| {
        let (mount, filesystem) = line.split_once(" - ")?;
        // A space in a path is written as an octal number.
        let at = mount.split(' ').nth(4)?.replace("\\040", " ");
        filesystem.starts_with("bpf ").then(|| PathBuf::from(at))
    };
    mounts.lines().filter_map(mount_point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bpffs_is_found_by_its_mount_point() {
        let text = "26 22 0:23 / /sys/fs/bpf rw,nosuid shared:7 - bpf bpf rw,mode=700\n\
                    27 22 0:24 / /run/a\\040b rw - bpf none rw\n\
                    28 22 0:25 / /bpf rw - tmpfs bpf rw\ncut";
        assert_eq!(mounts(text), ["/sys/fs/bpf", "/run/a b"].map(PathBuf::from));
    }
}
