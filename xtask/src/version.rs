//! Finds version numbers in what tools print.

use std::fmt;

/// A version number of up to three parts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

impl Version {
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// Returns the first version number in `text`: two or three numbers with points between them,
    /// such as in `v7.1.0`, `iproute2-6.1.0` or `LLVM22.1.8`. Without a third number, patch is 0.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let mut rest = text;
        loop {
            let start = rest.find(|c: char| c.is_ascii_digit())?;
            let number = &rest[start..];
            let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            let parts = number[..end].trim_end_matches('.');
            if let Some(version) = Self::parse(parts) {
                return Some(version);
            }
            rest = &number[end..];
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(str::parse::<u32>);
        let major = parts.next()?.ok()?;
        let minor = parts.next()?.ok()?;
        let patch = parts.next().transpose().ok()?.unwrap_or(0);
        Some(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests;
