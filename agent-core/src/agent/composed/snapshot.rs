//! The agent's state for the pages, as it is in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::{MacAddr, Proof};

use super::Agent;
use crate::{
    agent::source::Source,
    base::time::Monotonic,
    host::{attaching::Mode, net::Interface, placement::Entry},
    ownership::Engine,
    reports::unanswered::Unanswered,
};

/// The number of missed beats after which the heartbeat counts as stopped.
const BEATS_MISSED: u32 = 10;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub node: String,
    /// True if the agent knows which VIPs are wanted. Until then, the pinned state stays as it is.
    pub started: bool,
    /// The duration of one renewal of the lease deadline.
    pub lease_duration: Duration,
    /// The interfaces that the program is, or should be, attached to.
    pub interfaces: Vec<InterfaceSnapshot>,
    /// The VIPs, with the entries that this node wants.
    pub vips: Vec<VipSnapshot>,
    pub claims: Option<ClaimSnapshot>,
    /// The VIPs that this node has and does not answer, with the reported reasons.
    pub unanswered: BTreeMap<IpAddr, String>,
}

/// An interface that the program is, or should be, attached to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceSnapshot {
    pub ifindex: u32,
    pub interface: String,
    /// The interface whose program sees its frames, if it has none of its own.
    pub through: Option<u32>,
    /// The mode in which the program was attached, or is to be.
    pub mode: Mode,
    /// True if the kernel runs the program on it.
    pub attached: bool,
    /// The finding whether the program sees its frames.
    pub proof: Proof,
    /// The reason why it could not be attached, if it could not.
    pub failure: Option<String>,
    /// The last observation of the interface, unless it is gone.
    pub seen: Option<Interface>,
}

impl InterfaceSnapshot {
    pub fn has_carrier(&self) -> bool {
        self.seen.as_ref().is_some_and(|interface| interface.up && interface.carrier)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VipSnapshot {
    pub vip: IpAddr,
    /// The entry that this node is to have for it.
    pub entry: Entry,
    /// True if the program yielded it to a peer, which has it since.
    pub yielded: bool,
}

/// The claims of a cluster, as this node sees them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimSnapshot {
    /// The number of holder changes of each VIP that Services want.
    pub epochs: Vec<(IpAddr, u64)>,
    /// The number of these VIPs whose claim names no living holder.
    pub without_holder: usize,
    /// The number of nodes whose Leases are alive.
    pub nodes_alive: usize,
}

impl ClaimSnapshot {
    fn of(engine: &Engine, now: Monotonic) -> Self {
        let (mut epochs, mut without_holder) = (Vec::new(), 0);
        for standing in engine.standings(now) {
            epochs.push((standing.vip, standing.epoch.0));
            without_holder += usize::from(!standing.has_holder);
        }
        Self { epochs, without_holder, nodes_alive: engine.alive(now).len() }
    }
}

impl Agent {
    /// Returns the state at a time, from memory: reading whole maps would delay the next move of
    /// the lease deadline.
    pub fn snapshot(&self, now: Monotonic) -> Snapshot {
        // A VIP whose address is in use has to wait.
        let in_use: BTreeSet<IpAddr> = self.segment.in_use().collect();
        let vips = self.wanted().map(|wanted| VipSnapshot {
            vip: wanted.address,
            entry: if in_use.contains(&wanted.address) {
                Entry::Foreign { mac: MacAddr::ZERO }
            } else {
                wanted.entry
            },
            yielded: self.host.yielded().contains_key(&wanted.address),
        });
        let attached = self.attachments.attached().map(|(ifindex, mode)| self.interface(ifindex, mode));
        let is_attached = |index: u32| self.attachments.attached().any(|(ifindex, _)| ifindex == index);
        let unattached = self.attachments.unattached().iter().filter(|(ifindex, _)| !is_attached(**ifindex));
        let unattached = unattached.filter_map(|(ifindex, why)| self.unattached(*ifindex, why));
        Snapshot {
            node: self.config.node.clone(),
            started: self.segment.is_started(),
            lease_duration: self.config.fence.duration,
            interfaces: attached.chain(unattached).collect(),
            vips: vips.collect(),
            claims: self.cluster().map(|cluster| ClaimSnapshot::of(cluster.engine(), now)),
            unanswered: self.unanswered(),
        }
    }

    /// Returns the VIPs that this node has and does not answer, as far as they are reported.
    pub fn unanswered(&self) -> BTreeMap<IpAddr, String> {
        let silent = |(vip, why): (IpAddr, &Unanswered)| match why {
            Unanswered::Silent(why) => Some((vip, why.clone())),
            Unanswered::SessionEnded(_) => None,
        };
        self.answers.reported().filter_map(silent).collect()
    }

    /// Returns the time since the last move of the lease deadline, if several moves have been
    /// missed.
    pub fn heartbeat_stopped_for(&self, now: Monotonic) -> Option<Duration> {
        let (moved, period) = match &self.source {
            Source::File(file) => (file.beaten(), self.config.fence.heartbeat),
            // Nothing beats before the cluster has been read.
            Source::Cluster(cluster) if !cluster.is_synced() => return None,
            Source::Cluster(cluster) => (cluster.beaten(), cluster.settings().renewal),
        };
        Some(now.saturating_since(moved)).filter(|since| *since >= period * BEATS_MISSED)
    }

    fn interface(&self, ifindex: u32, mode: Mode) -> InterfaceSnapshot {
        InterfaceSnapshot {
            ifindex,
            interface: self.view.name_of(ifindex),
            through: self.attachments.point_of(ifindex).filter(|point| *point != ifindex),
            mode,
            attached: self.attachments.runs_on(&self.view, ifindex),
            proof: self.proof(ifindex),
            failure: None,
            seen: self.view.interfaces.get(&ifindex).cloned(),
        }
    }

    /// Returns an interface that could not be attached, with its wanted mode. None if it has vanished.
    fn unattached(&self, ifindex: u32, why: &str) -> Option<InterfaceSnapshot> {
        let modes = self.config.attach.modes(self.view.interfaces.get(&ifindex)?, &self.view);
        let mode = modes.first().copied().unwrap_or(Mode::Native);
        Some(InterfaceSnapshot {
            attached: false,
            failure: Some(why.to_owned()),
            ..self.interface(ifindex, mode)
        })
    }
}
