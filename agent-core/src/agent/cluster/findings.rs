//! The findings on claims, and the lines that were logged.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    base::retrying::Writes,
    reports::{claim_findings::Aspect, refusals::Refusals, seldom::Seldom},
};

/// The most repairs that are logged within a minute. A user or a program may edit a claim as often
/// as its holder repairs it. A store that went back may have thousands of old objects.
const MOST_REPAIRS: usize = 64;

/// Refusals and repairs that were logged.
#[derive(Debug)]
pub(super) struct News {
    pub(super) refusals: Refusals,
    pub(super) repairs: Seldom<String, ()>,
}

impl Default for News {
    fn default() -> Self {
        Self { refusals: Refusals::default(), repairs: Seldom::start(MOST_REPAIRS) }
    }
}

/// The reason for a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    /// A new finding of this node.
    News,
    /// A conflict on the claim of which no frame has arrived here for as long as a conflict lasts.
    Silence,
}

/// The findings on claims.
#[derive(Debug, Default)]
pub(super) struct Showing {
    /// Conflicts that this node has reported, with the reported text.
    pub(super) conflicted: BTreeMap<IpAddr, String>,
    pub(super) writes: Writes<(IpAddr, Aspect), Show>,
}
