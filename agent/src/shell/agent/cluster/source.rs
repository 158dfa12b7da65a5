//! The cluster as a source of VIPs: its state, and what the event loop asks of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};
use vipward_common::{MacAddr, VipKey};
use vipward_core::{
    agent::segment::Authority,
    base::{pattern::InterfacePattern, retrying::Writes, time::Monotonic},
    config::Config,
    diagnosis::doctor::{WirePeer, WireReport},
    host::{
        net::{NetView, Vital},
        placement::{Entry, Wanted},
    },
    ownership::{Engine, Interlock, Said, Settings, StopReason},
    records::ServiceName,
    reports::moves::Moves,
    segment::{
        conflict::{Line, Right},
        probing::Probed,
    },
    services,
};

use super::{
    aspect::{Aspect, Show},
    failover::Failover,
    messages::Messages,
};
use crate::shell::{
    agent::{error::RunError, source::Source, timing::BEATS_MISSED},
    kernel::bpf::Maps,
    kube::{ConnectError, Kube, L2Statuses, Reader, Reply, Requests, Resource, Seen},
    pages::metrics::{ClaimSnapshot, MetalLbSnapshot, Mode, MoveMetrics, WireSnapshot},
};

/// Longest time for which claims are expected to be late while very many are written.
const LONGEST_CROWD: Duration = Duration::from_mins(5);

/// The engine's assignment of a VIP to this node.
pub(super) struct Assigned {
    pub(super) entry: Entry,
    pub(super) home: Option<InterfacePattern>,
}

impl Assigned {
    fn wanted(&self, address: IpAddr) -> Wanted<'_> {
        Wanted {
            address,
            interface: self.home.as_ref(),
            vlan: None,
            bind: None,
            entry: self.entry,
            is_guarded: false,
        }
    }
}

/// The open objects of a cluster's agent.
pub(super) struct Cluster {
    pub(super) engine: Engine,
    pub(super) interlock: Interlock,
    pub(super) services: services::Agent,
    pub(super) assigned: BTreeMap<IpAddr, Assigned>,
    /// True if `assigned` has everything that the engine said when it began. Its
    /// first commands are carried out step by step. A step that looks at all entries
    /// must not remove one that a later command wants.
    pub(super) known: bool,
    /// The types that are read.
    pub(super) resources: Vec<Resource>,
    /// Types that cannot be read now.
    pub(super) unreadable: BTreeSet<Resource>,
    /// Types that have been listed at least once.
    pub(super) listed: BTreeSet<Resource>,
    pub(super) synced: bool,
    pub(super) settings: Settings,
    /// Results of probes that the engine does not have yet.
    pub(super) probed: Vec<(IpAddr, Probed)>,
    /// Conflicts that this node has reported, with the reported text.
    pub(super) conflicted: BTreeMap<IpAddr, String>,
    /// Writes that show findings on claims.
    pub(super) shown: Writes<(IpAddr, Aspect), Show>,
    pub(super) pin_dir: PathBuf,
    /// Time of the engine's last move of the fence.
    pub(super) beaten: Monotonic,
    pub(super) messages: Messages,
    /// Instead of `MetalLB`.
    pub(super) l2_statuses: Option<L2Statuses>,
    pub(super) statuses: Writes<ServiceName, Option<Vec<IpAddr>>>,
    /// None if it is off, or could not begin.
    pub(super) wire: Option<Failover>,
    pub(super) requests: Requests,
    pub(super) replies: mpsc::Receiver<Reply>,
    pub(super) seen: mpsc::Receiver<Seen>,
    pub(super) reader: Reader,
    pub(super) moves: Moves,
    pub(super) move_metrics: MoveMetrics,
    pub(super) kube: Kube,
    pub(super) pod: Option<String>,
    /// Task that finds out why the agent is to end.
    pub(super) why: Option<JoinHandle<Result<StopReason, ConnectError>>>,
    pub(super) stopping: Option<StopReason>,
    /// True if the engine has said that nothing is left to do.
    pub(super) stopped: bool,
}

impl Authority for Cluster {
    fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right {
        match self.engine.right(vip, mac, now) {
            // The news of a claim comes later than usual while very many are written.
            Right::NotGiven(epoch) if self.kube.crowded_for().is_some_and(|lasts| lasts < LONGEST_CROWD) => {
                Right::Unknown(epoch)
            }
            right => right,
        }
    }

    fn may_take_back(&self, vip: IpAddr) -> bool {
        self.engine.may_take_back(vip)
    }

    fn must_be_free(&self, _vip: IpAddr) -> bool {
        // The engine requests the probes itself.
        false
    }

    fn is_known(&self) -> bool {
        self.known
    }

    fn may_begin_answering(&self, now: Monotonic) -> bool {
        self.engine.may_begin_answering(now)
    }

    fn is_vacant(&self, vip: IpAddr) -> bool {
        !self.engine.is_held_by_any(vip)
    }

    fn must_hear(&self) -> Option<Vital> {
        self.services.index().is_behind().then(|| self.services.index().vital())
    }
}

impl Source for Cluster {
    fn wanted<'a>(&'a self, _config: &'a Config) -> impl ExactSizeIterator<Item = Wanted<'a>> + Clone {
        self.assigned.iter().map(|(address, assigned)| assigned.wanted(*address))
    }

    // This does not search all of them: there are thousands, and every change calls it.
    fn wanted_of<'a>(&'a self, _config: &'a Config, vips: &BTreeSet<IpAddr>) -> Vec<Wanted<'a>> {
        vips.iter().filter_map(|vip| Some(self.assigned.get(vip)?.wanted(*vip))).collect()
    }

    fn note_taken_back(&mut self, vip: IpAddr, mac: MacAddr, now: Monotonic) {
        self.report_taken_back(vip, mac, now);
    }

    fn note_probed(&mut self, vip: IpAddr, probed: Probed, _now: Monotonic) {
        self.probed.push((vip, probed));
    }

    fn note_conflict(&mut self, line: &Line, view: &NetView, now: Monotonic) {
        self.report_conflict(line, view, now);
    }

    fn note_taken(&mut self, key: VipKey, now: Monotonic) -> Option<MacAddr> {
        self.tell_former(key, now)
    }

    fn note_announced(&mut self, vip: IpAddr, now: Monotonic) {
        if let Some(took) = self.moves.on_announced(vip, now) {
            self.move_metrics.announced(took);
        }
    }

    fn said(
        &self,
        _config: &Config,
        of: Option<&BTreeSet<IpAddr>>,
        now: Monotonic,
    ) -> BTreeMap<IpAddr, Said> {
        let said_of = |vip| Some((vip, self.engine.said_of(vip, now)?.1));
        match of {
            Some(vips) => vips.iter().copied().filter_map(said_of).collect(),
            None => {
                self.engine.claimed_here().chain(self.engine.left_behind(now)).filter_map(said_of).collect()
            }
        }
    }

    fn left_behind(&self, now: Monotonic) -> Vec<IpAddr> {
        self.engine.left_behind(now).collect()
    }

    fn grace(&self, _config: &Config) -> Duration {
        self.settings.lease + self.settings.margin
    }

    fn heartbeat(&self) -> Option<(Monotonic, Duration)> {
        self.synced.then_some((self.beaten, self.settings.renewal * BEATS_MISSED))
    }

    fn claims(&self, now: Monotonic) -> Option<ClaimSnapshot> {
        let (mut epochs, mut without_holder) = (Vec::new(), 0);
        for standing in self.engine.standings(now) {
            epochs.push((standing.vip, standing.epoch.0));
            without_holder += usize::from(!standing.has_holder);
        }
        Some(ClaimSnapshot { epochs, without_holder, nodes_alive: self.engine.alive(now).len() })
    }

    fn wire(&self, now: Monotonic) -> Option<WireSnapshot> {
        Some(self.wire_snapshot(now))
    }

    fn wire_report(&self, now: Monotonic) -> WireReport {
        let WireSnapshot { deposed: _, view, thread } = self.wire_snapshot(now);
        let peers = thread.iter().flat_map(|thread| &thread.traffic).map(WirePeer::of).collect();
        WireReport { view, peers }
    }

    fn metallb(&self) -> Option<MetalLbSnapshot> {
        let statuses = self.l2_statuses.as_ref()?;
        let is_one = |resource: &Resource| Resource::OF_METALLB.contains(resource);
        Some(MetalLbSnapshot {
            announced: statuses.held().map(|(vip, held)| (vip, held.services.clone())).collect(),
            is_loaded: self.listed.iter().filter(|it| is_one(it)).count() == Resource::OF_METALLB.len(),
            is_stale: self.unreadable.iter().any(is_one),
        })
    }

    fn peer_addresses(&self) -> Vec<IpAddr> {
        self.engine.peer_addresses().collect()
    }

    fn state(&self, now: Monotonic) -> Value {
        json!({
            "listed": self.listed.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "synced": self.synced,
            "last_heartbeat_seconds_ago": now.saturating_since(self.beaten).as_secs_f64(),
            "engine": self.engine.view(now),
            "wire": self.wire_state(),
        })
    }

    fn mode(&self) -> Mode {
        Mode::Kubernetes
    }

    fn beat_if_due(&mut self, _: &mut Maps, _: u64, _: Monotonic) -> Result<(), RunError> {
        // Only a renewal moves this fence, and renewing does not wait for the maps for long.
        Ok(())
    }
}
