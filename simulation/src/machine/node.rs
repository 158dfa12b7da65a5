//! One node: its power, clock, interfaces and pinned program, and the agent on it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use fastrand::Rng;
use ipnet::IpNet;
use vipward_common::{DeadlineState, Event, MacAddr};
use vipward_core::{
    agent::Network,
    host::{
        attaching::{Attachments, Mode, OwnProgram},
        net::{ConnectedRoute, Interface, NetView},
    },
    records::KeyId,
};

use super::{
    monitor::Truth,
    process::{Process, Watch},
    program::Program,
    proxy::ServiceProxy,
    time::{At, Clock},
    wired,
};
use crate::schedule::{Drops, Kind, MOST_KINDS, NodePlan, Times, names};

/// The kernel's number of the program.
pub(crate) const PROGRAM: u32 = 1;

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

/// What disturbs a node now.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) frozen: Times,
    pub(crate) paused: Times,
    pub(crate) cut_off: Times,
    pub(crate) refused: Times,
    pub(crate) no_answers: Times,
    /// The kinds of its writes that an admission policy refuses.
    pub(crate) denied: [Times; 3],
    pub(crate) stalled: [Times; MOST_KINDS],
    /// The kernel refuses changes of entries.
    pub(crate) no_changes: Times,
    /// The map has no room for another entry.
    pub(crate) no_room: Times,
    /// The filters in force, by what they drop.
    pub(crate) filtered: [Times; 2],
    /// The delays of its pings.
    pub(crate) busy: Vec<(usize, u32)>,
    pub(crate) key_gone: Times,
}

impl Faults {
    /// Returns true if the network drops these frames of its VIPs.
    pub(crate) fn drops(&self, frames: Drops) -> bool {
        self.filtered[frames as usize].any()
    }
}

/// The times at which something has changed on a node.
#[derive(Debug, Default)]
pub(crate) struct Since {
    /// The time since which its kernel and its agent have run.
    pub(crate) runs: At,
    /// The time since which its kernel runs and its interfaces are as they are.
    pub(crate) steady: At,
    /// The time at which its lease deadline became valid last.
    pub(crate) valid: At,
    /// The agent's last sign of life.
    pub(crate) alive: At,
    /// The time since which the agent could do everything that ownership needs.
    pub(crate) fit: Option<At>,
    /// The time since which it could do everything but see what has changed.
    pub(crate) acts: Option<At>,
    /// Time until which an edit by hand may stay unrepaired, because the kernel refused entries.
    pub(crate) refused_until: At,
    /// The time until which the lease deadline may seem to lie ahead, because the clock stood still.
    pub(crate) dazed_until: At,
    /// The last times at which one of its VIPs did not answer another node, and the node did: at all, and
    /// the request to all.
    pub(crate) unanswered: [At; 2],
    /// The times at which a filter of each kind came or went.
    pub(crate) filtered: [At; 2],
    /// The time when a watch stalled, and when it has surely shown what it missed.
    pub(crate) blind: (At, At),
    /// The time at which the lease deadline is checked next.
    pub(crate) next_check: Option<At>,
}

/// A node's part in wire failover.
#[derive(Debug)]
pub(crate) struct Part {
    /// The keys that its agent has read.
    pub(crate) keys: Vec<KeyId>,
    /// True if the program is to have them.
    pub(crate) heeds: bool,
    /// What truly became of its pings, for each session.
    pub(crate) truth: BTreeMap<u64, Truth>,
    /// The time of the last ping of each monitor that its program has answered.
    pub(crate) pinged: BTreeMap<u64, At>,
    /// The time at which its program learned of the end of its session.
    pub(crate) ended_at: At,
    /// The pings and answers that its program has received, until it loses its power.
    pub(crate) received: BTreeSet<(wired::Kind, u64, u64, usize, u64)>,
    /// The last time at which it received an expiry notice, and the last time of a false one.
    pub(crate) notified_at: At,
    pub(crate) false_at: Option<At>,
    /// The time at which the engine gets the last finding of its monitor.
    pub(crate) found_at: At,
}

#[derive(Debug)]
pub(crate) struct Noise {
    pub(crate) steps: Rng,
    pub(crate) watches: Rng,
    pub(crate) frames: Rng,
    pub(crate) events: Rng,
}

pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) clock: Clock,
    /// The clock that goes on while the node is suspended.
    pub(crate) boot_clock: Clock,
    pub(crate) powered: bool,
    pub(crate) links: Vec<Link>,
    pub(crate) marks: Marks,
    pub(crate) program: Program,
    /// The peers that the program must know, because a process that had read the cluster wrote them.
    pub(crate) peers_due: BTreeSet<MacAddr>,
    /// The lag of the program's clock behind the node's.
    pub(crate) late: Duration,
    /// The events of the program that no agent has read.
    pub(crate) ring: VecDeque<Event>,
    /// Per VIP: since when the program's entry holds it.
    pub(crate) held_since: Vec<Option<At>>,
    /// Per VIP: when it was announced last.
    pub(crate) announced_at: Vec<At>,
    /// The VIPs that the program has yielded since it last took them.
    pub(crate) yielded: BTreeSet<usize>,
    pub(crate) process: Option<Process>,
    /// Counts the agents that have run on this node.
    pub(crate) life: u32,
    /// True if the agent was requested to leave, and none has been started since.
    pub(crate) leaves: bool,
    /// True if a sabotage has left out something once.
    pub(crate) has_omitted: bool,
    pub(crate) faults: Faults,
    pub(crate) times: Since,
    pub(crate) wire: Part,
    pub(crate) proxy: ServiceProxy,
    pub(crate) rng: Noise,
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
            links: (0..segments).map(link).collect(),
            marks: Marks::default(),
            program,
            peers_due: BTreeSet::new(),
            late: Duration::from_millis(seeds.u64(0..=8)),
            ring: VecDeque::new(),
            held_since: vec![None; vips],
            announced_at: vec![At::default(); vips],
            yielded: BTreeSet::new(),
            process: None,
            life: 0,
            leaves: false,
            has_omitted: false,
            faults: Faults::default(),
            times: Since::default(),
            proxy: ServiceProxy::default(),
            wire: Part {
                keys: Vec::new(),
                heeds: true,
                truth: BTreeMap::new(),
                pinged: BTreeMap::new(),
                ended_at: At::default(),
                received: BTreeSet::new(),
                notified_at: At::default(),
                false_at: None,
                found_at: At::default(),
            },
            rng: Noise {
                steps: seeds.fork(),
                watches: seeds.fork(),
                frames: seeds.fork(),
                events: seeds.fork(),
            },
        }
    }

    /// Returns whether its kernel handles frames.
    pub(crate) fn kernel_runs(&self) -> bool {
        self.powered && !self.faults.frozen.any()
    }

    /// Returns whether its agent makes progress.
    pub(crate) fn agent_runs(&self) -> bool {
        self.kernel_runs() && !self.faults.paused.any() && self.process.is_some()
    }

    /// Returns whether its agent, if one runs, can do everything that ownership needs.
    pub(crate) fn is_fit(&self, api_works: bool) -> bool {
        self.acts(api_works)
            && !Kind::ALL.iter().any(|kind| self.faults.stalled[*kind as usize].any())
            && self.process.as_ref().is_some_and(|process| process.watches.iter().all(Watch::is_read))
    }

    /// Returns whether its agent, if one runs, can do everything but see what has changed.
    pub(crate) fn acts(&self, api_works: bool) -> bool {
        api_works
            && self.agent_runs()
            && !self.faults.cut_off.any()
            && !self.faults.no_answers.any()
            && !self.faults.denied.iter().any(|times| times.any())
            && !self.refuses_entries()
            && !self.leaves
            && self.process.as_ref().is_some_and(|process| {
                process.is_synced() && process.ending.is_none() && process.has_written_all()
            })
    }

    /// Returns whether an entry may fail to be written.
    pub(crate) fn refuses_entries(&self) -> bool {
        self.faults.no_changes.any() || self.faults.no_room.any()
    }

    /// Returns its agent, if it is the one of this life.
    pub(crate) fn process_of(&mut self, life: u32) -> Option<&mut Process> {
        self.process.as_mut().filter(|_| self.life == life)
    }

    /// Replaces its program by a new one, which no agent has written yet.
    pub(crate) fn lose_pins(&mut self, program: Program) {
        self.program = program;
        self.peers_due.clear();
        self.held_since.fill(None);
        self.yielded.clear();
        self.ring.clear();
    }

    /// Returns its network, with these addresses of its kernel.
    pub(crate) fn network(&self, addresses: &[(usize, IpNet)]) -> Network {
        let segments = self.links.len();
        let interface = |(segment, link): (usize, &Link)| {
            let ifindex = names::ifindex(segment);
            let is_attached = self.program.attached.contains(&ifindex);
            let own = names::host_net(self.index, segment);
            let own = [own]
                .into_iter()
                .chain(addresses.iter().filter(|(of, _)| *of == segment).map(|(_, net)| *net));
            let interface = Interface {
                mac: link.mac,
                carrier: !link.no_carrier.any(),
                xdp_programs: is_attached.then_some(PROGRAM).into_iter().collect(),
                addresses: own.collect(),
                ..Interface::sample(ifindex, &names::interface(segment))
            };
            (ifindex, interface)
        };
        let route = |segment| {
            let interface = names::ifindex(segment);
            names::subnets(segment, segments).into_iter().map(move |prefix| ConnectedRoute {
                prefix,
                interface,
                metric: 0,
            })
        };
        let view = NetView {
            interfaces: self.links.iter().enumerate().map(interface).collect(),
            routes: (0..segments).flat_map(route).collect(),
            next_hops: (0..segments).map(names::gateway).collect(),
        };
        Network { view, attachments: self.attachments(), name_servers: BTreeSet::new() }
    }

    /// Returns what the program is attached to.
    pub(crate) fn attachments(&self) -> Attachments {
        let mut attachments = Attachments::default();
        for ifindex in &self.program.attached {
            attachments.insert(*ifindex, OwnProgram { mode: Mode::Native, id: PROGRAM, on_ports: false });
        }
        attachments
    }

    /// Returns the MAC with which it would answer a request for a VIP.
    pub(crate) fn answer(&self, vip: usize, segment: usize, now: At) -> Option<MacAddr> {
        if !self.kernel_runs() {
            return None;
        }
        self.program.answer(names::key(vip, segment), self.program_now(now))
    }

    pub(crate) fn lease_deadline(&self, now: At) -> DeadlineState {
        self.program.lease_deadline_state(self.program_now(now))
    }

    /// Returns the time on the program's clock, which lags behind the node's.
    pub(crate) fn program_now(&self, now: At) -> vipward_core::base::time::Monotonic {
        self.clock.read(now).saturating_sub(self.late)
    }
}
