//! Names of interfaces, and globs over them.

use std::{fmt, str::FromStr};

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;
use thiserror::Error;

use crate::base::legible::Excerpt;

/// `IFNAMSIZ` less the terminating zero.
const NAME_BYTES: usize = 15;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PatternError {
    #[error("`{pattern}` is no interface pattern: {reason}; use a name, or a glob with *, ? and [a-z]")]
    Glob { pattern: Excerpt, reason: Excerpt },
    #[error("`{name}` is no interface name: {reason}")]
    Name { name: Excerpt, reason: &'static str },
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct InterfaceName(Box<str>);

impl InterfaceName {
    /// Parses a name. Fails if the kernel has none like it.
    pub fn parse(name: &str) -> Result<Self, PatternError> {
        let fault = |reason| PatternError::Name { name: name.into(), reason };
        if name.is_empty() {
            Err(fault("it is empty"))
        } else if name.len() > NAME_BYTES {
            Err(fault("the kernel's names have 15 bytes at most"))
        } else if name.contains(is_never_in_a_name) || name == "." || name == ".." {
            Err(fault("the kernel's names have no slash, colon or space"))
        } else {
            Ok(Self(name.into()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns true for characters that no name of an interface has.
fn is_never_in_a_name(character: char) -> bool {
    matches!(character, '/' | ':') || character.is_whitespace() || character.is_control()
}

/// The name of an interface, or a glob over names.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "String")]
pub struct InterfacePattern {
    text: Box<str>,
    matcher: Option<Box<GlobMatcher>>,
}

impl InterfacePattern {
    fn parse(text: &str) -> Result<Self, PatternError> {
        let fault = |reason: &str| PatternError::Glob { pattern: text.into(), reason: reason.into() };
        if !text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return match InterfaceName::parse(text) {
                Ok(name) => Ok(Self { text: name.0, matcher: None }),
                Err(PatternError::Name { reason, .. }) => Err(fault(reason)),
                Err(other) => Err(other),
            };
        }
        if text.contains(['{', '}', '\\']) || text.contains(is_never_in_a_name) {
            return Err(fault("it has a character that no glob over interface names needs"));
        }
        let glob = GlobBuilder::new(text).build().map_err(|error| fault(&error.kind().to_string()))?;
        Ok(Self { text: text.into(), matcher: Some(Box::new(glob.compile_matcher())) })
    }

    pub fn exactly(name: &str) -> Self {
        Self { text: name.into(), matcher: None }
    }

    pub fn matches(&self, name: &str) -> bool {
        self.matcher.as_ref().map_or(&*self.text == name, |matcher| matcher.is_match(name))
    }

    /// Returns the name, if the pattern is no glob.
    pub fn literal(&self) -> Option<&str> {
        self.matcher.is_none().then_some(&*self.text)
    }
}

impl FromStr for InterfacePattern {
    type Err = PatternError;

    /// Parses a name, or a glob over names. Fails for any other text.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl PartialEq for InterfacePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for InterfacePattern {}

impl From<InterfacePattern> for String {
    fn from(pattern: InterfacePattern) -> Self {
        pattern.text.into()
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
