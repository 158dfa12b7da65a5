//! Errors with their causes.

use std::{error::Error, fmt, io, iter};

use nix::errno::Errno;
use vipward_core::diagnosis::fact::{Cause, Fact, Unread};

/// Returns an error and its causes, the outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source())
}

/// Returns an error with all its causes as one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the reason why a reading failed, and whether this process lacks the rights.
pub(crate) fn unread(error: &(dyn Error + 'static)) -> Unread {
    let is_denied = |error: &(dyn Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let errno = error.downcast_ref::<Errno>();
        kind == Some(io::ErrorKind::PermissionDenied) || matches!(errno, Some(Errno::EPERM | Errno::EACCES))
    };
    let cause = if causes(error).any(is_denied) { Cause::Denied } else { Cause::Failed };
    Unread { reason: chain(error), cause }
}

pub(crate) fn fact<T, E: Error + 'static>(read: Result<T, E>) -> Fact<T> {
    read.map_err(|error| unread(&error)).into()
}

/// Returns the reason why a reading of `what` failed.
pub(crate) fn unread_io(what: impl fmt::Display, error: &io::Error) -> Unread {
    unread(error).of(what)
}
