//! Checks the promises of docs/SIMULATION.md whenever an answer may have changed.

mod liveness;
mod quiet;
mod restored;
mod safety;

use std::{fmt, time::Duration};

use vipward_core::ownership::Command;

use crate::{schedule::Schedule, time::At, world::World};

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

/// The state of the checks.
#[derive(Debug)]
pub(crate) struct Checks {
    /// Per VIP, receiver and sender: whether the sender's announcement has reached the receiver
    /// since both last took the VIP.
    reached: Vec<Vec<Vec<bool>>>,
    /// Per VIP: since when it is dark although some node should answer, and for how long it may be.
    dark: Vec<Option<(At, Duration)>>,
    /// Per VIP: the last time when its claim was edited, blanked or deleted by hand.
    edited: Vec<Option<At>>,
    /// The time of the last disturbance, and the number of disturbances.
    disturbed: At,
    disturbances: u32,
    /// The end of the last unplanned disturbance.
    faults_until: At,
    /// The last time when an agent started while a dead node's Lease looked alive.
    booted: At,
    /// Per VIP: whether it must be answered at every instant.
    guarded: Vec<bool>,
    /// The time of a restore that R1 has not judged yet.
    restored: Option<At>,
    /// The time of the last restore.
    last_restored: Option<At>,
    /// The value of `disturbances` when the store went away, if all was settled then.
    settled: Option<u32>,
    /// Per VIP: the node that alone answered for it then, and could continue.
    answered: Vec<Option<usize>>,
    /// The time since which there were only heartbeats.
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
            disturbances: 0,
            faults_until: At::default(),
            booted: At::default(),
            guarded: vec![false; vips],
            edited: vec![None; vips],
            restored: None,
            last_restored: None,
            settled: None,
            answered: vec![None; vips],
            quiet_from: At::default(),
            last_noise: None,
            renewals: vec![0; nodes],
            done: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Notes that a claim was edited by hand.
    pub(crate) fn edited(&mut self, vip: usize, now: At) {
        self.edited[vip] = Some(now);
    }

    /// Notes a disturbance.
    pub(crate) fn disturbed(&mut self, now: At) {
        self.disturbed = now;
        self.disturbances += 1;
    }

    /// Notes an unplanned disturbance that lasts so long.
    pub(crate) fn faulted(&mut self, now: At, lasts: Option<Duration>) {
        self.faults_until = self.faults_until.max(now + lasts.unwrap_or_default());
        self.guarded.fill(false);
    }

    /// Notes that an agent has started while a dead node's Lease looks alive to it.
    pub(crate) fn booted_among_ghosts(&mut self, now: At) {
        self.booted = now;
        self.guarded.fill(false);
    }

    /// Notes that the API server has stored that a node has taken a VIP. Earlier announcements no
    /// longer count.
    pub(crate) fn taken(&mut self, vip: usize, node: usize) {
        let reached = &mut self.reached[vip];
        reached[node].fill(false);
        for by in reached {
            by[node] = false;
        }
    }

    /// Notes that an agent has done something other than renew.
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
    /// Checks the promises that hold at every instant.
    pub(crate) fn check(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.check_safety(vip);
            self.check_planned(vip);
            self.check_dark(vip);
            self.check_goes_on(vip);
        }
    }

    /// Checks the promises that time alone can break.
    pub(crate) fn sweep(&mut self) {
        for vip in 0..self.plan.vips.len() {
            self.check_holding_over(vip);
            self.check_dark(vip);
            self.guard(vip);
        }
        self.check_restored();
        self.check_quiet();
    }
}
