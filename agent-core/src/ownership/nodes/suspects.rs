//! Suspects: unresponsive nodes, and the steps to expire their sessions.

use std::collections::BTreeMap;

use crate::{
    base::time::Monotonic,
    liveness::Plan,
    records::{NodeName, Session},
};

/// Step on the way to end a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Members before this one in the set have their turn first.
    Waits { until: Monotonic },
    /// The node's Lease is being read.
    Reads,
    /// The write that ends the session is under way.
    Writes,
}

/// A node that a quorum of its voters finds unresponsive.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) session: Session,
    /// The number of the configuration whose set agrees.
    pub(super) round: u64,
    pub(super) step: Step,
}

/// The suspects. One write at a time is under way for each.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    pub(super) nodes: BTreeMap<NodeName, Suspect>,
}

impl Suspects {
    /// Returns the time of the next step.
    pub(crate) fn next(&self) -> Option<Monotonic> {
        let until = |suspect: &Suspect| match suspect.step {
            Step::Waits { until } => Some(until),
            Step::Reads | Step::Writes => None,
        };
        self.nodes.values().filter_map(until).min()
    }

    /// Records that a session answers. A write that is under way goes on.
    pub(crate) fn answers(&mut self, session: Session) {
        self.nodes.retain(|_, suspect| suspect.session != session || suspect.step == Step::Writes);
    }

    /// Forgets the nodes that the monitor no longer judges under another plan.
    pub(crate) fn keep(&mut self, plan: &Plan) {
        let is_watched = |suspect: &Suspect| {
            plan.peers.iter().any(|peer| peer.session == suspect.session && peer.watched.is_some())
        };
        self.nodes.retain(|_, suspect| suspect.step == Step::Writes || is_watched(suspect));
    }

    /// Returns true if this node is about to end a node's session.
    pub(crate) fn has(&self, node: &NodeName) -> bool {
        self.nodes.contains_key(node)
    }
}
