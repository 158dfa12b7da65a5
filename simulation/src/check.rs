//! What must hold, looked at whenever anything that answers may have changed.

mod liveness;
mod quiet;
mod safety;

use std::{fmt, time::Duration};

use vipward::core::ownership::Command;

use crate::{schedule::Schedule, time::At, world::World};

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Which of the promises was broken.
    pub rule: &'static str,
    /// How.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.what)
    }
}

/// What the checks remember.
#[derive(Debug)]
pub(crate) struct Checks {
    /// Per VIP: whose announcement has reached whom, since both took it for the last time.
    reached: Vec<Vec<Vec<bool>>>,
    /// Per VIP: since when nobody answers although somebody should, and for how long that may be.
    dark: Vec<Option<(At, Duration)>>,
    /// Per VIP: when somebody has edited, blanked or deleted its claim the last time.
    edited: Vec<Option<At>>,
    /// The last time that anything befell the cluster.
    disturbed: At,
    /// Until when something unplanned is in force.
    faults_until: At,
    /// The last time that an agent started to which the dead may look alive.
    booted: At,
    /// Per VIP: whether it must be answered at every instant.
    guarded: Vec<bool>,
    /// Since when there was nothing but heartbeats.
    quiet_from: At,
    last_noise: Option<(usize, Command)>,
    /// Per node: its heartbeats since then.
    renewals: Vec<u32>,
    done: bool,
}

impl Checks {
    pub(crate) fn new(plan: &Schedule) -> Self {
        let (nodes, vips) = (plan.nodes.len(), plan.vips.len());
        Self {
            reached: vec![vec![vec![false; nodes]; nodes]; vips],
            dark: vec![None; vips],
            disturbed: At::default(),
            faults_until: At::default(),
            booted: At::default(),
            guarded: vec![false; vips],
            edited: vec![None; vips],
            quiet_from: At::default(),
            last_noise: None,
            renewals: vec![0; nodes],
            done: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Somebody has edited a claim by hand.
    pub(crate) fn edited(&mut self, vip: usize, now: At) {
        self.edited[vip] = Some(now);
    }

    /// Anything befell the cluster.
    pub(crate) fn disturbed(&mut self, now: At) {
        self.disturbed = now;
    }

    /// Something unplanned befell it, for so long.
    pub(crate) fn faulted(&mut self, now: At, lasts: Option<Duration>) {
        self.faults_until = self.faults_until.max(now + lasts.unwrap_or_default());
        self.guarded.fill(false);
    }

    /// An agent has started while some Lease is of a node that is dead: it cannot know yet.
    pub(crate) fn booted_among_ghosts(&mut self, now: At) {
        self.booted = now;
        self.guarded.fill(false);
    }

    /// The API server has stored that a node has taken a VIP: what was announced before is of no account.
    pub(crate) fn taken(&mut self, vip: usize, node: usize) {
        let reached = &mut self.reached[vip];
        reached[node].fill(false);
        for by in reached {
            by[node] = false;
        }
    }

    /// An agent has done something else than to renew.
    pub(crate) fn noise(&mut self, now: At, node: usize, command: &Command) {
        self.quiet_from = now;
        self.renewals.fill(0);
        self.last_noise = Some((node, command.clone()));
    }

    pub(crate) fn renewal(&mut self, node: usize) {
        self.renewals[node] += 1;
    }
}

impl World {
    /// What must hold at every instant.
    pub(crate) fn check(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.check_safety(vip);
            self.check_planned(vip);
            self.check_dark(vip);
        }
    }

    /// What time alone brings about.
    pub(crate) fn sweep(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.check_holding_over(vip);
            self.check_dark(vip);
            self.guard(vip);
        }
        self.check_quiet();
    }
}
