//! Lines that were logged, and the conditions of claims.

use std::{collections::BTreeMap, net::IpAddr};

use super::input::Shows;
use crate::{
    base::retrying::Writes,
    reports::{
        refusals::Refusals,
        repairs::Repairs,
        shown::{Aspect, Finding},
    },
};

/// Refusals and repairs that were logged.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) refusals: Refusals,
    pub(super) repairs: Repairs,
}

/// The reason for a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Show {
    /// A new finding of this node.
    News,
    /// A conflict on the claim that this node has not heard for as long as a conflict lasts.
    Silence,
}

/// The findings on claims.
#[derive(Debug, Default)]
pub(super) struct Showing {
    /// Conflicts that this node has reported, with the reported text.
    pub(super) conflicted: BTreeMap<IpAddr, String>,
    /// Writes that show findings.
    pub(super) writes: Writes<(IpAddr, Aspect), Show>,
    /// The claims that show something.
    pub(super) shows: BTreeMap<IpAddr, Shows>,
}

impl Showing {
    pub(super) fn set(&mut self, vip: IpAddr, shows: Option<Box<Shows>>) {
        match shows {
            Some(shows) => _ = self.shows.insert(vip, *shows),
            None => _ = self.shows.remove(&vip),
        }
    }

    /// Returns true if the claim shows this finding.
    pub(super) fn is_shown(&self, vip: IpAddr, finding: &Finding) -> bool {
        let nothing = Shows::default();
        let shows = self.shows.get(&vip).unwrap_or(&nothing);
        match finding {
            Finding::Conflict(conflict) => shows.is_conflict(conflict.as_deref()),
            Finding::Answers(_, unanswered) => shows.is_unanswered(unanswered.as_ref()),
        }
    }
}
