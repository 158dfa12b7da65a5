//! The kinds of objects that are pools, and how pools of both are named.

use std::{fmt, sync::Arc};

use crate::base::legible::Excerpt;

/// Separates kind and name. No object's name has it.
const SEPARATOR: char = '/';

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PoolKind {
    VipPool,
    IpAddressPool,
}

impl PoolKind {
    /// Returns the name of a pool of this kind among all pools. A `VIPPool` has its own name, and an
    /// `IPAddressPool` its kind before it: `IPAddressPool/lan`.
    pub fn key(self, name: &str) -> Arc<str> {
        match self {
            Self::VipPool => name.into(),
            Self::IpAddressPool => format!("{}{SEPARATOR}{name}", self.name()).into(),
        }
    }

    /// Returns the kind and the object's name of the pool that has this name among all pools.
    pub fn of(key: &str) -> (Self, &str) {
        match key.split_once(SEPARATOR) {
            Some((kind, name)) if kind == Self::IpAddressPool.name() => (Self::IpAddressPool, name),
            Some(_) | None => (Self::VipPool, key),
        }
    }

    /// Returns its name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::VipPool => "VIPPool",
            Self::IpAddressPool => "IPAddressPool",
        }
    }

    /// Returns the command that lists the pools of this kind, without `kubectl get`.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::VipPool => "vippools",
            Self::IpAddressPool => "ipaddresspools -A",
        }
    }

    /// Returns the annotation by which a Service names a pool of this kind.
    pub(crate) fn annotation(self) -> &'static str {
        match self {
            Self::VipPool => "vipward.io/pool",
            Self::IpAddressPool => "metallb.io/address-pool",
        }
    }

    /// Returns the fields with the selectors of Services and of namespaces. `#` stands for a position.
    pub(crate) fn selector_fields(self) -> (&'static str, &'static str) {
        match self {
            Self::VipPool => ("serviceSelector", "namespaceSelector"),
            Self::IpAddressPool => {
                ("serviceAllocation.serviceSelectors[#]", "serviceAllocation.namespaceSelectors[#]")
            }
        }
    }
}

/// A pool's kind and name, as messages have them, by its name among all pools.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = PoolKind::of(self.0);
        write!(f, "{} {}", kind.name(), Excerpt::from(name))
    }
}
