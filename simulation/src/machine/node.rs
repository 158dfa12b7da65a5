//! One node: its power, clock, interfaces and pinned program, and the agent on it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fastrand::Rng;
use vipward_common::MacAddr;
use vipward_core::records::{KeyId, NodeInterface};

use super::{
    process::Process,
    program::Program,
    time::{At, Clock},
    wired,
    witness::Truth,
};
use crate::schedule::{KINDS, NodePlan, Times, names};

/// An interface.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) mac: MacAddr,
    /// The MAC that the agent knows, and has written to the maps.
    pub(crate) known_mac: MacAddr,
    pub(crate) no_carrier: Times,
    pub(crate) changes: u8,
    /// The time since which it has this MAC.
    pub(crate) since: At,
}

/// Marks by which Kubernetes excludes a node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) cordoned: Times,
    pub(crate) not_ready: Times,
    pub(crate) excluded: Times,
    pub(crate) out_of_service: Times,
    pub(crate) network_unavailable: Times,
    pub(crate) gone: Times,
}

/// The announcement rounds of one VIP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// Counts the series of rounds; those of an earlier one are void.
    pub(crate) life: u32,
    pub(crate) is_running: bool,
    /// The time of the first announcement.
    pub(crate) began: At,
    /// The former holder for which the first announcement is repeated.
    pub(crate) former: Option<MacAddr>,
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    /// The clock that goes on while the node is suspended.
    pub(crate) boot_clock: Clock,
    pub(crate) powered: bool,
    pub(crate) frozen: Times,
    pub(crate) paused: Times,
    pub(crate) links: Vec<Link>,
    pub(crate) marks: Marks,
    pub(crate) program: Program,
    /// The peers that the program must know, because a process that had read the cluster said so.
    pub(crate) peers_due: BTreeSet<MacAddr>,
    /// The lag of the program's clock behind the node's.
    pub(crate) late: Duration,
    pub(crate) process: Option<Process>,
    /// Counts the agents that have run on this node.
    pub(crate) life: u32,
    pub(crate) rounds: Vec<Rounds>,
    /// Per VIP: counts the starts and ends of probing, so that earlier results are void.
    pub(crate) asked: Vec<u32>,
    pub(crate) cut_off: Times,
    pub(crate) refused: Times,
    pub(crate) no_answers: Times,
    pub(crate) stalled: [Times; 4],
    /// The kernel refuses changes of entries.
    pub(crate) no_changes: Times,
    /// The map has no room for another entry.
    pub(crate) no_room: Times,
    /// Time until which an edit by hand may stay unrepaired, because the kernel refused entries.
    pub(crate) refused_until: At,
    /// True if the agent was asked to leave, and none has been started since.
    pub(crate) leaves: bool,
    /// The end of the time in which the fence may look valid, because the clock stood still.
    pub(crate) dazed_until: At,
    /// The time when a watch stalled, and when it has surely shown what it missed.
    pub(crate) blind: (At, At),
    /// The time at which the fence is checked next.
    pub(crate) look: Option<At>,
    /// The delays of its pings.
    pub(crate) busy: Vec<(usize, u32)>,
    pub(crate) key_gone: Times,
    /// The keys that its agent has read.
    pub(crate) keys: Vec<KeyId>,
    /// True if the program is to have them.
    pub(crate) heeds: bool,
    /// What truly became of its pings, for each session.
    pub(crate) truth: BTreeMap<u64, Truth>,
    /// The time of the last ping of each witness that its program has answered.
    pub(crate) pinged: BTreeMap<u64, At>,
    /// The time at which its program heard of the end of its session.
    pub(crate) ended_at: At,
    /// The pings and answers that its program has heard, until it loses its power.
    pub(crate) heard: BTreeSet<(wired::Kind, u64, u64, usize, u64)>,
    /// The last time at which it heard a word of that, and at which a stranger said so falsely.
    pub(crate) told_at: At,
    pub(crate) false_at: Option<At>,
    /// The time since which its kernel and its agent have run.
    pub(crate) runs_since: At,
    /// The time since which its kernel runs and its interfaces are as they are.
    pub(crate) steady_since: At,
    /// The agent's last sign of life.
    pub(crate) last_alive: At,
    /// The time since which the agent could do everything that ownership needs.
    pub(crate) fit_since: Option<At>,
    /// The time since which it could do everything but see what has changed.
    pub(crate) acts_since: Option<At>,
    /// The noise of requests and steps.
    pub(crate) noise: Rng,
    /// The noise of watches.
    pub(crate) watch_noise: Rng,
    /// The noise of frames.
    pub(crate) wire_noise: Rng,
    /// The time at which the engine gets the last finding of its witness.
    pub(crate) found_at: At,
}

impl Node {
    pub(crate) fn new(
        index: usize,
        plan: &NodePlan,
        (segments, vips): (usize, usize),
        program: Program,
        seed: u64,
    ) -> Self {
        let mut seeds = Rng::with_seed(seed);
        let link = |segment| {
            let mac = names::mac(index, segment, 0);
            Link { mac, known_mac: mac, no_carrier: Times::default(), changes: 0, since: At::default() }
        };
        Self {
            index,
            clock: Clock::new(Duration::from_millis(plan.clock_ms.into()), plan.clock_ppm),
            // It has been suspended before.
            boot_clock: Clock::new(Duration::from_millis(u64::from(plan.clock_ms) * 3), plan.clock_ppm),
            powered: false,
            frozen: Times::default(),
            paused: Times::default(),
            links: (0..segments).map(link).collect(),
            marks: Marks::default(),
            program,
            peers_due: BTreeSet::new(),
            late: Duration::from_millis(seeds.u64(0..=8)),
            process: None,
            life: 0,
            rounds: vec![Rounds::default(); vips],
            asked: vec![0; vips],
            cut_off: Times::default(),
            refused: Times::default(),
            no_answers: Times::default(),
            stalled: <[Times; 4]>::default(),
            no_changes: Times::default(),
            no_room: Times::default(),
            refused_until: At::default(),
            leaves: false,
            dazed_until: At::default(),
            blind: (At::default(), At::default()),
            look: None,
            busy: Vec::new(),
            key_gone: Times::default(),
            keys: Vec::new(),
            heeds: true,
            truth: BTreeMap::new(),
            pinged: BTreeMap::new(),
            ended_at: At::default(),
            heard: BTreeSet::new(),
            told_at: At::default(),
            false_at: None,
            runs_since: At::default(),
            steady_since: At::default(),
            last_alive: At::default(),
            fit_since: None,
            acts_since: None,
            noise: seeds.fork(),
            watch_noise: seeds.fork(),
            wire_noise: seeds.fork(),
            found_at: At::default(),
        }
    }

    /// Returns whether its kernel handles frames.
    pub(crate) fn kernel_runs(&self) -> bool {
        self.powered && !self.frozen.any()
    }

    /// Returns whether its agent makes progress.
    pub(crate) fn agent_runs(&self) -> bool {
        self.kernel_runs() && !self.paused.any() && self.process.is_some()
    }

    /// Returns whether its agent, if one runs, can do everything that ownership needs.
    pub(crate) fn is_fit(&self, api_works: bool) -> bool {
        self.acts(api_works)
            && !KINDS.iter().any(|kind| self.stalled[*kind as usize].any())
            && self.process.as_ref().is_some_and(|process| process.watches.iter().all(|watch| watch.listed))
    }

    /// Returns whether its agent, if one runs, can do everything but see what has changed.
    pub(crate) fn acts(&self, api_works: bool) -> bool {
        api_works
            && self.agent_runs()
            && !self.cut_off.any()
            && !self.no_answers.any()
            && !self.refuses_entries()
            && !self.leaves
            && self
                .process
                .as_ref()
                .is_some_and(|process| process.synced && process.ending.is_none() && process.stale.is_empty())
    }

    /// Returns whether an entry may fail to be written.
    pub(crate) fn refuses_entries(&self) -> bool {
        self.no_changes.any() || self.no_room.any()
    }

    /// Returns its interfaces.
    pub(crate) fn node_interfaces(&self) -> Vec<NodeInterface> {
        let segments = self.links.len();
        let link = |(segment, link): (usize, &Link)| NodeInterface {
            name: names::interface(segment),
            mac: link.mac,
            subnets: names::subnets(segment, segments),
            bound: Vec::new(),
            gateways: Vec::new(),
            carrier: !link.no_carrier.any(),
        };
        self.links.iter().enumerate().map(link).collect()
    }

    /// Returns the MAC with which it would answer a request for a VIP.
    pub(crate) fn answer(&self, vip: usize, segment: usize, now: At) -> Option<MacAddr> {
        if !self.kernel_runs() {
            return None;
        }
        self.program.answer(vip, self.links[segment].known_mac, self.program_now(now))
    }

    /// Returns the program's time.
    pub(crate) fn program_now(&self, now: At) -> vipward_core::base::time::Monotonic {
        self.clock.read(now).saturating_sub(self.late)
    }
}
