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

/// Returns an error with all its causes as one line. A cause that the text before it ends with is left
/// out: some libraries repeat theirs.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.dedup_by(|next, before| before.ends_with(next.as_str()));
    texts.join(": ")
}

/// Returns true if an error, or one of its causes, is that this process lacks rights.
pub fn is_denied(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| {
        let kind = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let errno = cause.downcast_ref::<Errno>();
        let unread = cause.downcast_ref::<Unread>().map(|unread| unread.cause);
        kind == Some(io::ErrorKind::PermissionDenied)
            || matches!(errno, Some(Errno::EPERM | Errno::EACCES))
            || unread == Some(Cause::Denied)
    })
}

/// Returns the reason why a reading failed, and whether this process lacks the rights.
pub(crate) fn unread(error: &(dyn Error + 'static)) -> Unread {
    let cause = if is_denied(error) { Cause::Denied } else { Cause::Failed };
    Unread { reason: chain(error), cause }
}

pub(crate) fn fact<T, E: Error + 'static>(read: Result<T, E>) -> Fact<T> {
    read.map_err(|error| unread(&error)).into()
}

/// Returns the reason why a reading of `what` failed.
pub(crate) fn unread_io(what: impl fmt::Display, error: &io::Error) -> Unread {
    unread(error).of(what)
}
