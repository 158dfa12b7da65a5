//! Names of interfaces, and globs over them. A MAC is a name too.

use std::{fmt, str::FromStr};

use globset::{GlobBuilder, GlobMatcher};
use serde::Serialize;
use thiserror::Error;
use vipward_common::MacAddr;

use crate::base::{address, legible::Excerpt};

/// `ALTIFNAMSIZ` less the terminating zero: the most bytes of an alternative name.
const NAME_BYTES: usize = 127;

#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PatternError {
    #[error("`{pattern}` is no interface pattern: {reason}; use a name, or a glob with *, ? and [a-z]")]
    Glob { pattern: Excerpt, reason: Excerpt },
    #[error("`{name}` is no interface name: {reason}")]
    Name { name: Excerpt, reason: &'static str },
}

/// A name of one interface: its own, an alternative one, or its MAC in the form of [`MacAddr`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(transparent)]
pub struct InterfaceName(Box<str>);

impl InterfaceName {
    /// Parses a name. Fails if the kernel has none like it, and it is no MAC.
    pub fn parse(name: &str) -> Result<Self, PatternError> {
        if let Some(mac) = mac_of_one(name) {
            return Ok(Self(mac.to_string().into()));
        }
        let fault = |reason| PatternError::Name { name: name.into(), reason };
        if name.is_empty() {
            Err(fault("it is empty"))
        } else if name.len() > NAME_BYTES {
            Err(fault("the kernel's names have 127 bytes at most"))
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

/// Returns the MAC, if the text is one that an interface can have.
fn mac_of_one(text: &str) -> Option<MacAddr> {
    address::mac(text).filter(|mac| mac.is_unicast())
}

/// The name of an interface, its MAC, or a glob over names.
#[derive(Clone, Debug, Serialize)]
#[serde(into = "String")]
pub struct InterfacePattern {
    text: Box<str>,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Name,
    Mac(MacAddr),
    Glob(Box<GlobMatcher>),
}

impl InterfacePattern {
    fn parse(text: &str) -> Result<Self, PatternError> {
        let fault = |reason: &str| PatternError::Glob { pattern: text.into(), reason: reason.into() };
        if !text.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return match InterfaceName::parse(text) {
                Ok(name) => {
                    Ok(Self { kind: mac_of_one(&name.0).map_or(Kind::Name, Kind::Mac), text: name.0 })
                }
                Err(PatternError::Name { reason, .. }) => Err(fault(reason)),
                Err(other) => Err(other),
            };
        }
        if text.contains(['{', '}', '\\']) || text.contains(is_never_in_a_name) {
            return Err(fault("it has a character that no glob over interface names needs"));
        }
        let glob = GlobBuilder::new(text).build().map_err(|error| fault(&error.kind().to_string()))?;
        Ok(Self { text: text.into(), kind: Kind::Glob(Box::new(glob.compile_matcher())) })
    }

    pub fn exactly(name: &str) -> Self {
        Self { text: name.into(), kind: Kind::Name }
    }

    /// Returns true if a name matches. A MAC is the name of no interface to the kernel.
    pub fn matches(&self, name: &str) -> bool {
        match &self.kind {
            Kind::Name => &*self.text == name,
            Kind::Mac(_) => false,
            Kind::Glob(matcher) => matcher.is_match(name),
        }
    }

    pub fn mac(&self) -> Option<MacAddr> {
        match self.kind {
            Kind::Mac(mac) => Some(mac),
            Kind::Name | Kind::Glob(_) => None,
        }
    }

    /// Returns the name or MAC, if the pattern is no glob.
    pub fn literal(&self) -> Option<&str> {
        match self.kind {
            Kind::Name | Kind::Mac(_) => Some(&self.text),
            Kind::Glob(_) => None,
        }
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
