//! The work that an agent has begun, and what it waits for.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
};

use vipward_common::{VipEntry, VipKey};

use super::{
    answers::Examination,
    host::{Round, SomeRound},
    input::Changed,
};
use crate::{
    base::time::Monotonic,
    host::{
        placement::Placement,
        plan::{Action, Observed},
    },
    records::Session,
};

#[derive(Debug)]
pub(super) enum Work {
    /// Observe the network, and handle the notifications of a time.
    Observe(Option<(Changed, Monotonic)>),
    /// Handle notifications. If some were lost, a network before them is compared.
    Notices(Box<(Changed, Monotonic, crate::host::net::NetView)>),
    /// Bring the kernel to the desired state.
    Reconcile {
        reclaim: bool,
        is_first: bool,
    },
    /// Bring the entries of some VIPs to the desired state.
    Some(BTreeSet<IpAddr>, Then),
    Peers,
    /// Write the program's yields into the entries.
    SettleYields,
    /// Pass the segments to the proving.
    Segments,
    /// Pass the interfaces to the engine and to the Services.
    Interfaces,
    /// Let time pass on the segments.
    Tick,
    /// Read and change memberships in groups, if that is due.
    Groups,
    /// Change memberships that wait.
    ChangeGroups,
    /// Have the memberships of these VIPs follow their entries.
    Memberships(Vec<VipKey>),
    /// Begin and end rounds of listening.
    Proving,
    /// Take back the VIPs that the segments have decided on.
    TakeBack,
    /// Handle that VIPs were taken back.
    TakenBack,
    Examine,
    /// Show findings on claims.
    Show,
    /// Begin to announce.
    Started,
    /// Adopt the held entries, which could not be read before.
    Adopt,
    /// Move the lease deadline of a standalone agent.
    Beat {
        begins: bool,
    },
    /// End a taking of free VIPs that began at this time.
    Taken(Monotonic),
    /// End the agent of a file.
    Stop,
    /// End with an error.
    NotAlone(Session),
}

impl Work {
    /// A round like most.
    pub(super) const RECONCILE: Self = Self::Reconcile { reclaim: false, is_first: false };
}

/// The next step after the entries of some VIPs were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    Nothing,
    /// The Services learn which VIPs are held.
    Held,
}

/// The result that is waited for, with the work that goes on then.
#[derive(Debug)]
pub(super) enum Waiting {
    Network(Option<(Changed, Monotonic)>),
    Yields,
    Maps { reclaim: bool, is_first: bool },
    Prepared(Box<Placed>),
    Some(BTreeSet<IpAddr>, Then),
    Records(Box<SomePlaced>),
    Macs,
    Written(Box<Writing>),
    Memberships(Vec<VipKey>),
    Groups,
    Group { until: Monotonic, then: Option<Box<Writing>> },
    Held,
    LeaseDeadline,
    Seen(Box<Examination>),
}

/// A full round whose VIPs are placed.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) reclaim: bool,
    pub(super) is_first: bool,
    pub(super) yields: u64,
    pub(super) observed: Observed,
    pub(super) placement: Placement,
    /// The VIPs' interfaces before.
    pub(super) before: BTreeMap<IpAddr, u32>,
    pub(super) is_pinned: bool,
}

/// A round for some VIPs that are placed.
#[derive(Debug)]
pub(super) struct SomePlaced {
    pub(super) vips: BTreeSet<IpAddr>,
    pub(super) then: Then,
    pub(super) entries: BTreeMap<VipKey, VipEntry>,
    pub(super) placement: Placement,
}

/// Actions that are being carried out.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) kind: Kind,
    /// The number of actions with a result.
    pub(super) done: usize,
}

#[derive(Debug)]
pub(super) enum Kind {
    Full {
        round: Round,
        /// The texts of failures besides entries.
        failures: BTreeSet<String>,
        /// True if it is the first round: the engine has found the yields itself.
        is_first: bool,
    },
    Some {
        round: SomeRound,
        vips: BTreeSet<IpAddr>,
        then: Then,
    },
    Peers {
        actions: Vec<Action>,
        observed: Observed,
        failed: Option<String>,
    },
}

impl Writing {
    pub(super) fn of(kind: Kind) -> Box<Self> {
        Box::new(Self { kind, done: 0 })
    }

    pub(super) fn actions(&self) -> &[Action] {
        match &self.kind {
            Kind::Full { round, .. } => round.actions(),
            Kind::Some { round, .. } => round.actions(),
            Kind::Peers { actions, .. } => actions,
        }
    }

    /// Returns the entry before the round.
    pub(super) fn before(&self, key: &VipKey) -> Option<VipEntry> {
        let observed = match &self.kind {
            Kind::Full { round, .. } => round.observed(),
            Kind::Some { round, .. } => round.observed(),
            Kind::Peers { observed, .. } => observed,
        };
        observed.entries.get(key).copied()
    }
}

/// The work that is left.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Work that comes before further commands of the engine.
    urgent: VecDeque<Work>,
    later: VecDeque<Work>,
    pub(super) waiting: Option<Waiting>,
    /// True if the held entries are adopted after the next full round.
    pub(super) adopts: bool,
    /// True if the agent has ended: no effect follows.
    pub(super) is_over: bool,
}

impl Queue {
    /// Adds work that follows at once, in this order.
    pub(super) fn next(&mut self, work: impl IntoIterator<Item = Work, IntoIter: DoubleEndedIterator>) {
        work.into_iter().rev().for_each(|work| self.urgent.push_front(work));
    }

    /// Adds work that comes after all other.
    pub(super) fn add(&mut self, work: impl IntoIterator<Item = Work>) {
        self.later.extend(work);
    }

    pub(super) fn urgent(&mut self) -> Option<Work> {
        self.urgent.pop_front()
    }

    pub(super) fn later(&mut self) -> Option<Work> {
        self.later.pop_front()
    }
}
