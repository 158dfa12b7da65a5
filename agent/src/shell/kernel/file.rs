//! Reads a file that an operator names: a regular one, of limited size.
//!
//! A file system that does not answer holds the reader for ever. So each reading has a thread of its own.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use thiserror::Error;

#[cfg(test)]
mod tests;

/// The time that a reading may take.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// The largest file. 65,536 VIPs in their longest form take 9 MiB.
const MOST_BYTES: u64 = 16 << 20;
/// The most threads that wait for a file system.
const MOST_THREADS: usize = 16;

/// The reason why a file is not read, or no further.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("it is {kind}; give a regular file")]
    NotRegular { kind: &'static str },
    #[error("it is larger than {} MiB", MOST_BYTES >> 20)]
    TooLarge,
    #[error("it could not be read within {} s: its file system does not answer", PATIENCE.as_secs())]
    TooSlow,
    #[error("earlier attempts still wait for its file system")]
    TooMany,
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        let kind = match error {
            FileError::NotRegular { .. } => io::ErrorKind::InvalidInput,
            FileError::TooLarge => io::ErrorKind::FileTooLarge,
            FileError::TooSlow | FileError::TooMany => io::ErrorKind::TimedOut,
        };
        Self::new(kind, error)
    }
}

/// The reason why a file was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The file is no good, whenever it is read.
    File,
    /// The file is not there.
    Gone,
    /// It may be read later. Nothing reports when.
    System,
    /// The attempt goes on.
    Slow,
}

/// Returns the reason why a file was not read.
pub fn cause(error: &io::Error) -> Cause {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()) {
        Some(FileError::NotRegular { .. } | FileError::TooLarge) => Cause::File,
        Some(FileError::TooSlow) => Cause::Slow,
        None if error.kind() == io::ErrorKind::InvalidData => Cause::File,
        None if error.kind() == io::ErrorKind::NotFound => Cause::Gone,
        Some(FileError::TooMany) | None => Cause::System,
    }
}

/// Reads a regular file. May take for ever.
pub fn read(path: &Path) -> io::Result<String> {
    // A FIFO would be waited for.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        // A socket cannot be opened.
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            return Err(FileError::NotRegular { kind: "a socket or a device" }.into());
        }
        Err(error) => return Err(error),
    };
    if let Some(kind) = other_kind(&file)? {
        return Err(FileError::NotRegular { kind }.into());
    }
    let mut text = String::new();
    if file.take(MOST_BYTES + 1).read_to_string(&mut text)? as u64 > MOST_BYTES {
        return Err(FileError::TooLarge.into());
    }
    Ok(text)
}

/// Returns the kind of a file that is not regular.
fn other_kind(file: &File) -> io::Result<Option<&'static str>> {
    let kind = file.metadata()?.file_type();
    Ok(if kind.is_file() {
        None
    } else if kind.is_dir() {
        Some("a directory")
    } else if kind.is_fifo() {
        Some("a FIFO")
    } else if kind.is_char_device() || kind.is_block_device() {
        Some("a device")
    } else {
        Some("no regular file")
    })
}

/// The threads that wait for a file system.
#[derive(Clone, Default, Debug)]
pub struct Threads(Arc<()>);

impl Threads {
    /// Does `work` in a thread of these.
    pub fn run(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        if Arc::strong_count(&self.0) > MOST_THREADS {
            return Err(FileError::TooMany.into());
        }
        let held = Arc::clone(&self.0);
        let work = move || {
            work();
            drop(held);
        };
        thread::Builder::new().name("file".to_owned()).spawn(work)?;
        Ok(())
    }
}
