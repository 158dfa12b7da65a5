//! The cluster as the source of the VIPs: the engine, the interlock and the Services, and the events that
//! they pass to each other.

mod commands;
mod conflicts;
mod delivering;
mod findings;
mod input;
mod news;
mod reading;
mod succession;
mod writing_findings;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use vipward_common::MacAddr;

pub(super) use self::commands::Todo;
pub use self::input::{Input, Reply, Seen};
use self::{
    findings::{News, Showing},
    succession::Succession,
};
use super::effect::{self, Effect};
use crate::{
    base::{pattern::InterfacePattern, retrying::Writes, time::Monotonic},
    config::{Config, OnYield, Shutdown},
    delivery::Delivery,
    host::{
        attaching::Attach,
        heartbeat,
        placement::{Entry, Wanted},
    },
    ownership::{self, Command, Engine, Found, HolderClaim, Interlock, Settings, StopReason},
    records::{Proxy, ServiceName},
    reports::moves::Moves,
    segment::{
        announce,
        conflict::{self, Right},
        probing::{self, Probed},
    },
    services::{self, Index},
};

/// The engine's assignment of a VIP to this node.
#[derive(Debug)]
struct Assigned {
    entry: Entry,
    home: Option<InterfacePattern>,
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

/// The progress of the first reading.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Stage {
    /// Some type has not been listed yet.
    Reading,
    /// Every type has been listed once.
    Synced,
    /// `assigned` has all assignments from the engine's start. Its first commands are carried out
    /// step by step. A step that reads all entries must not remove one that a later command wants.
    Known,
}

/// The state of a cluster's agent.
pub struct Cluster {
    engine: Engine,
    interlock: Interlock,
    services: services::Agent,
    delivery: Delivery,
    settings: Settings,
    assigned: BTreeMap<IpAddr, Assigned>,
    stage: Stage,
    /// True if the `EndpointSlice`s are read and have not been listed yet.
    awaits_slices: bool,
    /// Time of the engine's last move of the lease deadline.
    beaten: Monotonic,
    /// The statement about this node's proxy that the engine has.
    stated: Option<Proxy>,
    /// The VIPs whose `healthCheckNodePort` does not answer here, with what was reported.
    unreached: BTreeMap<IpAddr, (ServiceName, services::Problem)>,
    /// Results of probes that the engine does not have yet.
    probed: Vec<(IpAddr, Probed)>,
    /// True while nodes write so many claims that the news of one comes late.
    is_crowded: bool,
    /// True if objects of `MetalLB`'s are written.
    has_l2_statuses: bool,
    statuses: Writes<ServiceName, Option<Vec<IpAddr>>>,
    showing: Showing,
    succession: Succession,
    news: News,
    moves: Moves,
    stopping: Option<StopReason>,
    /// The effects of the present input.
    effects: Vec<Effect>,
}

/// Returns the configuration of a cluster's agent, with the default of each value that these settings do
/// not have.
pub fn config(settings: &Settings, announce: announce::Settings) -> Config {
    Config {
        node: settings.node.to_string(),
        interfaces: Vec::new(),
        vips: Vec::new(),
        peers: Vec::new(),
        attach: Attach::Auto,
        fence: heartbeat::Settings {
            duration: settings.lease,
            heartbeat: settings.renewal,
            policy: settings.policy,
            hold_for: settings.hold_for,
        },
        announce,
        probe: probing::Settings::DEFAULT,
        conflicts: conflict::Settings::DEFAULT,
        yields: OnYield::Ask,
        shutdown: Shutdown::Keep,
    }
}

impl Cluster {
    /// Starts with the pinned state. `services` has the settings, and the addresses of the API server.
    /// `proxy_timeout` is the time after which a service proxy that cannot be reached no longer counts; with
    /// none, it is not asked. `has_l2_statuses` is true if objects of `MetalLB`'s are written.
    pub fn start(
        settings: Settings,
        found: Found,
        mut services: services::Agent,
        proxy_timeout: Option<Duration>,
        has_l2_statuses: bool,
        now: Monotonic,
    ) -> Self {
        let mut notified = services.on_event(services::Event::Behind(true));
        notified.extend(services.on_event(services::Event::Found(found.vips())));
        debug_assert!(notified.is_empty(), "nothing follows before the Services have been listed");
        let delivery = Delivery::start(proxy_timeout, found.session.is_some(), now);
        Self {
            delivery,
            interlock: Interlock::new(settings.node.clone(), found.session),
            engine: Engine::start(settings.clone(), found, now),
            services,
            settings,
            assigned: BTreeMap::new(),
            stage: Stage::Reading,
            awaits_slices: false,
            beaten: now,
            stated: None,
            unreached: BTreeMap::new(),
            probed: Vec::new(),
            is_crowded: false,
            has_l2_statuses,
            statuses: Writes::default(),
            showing: Showing::default(),
            succession: Succession::default(),
            news: News::default(),
            moves: Moves::default(),
            stopping: None,
            effects: Vec::new(),
        }
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn index(&self) -> &Index {
        self.services.index()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns what is known of this node's service proxy.
    pub fn proxy(&self) -> Option<&Proxy> {
        self.stated.as_ref()
    }

    /// Returns true if every type has been listed once.
    pub fn is_synced(&self) -> bool {
        self.stage >= Stage::Synced
    }

    /// Returns the time of the last renewal.
    pub fn beaten(&self) -> Monotonic {
        self.beaten
    }

    /// Returns true if this node reports a problem of a Service, or none if that is not known yet.
    pub fn is_responsible(
        &self,
        service: &ServiceName,
        problem: &services::Problem,
        now: Monotonic,
    ) -> Option<bool> {
        let index = self.services.index();
        let claimed_by = index.vips(service).filter_map(|vip| self.engine.claimed_by(vip));
        let alive = self.engine.alive(now);
        crate::reports::reporting::is_responsible(
            self.services.has_controller(),
            &self.settings.node,
            problem,
            claimed_by,
            &alive,
        )
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = Wanted<'_>> + Clone {
        self.assigned.iter().map(|(address, assigned)| assigned.wanted(*address))
    }

    // This does not search all of them: there are thousands, and every change calls it.
    pub(super) fn wanted_of(&self, vips: &BTreeSet<IpAddr>) -> Vec<Wanted<'_>> {
        vips.iter().filter_map(|vip| Some(self.assigned.get(vip)?.wanted(*vip))).collect()
    }

    /// Returns the name of this node's interface for a VIP.
    pub(super) fn home_of(&self, vip: IpAddr) -> Option<&str> {
        self.assigned.get(&vip)?.home.as_ref()?.literal()
    }

    pub(super) fn grace(&self) -> Duration {
        self.settings.lease + self.settings.margin
    }

    pub(super) fn said(
        &self,
        of: Option<&BTreeSet<IpAddr>>,
        now: Monotonic,
    ) -> BTreeMap<IpAddr, HolderClaim> {
        let said_of = |vip| Some((vip, self.engine.holder_claim(vip, now)?.1));
        match of {
            Some(vips) => vips.iter().copied().filter_map(said_of).collect(),
            None => {
                self.engine.claimed_here().chain(self.engine.left_behind(now)).filter_map(said_of).collect()
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let deadlines = [
            self.engine.next_deadline(),
            self.statuses.next_deadline(),
            self.showing.writes.next_deadline(),
            self.services.next_deadline(),
            self.delivery.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Passes an event to the engine, and its commands to the interlock.
    pub(super) fn decide(&mut self, event: ownership::Event, now: Monotonic) {
        let commands = self.engine.on_event(event, now);
        self.push(commands);
    }

    /// Counts the VIPs that this node gets, before their entries are written and announced, and passes
    /// the commands to the interlock.
    fn push(&mut self, commands: Vec<Command>) {
        for command in &commands {
            if let Command::Notify(ownership::Notice::Holds { vip, from, .. }) = command
                && let Some(cause) = self.moves.on_holds(*vip, from.as_ref())
            {
                self.emit(effect::Cluster::Moved(cause));
            }
        }
        self.interlock.push(commands);
    }

    fn emit(&mut self, effect: effect::Cluster) {
        self.effects.push(Effect::Cluster(effect));
    }

    /// Passes the results of probes to the engine. Returns true if there were any.
    pub(super) fn pass_probed(&mut self, now: Monotonic) -> bool {
        let probed = std::mem::take(&mut self.probed);
        let any = !probed.is_empty();
        for (vip, probed) in probed {
            self.decide(ownership::Event::Probed { vip, probed }, now);
        }
        any
    }

    pub(super) fn on_probed(&mut self, vip: IpAddr, probed: Probed) {
        self.probed.push((vip, probed));
    }

    /// Handles the first announcement of a VIP since this node took it.
    pub(super) fn on_announced(&mut self, vip: IpAddr, now: Monotonic) {
        if let Some(took) = self.moves.on_announced(vip, now) {
            self.emit(effect::Cluster::Took(took));
        }
    }

    /// Handles that the entry of a VIP was written, as the interlock wanted.
    pub(super) fn on_written(&mut self, vip: IpAddr, now: Monotonic) {
        let here = self.engine.holds(vip);
        self.notify_services(services::Event::Held { vip, here }, now);
        self.show_holder(vip);
    }

    /// Returns true if the engine has begun, and the agent has not.
    pub(super) fn begins(&self) -> bool {
        self.stage < Stage::Known && self.engine.has_begun()
    }

    pub(super) fn begin(&mut self) {
        self.stage = Stage::Known;
    }

    /// Returns true if all assignments from the engine's start are known.
    pub fn is_known(&self) -> bool {
        self.stage == Stage::Known
    }

    /// Returns a peer's right to announce a VIP. The news of a claim comes later than usual while very
    /// many are written.
    pub(super) fn right(&self, vip: IpAddr, mac: MacAddr, now: Monotonic) -> Right {
        match self.engine.right(vip, mac, now) {
            Right::NotGiven(epoch) if self.is_crowded => Right::Unknown(epoch),
            right => right,
        }
    }

    /// Returns the former holder of a VIP whose entry is written, and notifies it that its session
    /// has ended.
    pub(super) fn notify_former(&mut self, key: vipward_common::VipKey, now: Monotonic) -> Option<MacAddr> {
        let (session, mac, notifies) = self.succession.on_taken(key, now)?;
        if notifies {
            self.emit(effect::Cluster::NotifyFormer { ifindex: key.ifindex, mac, session });
        }
        Some(mac)
    }
}
