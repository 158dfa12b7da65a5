//! Names and numbers of objects: nodes, Services, versions, sessions, epochs, and the name of a VIP's object.

use std::{fmt, net::IpAddr, sync::Arc};

#[cfg(test)]
mod tests;

macro_rules! shared_text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

shared_text! {
    NodeName
}

shared_text! {
    /// A `resourceVersion`. Only [`Version::is_older_than`] orders it.
    Version
}

impl Version {
    /// Returns true if this version is certainly older. Resource versions of one kind
    /// are growing numbers (Kubernetes 1.35, KEP-5504).
    ///
    /// An older version has one of three causes: the API server's store went back, a list came from
    /// a cache, or a watch has overtaken the answer to a request. In the first two cases the record
    /// is valid.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |version: &Self| version.as_str().parse::<u64>().ok();
        number(self).zip(number(other)).is_some_and(|(this, other)| this < other)
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServiceName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ServiceName {
    /// Returns the name that comes before those of all Services of a namespace.
    pub fn before(namespace: &Arc<str>) -> Self {
        Self { namespace: Arc::clone(namespace), name: "".into() }
    }

    /// Returns the name that comes before those of all Services.
    pub fn lowest() -> Self {
        Self::before(&"".into())
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Life of a node's agent: a random number, never zero. A seamless restart does not change it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Session(u64);

impl Session {
    /// Returns the session with this number. Returns none for zero.
    pub const fn from_number(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// Returns the number that the pinned lease deadline has.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Parses 16 hexadecimal digits, the format of [`fmt::Display`].
    /// Returns none for zero and for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        // `from_str_radix` accepts a sign.
        let is_number = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        u64::from_str_radix(text, 16).ok().filter(|_| is_number).and_then(Self::from_number)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Number that orders a VIP's claims. It grows with each change of
/// holder, each offer, and the repair of an older claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Returns the epoch after one more change.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Returns the name of a VIP's object: the address, of IPv6 with all digits of all groups, and with
/// `-` for `:`, which no name can have.
pub fn object_name(vip: IpAddr) -> String {
    match vip {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => v6.segments().map(|group| format!("{group:04x}")).join("-"),
    }
}

/// Returns the VIP whose object has this name. A VIP has one name only.
pub fn vip_named(name: &str) -> Option<IpAddr> {
    let vip = name.parse().ok().or_else(|| name.replace('-', ":").parse().ok())?;
    (object_name(vip) == name).then_some(vip)
}
