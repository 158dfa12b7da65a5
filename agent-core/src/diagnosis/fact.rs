//! Facts: what was read, or why it was not.

use std::fmt;

/// A value that was read, or the reason why it was not.
///
/// Only a value that was read can be judged. So there is no default, no empty stand-in, and no method
/// that drops the reason. This compiles:
///
/// ```
/// use std::collections::BTreeMap;
/// use vipward_core::diagnosis::fact::Fact;
///
/// fn is_quiet(claims: Fact<BTreeMap<u32, u64>>) -> Fact<bool> {
///     claims.map(|claims| claims.is_empty())
/// }
/// ```
///
/// And this does not:
///
/// ```compile_fail,E0599
/// use std::collections::BTreeMap;
/// use vipward_core::diagnosis::fact::Fact;
///
/// fn is_quiet(claims: Fact<BTreeMap<u32, u64>>) -> bool {
///     claims.unwrap_or_default().is_empty()
/// }
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fact<T> {
    Read(T),
    Unread(Unread),
}

impl<T> Fact<T> {
    /// Returns a fact that was not read, because there was no need to.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::Unread(Unread::skipped(reason))
    }

    /// Returns a fact that could not be read, for another reason than missing rights.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self::Unread(Unread::failed(reason))
    }

    /// Returns a value that was looked for, if it was found.
    pub fn found(value: Option<T>, else_why: impl FnOnce() -> String) -> Self {
        value.map_or_else(|| Self::failed(else_why()), Self::Read)
    }

    pub fn as_ref(&self) -> Fact<&T> {
        match self {
            Self::Read(value) => Fact::Read(value),
            Self::Unread(why) => Fact::Unread(why.clone()),
        }
    }

    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Read(change(value)))
    }

    /// Returns a fact that needs this one.
    pub fn and_then<U>(self, next: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Read(value) => next(value),
            Self::Unread(why) => Fact::Unread(why),
        }
    }

    /// Returns both facts, or the reason of the first that was not read.
    pub fn zip<U>(self, other: Fact<U>) -> Fact<(T, U)> {
        self.and_then(|one| other.map(|two| (one, two)))
    }
}

#[cfg(test)]
impl<T> Fact<T> {
    pub(crate) fn read_mut(&mut self) -> &mut T {
        match self {
            Self::Read(value) => value,
            Self::Unread(why) => panic!("it was not read: {why}"),
        }
    }
}

impl<T> From<Result<T, Unread>> for Fact<T> {
    fn from(read: Result<T, Unread>) -> Self {
        match read {
            Ok(value) => Self::Read(value),
            Err(why) => Self::Unread(why),
        }
    }
}

/// The reason why a fact was not read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unread {
    /// The error with its causes, or why there was no attempt.
    pub reason: String,
    pub cause: Cause,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// There was no attempt: there was nothing to read, or it was not wanted.
    Skipped,
    Failed,
    /// Root could read it.
    Denied,
}

impl Unread {
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), cause: Cause::Skipped }
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), cause: Cause::Failed }
    }

    /// Returns the reason with what is unknown for it.
    #[must_use]
    pub fn of(&self, what: impl fmt::Display) -> Self {
        Self { reason: format!("{what}: {}", self.reason), cause: self.cause }
    }

    /// Returns true if there was no attempt to read it.
    pub fn is_skipped(&self) -> bool {
        self.cause == Cause::Skipped
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unread {}
