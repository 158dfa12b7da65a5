//! The initial file system of a machine: an archive in cpio's `newc` format.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use super::modules::Module;

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
/// Name that ends the archive.
const TRAILER: &str = "TRAILER!!!";

/// Archive that grows file by file.
pub(super) struct Initramfs {
    bytes: Vec<u8>,
    entries: u32,
}

impl Initramfs {
    /// Returns an archive with empty directories, busybox and modules.
    pub(super) fn new(busybox: &Path, modules: &[Module]) -> Result<Self> {
        let mut archive = Self { bytes: Vec::new(), entries: 0 };
        for dir in ["bin", "sbin", "usr", "usr/bin", "usr/sbin", "dev", "proc", "sys", "tmp", "run", "root"] {
            archive.add(dir, DIRECTORY, &[]);
        }
        archive.program("bin/busybox", busybox)?;
        archive.add("modules", DIRECTORY, &[]);
        let mut order = String::new();
        for Module { name, bytes } in modules {
            archive.add(&format!("modules/{name}.ko"), PROGRAM, bytes);
            let _ = writeln!(order, "{name}");
        }
        archive.add("modules/order", PROGRAM, order.as_bytes());
        Ok(archive)
    }

    pub(super) fn script(&mut self, path: &str, text: &str) {
        self.add(path, PROGRAM, text.as_bytes());
    }

    /// Adds a program of this machine.
    pub(super) fn program(&mut self, path: &str, file: &Path) -> Result<()> {
        let bytes = fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        self.add(path, PROGRAM, &bytes);
        Ok(())
    }

    /// Adds a directory and the files of a directory of this machine, but no directories in it.
    pub(super) fn files(&mut self, path: &str, dir: &Path) -> Result<()> {
        self.add(path, DIRECTORY, &[]);
        let entries = fs::read_dir(dir).with_context(|| format!("failed to list {}", dir.display()))?;
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| file.is_file());
        for file in files {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            self.program(&format!("{path}/{name}"), &file)?;
        }
        Ok(())
    }

    /// Ends the archive and writes it.
    pub(super) fn write(mut self, path: &Path) -> Result<()> {
        self.add(TRAILER, 0, &[]);
        fs::write(path, &self.bytes).with_context(|| format!("failed to write {}", path.display()))
    }

    fn add(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let size = u32::try_from(content.len()).expect("invariant: no file has 4 GiB");
        let name_size = u32::try_from(name.len() + 1).expect("invariant: names are short");
        // Inode, mode, owner, group, links, time, size, device (2), special device (2), name size,
        // checksum (unused).
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(name.bytes().chain([0]));
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    /// Fills up to a multiple of four bytes.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}
