//! Errors with their causes.

use std::{error::Error, io, iter};

use nix::errno::Errno;
use vipward_core::diagnosis::pinned::Unread;

/// Returns an error and its causes, the outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source())
}

/// Returns an error with all its causes as one line for people.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Returns the reason why a reading failed, and notes if this process lacks the rights.
pub(crate) fn unread(error: &(dyn Error + 'static)) -> Unread {
    let is_denied = |error: &(dyn Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        let errno = error.downcast_ref::<Errno>();
        kind == Some(io::ErrorKind::PermissionDenied) || matches!(errno, Some(Errno::EPERM | Errno::EACCES))
    };
    Unread { reason: chain(error), denied: causes(error).any(is_denied) }
}
