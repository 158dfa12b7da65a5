//! The findings on claims, and the lines that were logged.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    base::{retrying::Writes, time::Monotonic},
    reports::{
        claim_findings::Aspect,
        refusals::{Refusals, RefusedStatuses},
        seldom::Seldom,
    },
};

/// The most repairs that are logged within a minute. A user or a program may edit a claim as often
/// as its holder repairs it. A store that went back may have thousands of old objects.
const MOST_REPAIRS: usize = 64;

/// Refusals and repairs that were logged.
#[derive(Debug)]
pub(super) struct News {
    pub(super) refusals: Refusals,
    pub(super) statuses: RefusedStatuses,
    pub(super) repairs: Seldom<String, ()>,
}

impl Default for News {
    fn default() -> Self {
        let repairs = Seldom::start(MOST_REPAIRS);
        Self { refusals: Refusals::default(), statuses: RefusedStatuses::default(), repairs }
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
    /// Conflicts that this node has reported, with the reported text and the time of the last Event.
    pub(super) conflicted: BTreeMap<IpAddr, (String, Monotonic)>,
    pub(super) writes: Writes<(IpAddr, Aspect), Show>,
}
