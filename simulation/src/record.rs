//! The record of a run: what its promises are checked against, what it is worth, and its trace.

mod facts;
mod served;
mod tenants;
pub(crate) mod trace;
mod wire;

use std::{collections::BTreeSet, fmt, time::Duration};

use vipward_core::{
    agent::Effect,
    records::{NodeName, Session},
};

pub use self::facts::{Among, Facts, Tally};
use self::trace::Trace;
pub(crate) use self::{
    tenants::{Kept, TenantsRecord},
    wire::{Crash, Mild, WireRecord},
};
use crate::{machine::At, schedule::Schedule};

/// The time without a disturbance after which all nodes are up to date.
const SETTLED: Duration = Duration::from_secs(5);

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The promise.
    pub rule: &'static str,
    /// The details.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What was done to claims by others than agents. Each per VIP, but for the last.
#[derive(Debug)]
pub(crate) struct People {
    /// The last time when its claim was edited, blanked or deleted by hand.
    pub(crate) edited: Vec<Option<At>>,
    /// The last time when a node held it, or could have taken it.
    pub(crate) occupied: Vec<At>,
    /// The last time when a node's Lease listed its address.
    pub(crate) listed: Vec<At>,
    /// The node and session for which a token has claimed it, without the node's agent.
    pub(crate) lied: Vec<Option<(NodeName, Session)>>,
    /// And per node: whether it answered for the VIP at that time, and ran no agent.
    pub(crate) helpless: Vec<Vec<bool>>,
    /// True if an agent has begun without a claim that names the owner.
    pub(crate) unrecorded: Vec<bool>,
    /// The last time when a stranger's Service came or went.
    pub(crate) strangers: At,
}

/// The disturbances so far.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    /// The time of the last one, and their number.
    pub(crate) disturbed: At,
    pub(crate) disturbances: u32,
    /// The time before it without any, the number of those that began with it, and how many of these
    /// were crashes.
    before: Duration,
    pub(crate) batch: u32,
    pub(crate) batch_crashes: u32,
    /// The number of lasting disturbances that are in force, or were when the last one began.
    pub(crate) in_force: u32,
    /// The end of the last unplanned one.
    pub(crate) faults_until: At,
    /// The last time when an agent started while a dead node's Lease looked alive.
    pub(crate) booted: At,
}

/// The restores of a backup.
#[derive(Debug)]
pub(crate) struct Backup {
    /// The time of a restore that R1 has not judged yet.
    pub(crate) restored: Option<At>,
    /// The time of the last restore.
    pub(crate) last_restored: Option<At>,
    /// The number of disturbances when the store went away, if all was settled then.
    pub(crate) settled: Option<u32>,
    /// Per VIP: the node that alone answered for it then, and could continue.
    pub(crate) answered: Vec<Option<usize>>,
}

/// The time in which agents only sent heartbeats.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Its beginning, and the last thing before it.
    pub(crate) from: At,
    pub(crate) last_noise: Option<(usize, Effect)>,
    /// Per node: its heartbeats since then.
    pub(crate) renewals: Vec<u32>,
    pub(crate) done: bool,
}

/// The VIPs in whose names no host hears their holders.
#[derive(Debug)]
pub(crate) struct Unheard {
    /// Per VIP: since when its holder knows.
    pub(crate) since: Vec<Option<At>>,
    /// Per VIP: the last holder.
    pub(crate) holders: Vec<Option<NodeName>>,
    /// Per VIP: the number of disturbances at the time of its offer.
    pub(crate) offered: Vec<Option<u32>>,
    /// The moves for that: the VIP, the former holder, and the number of disturbances at the time of the offer.
    pub(crate) left: BTreeSet<(usize, NodeName, u32)>,
}

/// The record of a run.
#[derive(Debug)]
pub(crate) struct Record {
    /// The first broken promise.
    pub(crate) violation: Option<Violation>,
    pub(crate) facts: Facts,
    pub(crate) trace: Trace,
    /// Per VIP, receiver and sender: whether the sender's announcement has reached the receiver
    /// since both last took the VIP.
    pub(crate) reached: Vec<Vec<Vec<bool>>>,
    /// Per VIP: since when it is dark although some node should answer, and for how long it may be.
    pub(crate) dark: Vec<Option<(At, Duration)>>,
    /// Per VIP: since when it is where no proxy delivers.
    pub(crate) undelivered: Vec<Option<At>>,
    pub(crate) unheard: Unheard,
    /// Per VIP: the last time when its claim's holder changed.
    pub(crate) changed_hands: Vec<At>,
    /// Per node: the time of the last change of its Lease.
    pub(crate) leases: Vec<At>,
    /// Per VIP: the time of the next check of a former holder that is being notified.
    pub(crate) notified_check: Vec<At>,
    /// Per VIP: whether it must be answered at every instant.
    pub(crate) guarded: Vec<bool>,
    /// What concerns wire failover.
    pub(crate) wire: WireRecord,
    pub(crate) tenants: TenantsRecord,
    pub(crate) people: People,
    pub(crate) trouble: Trouble,
    pub(crate) backup: Backup,
    pub(crate) rest: Rest,
    /// The last time when an Event was refused or deleted, and when the outcome of a write was unknown.
    pub(crate) events_lost: Option<At>,
    pub(crate) events_unknown: Option<At>,
}

impl Record {
    pub(crate) fn new(plan: &Schedule, traced: bool) -> Self {
        let (nodes, vips) = (plan.nodes.len(), plan.vips.len());
        Self {
            violation: None,
            facts: Facts::default(),
            trace: Trace::new(traced),
            reached: vec![vec![vec![false; nodes]; nodes]; vips],
            dark: vec![None; vips],
            undelivered: vec![None; vips],
            unheard: Unheard {
                since: vec![None; vips],
                holders: vec![None; vips],
                offered: vec![None; vips],
                left: BTreeSet::new(),
            },
            changed_hands: vec![At::default(); vips],
            leases: vec![At::default(); nodes],
            notified_check: vec![At::default(); vips],
            guarded: vec![false; vips],
            wire: WireRecord::default(),
            tenants: TenantsRecord::new(plan.tenants.as_ref().map_or(0, |plan| plan.services.len()), vips),
            people: People {
                edited: vec![None; vips],
                occupied: vec![At::default(); vips],
                listed: vec![At::default(); vips],
                lied: vec![None; vips],
                helpless: vec![vec![false; nodes]; vips],
                unrecorded: vec![false; vips],
                strangers: At::default(),
            },
            trouble: Trouble::default(),
            backup: Backup { restored: None, last_restored: None, settled: None, answered: vec![None; vips] },
            rest: Rest { from: At::default(), last_noise: None, renewals: vec![0; nodes], done: false },
            events_lost: None,
            events_unknown: None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.rest.done
    }

    /// Records that a claim was edited by hand, while these nodes answered for the VIP and ran no agent.
    pub(crate) fn edited(&mut self, vip: usize, helpless: Vec<bool>, now: At) {
        self.people.edited[vip] = Some(now);
        self.people.helpless[vip] = helpless;
    }

    pub(crate) fn disturbed(&mut self, now: At) {
        if now != self.trouble.disturbed {
            self.trouble.before = now.since(self.trouble.disturbed);
            (self.trouble.batch, self.trouble.batch_crashes) = (0, 0);
        }
        self.trouble.disturbed = now;
        self.trouble.disturbances += 1;
        self.trouble.batch += 1;
    }

    /// Returns the time without a disturbance before the last one.
    pub(crate) fn calm_before(&self) -> Duration {
        self.trouble.before
    }

    /// Records an unplanned disturbance that lasts so long.
    pub(crate) fn faulted(&mut self, now: At, lasts: Option<Duration>) {
        self.trouble.faults_until = self.trouble.faults_until.max(now + lasts.unwrap_or_default());
        self.guarded.fill(false);
    }

    /// Records that an agent has started while a dead node's Lease seems to be renewed.
    pub(crate) fn booted_among_ghosts(&mut self, now: At) {
        self.trouble.booted = now;
        self.guarded.fill(false);
    }

    /// Records that a node has taken a VIP by a stored claim. Earlier announcements no longer count.
    pub(crate) fn taken(&mut self, vip: usize, node: usize, now: At) {
        let reached = &mut self.reached[vip];
        self.changed_hands[vip] = now;
        reached[node].fill(false);
        for by in reached {
            by[node] = false;
        }
    }

    /// Records that a node has taken a yielded VIP back, as no other host answers it. It need not yield to
    /// earlier announcements any more.
    pub(crate) fn taken_back(&mut self, vip: usize, node: usize) {
        self.reached[vip][node].fill(false);
    }

    /// Records that an agent has done something other than renew.
    pub(crate) fn noise(&mut self, now: At, what: Option<(usize, Effect)>) {
        self.rest.from = now;
        self.rest.renewals.fill(0);
        self.rest.last_noise = what;
    }

    pub(crate) fn renewal(&mut self, node: usize) {
        self.rest.renewals[node] += 1;
    }

    /// Records that the store has gone away. `open` counts the disturbances in force, with this one.
    pub(crate) fn store_away(&mut self, open: usize, now: At) {
        let is_settled = open == 1 && now.since(self.trouble.disturbed) > SETTLED;
        self.backup.settled = is_settled.then_some(self.trouble.disturbances);
    }

    /// Records that the store has gone back.
    pub(crate) fn restored(&mut self, now: At) {
        self.backup.restored = Some(now);
        self.backup.last_restored = Some(now);
        self.backup.answered.fill(None);
        for by in self.reached.iter_mut().flatten() {
            by.fill(false);
        }
    }
}
