//! The engine: its state, its events and its deadlines.

mod lease;
mod peers;
mod stopping;
mod unreached;
mod view;
mod wire;
mod wire_view;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use vipward_common::{MacAddr, Policy, VipFault};

use super::{
    command::Command,
    decisions::{Next, Stopping, Subject},
    event::{Event, Found},
    limits::{Disputes, Doubt, Pacing, Queue},
    nodes::{Nodes, Own},
    settings::Settings,
    vip::Vip,
};
use crate::{
    base::time::Monotonic,
    host::placement::Entry,
    records::{ClaimRecord, Demand, LeaseRecord, NodeInterface},
};

pub use self::{
    view::{HolderClaim, NodeView, View, VipSummary, VipView},
    wire_view::{LeaseOnly, WireNodeView, WireView},
};

/// The engine: the ownership of all VIPs, as one node sees it.
///
/// # Examples
///
/// ```
/// use vipward_core::ownership::{Command, Engine, Event, Expected, Found, Settings};
/// use vipward_core::base::time::Monotonic;
/// # use std::time::Duration;
/// #
/// # let settings = Settings {
/// #     node: "node-a".into(),
/// #     lease: Duration::from_secs(4),
/// #     renewal: Duration::from_secs(1),
/// #     margin: Duration::from_millis(500),
/// #     policy: vipward_common::Policy::Hold,
/// #     hold_for: Duration::from_hours(1),
/// #     restart_lease: Duration::from_mins(1),
/// #     stable_for: Duration::from_mins(1),
/// #     handover_pace: Duration::from_millis(500),
/// #     honour_exclude_label: true,
/// #     clock_late: Duration::from_millis(8),
/// #     most_new: 32,
/// #     probing: None,
/// #     wire: None,
/// #     seed: 1,
/// # };
///
/// let now = Monotonic::from_nanos(1_000_000_000);
/// let mut engine = Engine::start(settings, Found::default(), now);
/// assert!(engine.on_event(Event::Tick, now).is_empty());
///
/// // The cluster has no Lease of this node, so the engine creates it, with a new session.
/// let commands = engine.on_event(Event::Synced, now);
/// let is_new_lease = |command: &Command| {
///     matches!(command, Command::WriteLease(lease) if lease.expected == Expected::Absent)
/// };
/// assert!(commands.iter().any(is_new_lease));
/// assert!(!engine.may_begin_answering(now));
/// ```
#[derive(Debug)]
pub struct Engine {
    found: Found,
    synced: bool,
    pub(super) nodes: Nodes,
    /// All known VIPs. They are boxed, because a map that is filled
    /// in order leaves half of its slots empty.
    vips: BTreeMap<IpAddr, Box<Vip>>,
    queue: Queue,
    pacing: Pacing,
    doubt: Doubt,
    disputes: Disputes,
    /// The peers of the last command. None before all Leases have been listed.
    peers: Option<BTreeSet<MacAddr>>,
    /// The VIPs of the last [`Command::SetUnreached`].
    unreached: BTreeMap<IpAddr, VipFault>,
    stopping: Option<Stopping>,
    commands: Vec<Command>,
    /// The time of the last event.
    now: Monotonic,
}

impl Engine {
    /// Starts with the pinned state. The engine decides nothing before [`Event::Synced`].
    pub fn start(settings: Settings, found: Found, now: Monotonic) -> Self {
        let own = Own::new(&settings, &found, now);
        let pacing = Pacing::new(&settings, now);
        let disputes = Disputes::new(settings.renewal, now);
        Self {
            found,
            synced: false,
            nodes: Nodes::new(settings, own),
            vips: BTreeMap::new(),
            queue: Queue::default(),
            pacing,
            doubt: Doubt::default(),
            disputes,
            peers: None,
            unreached: BTreeMap::new(),
            stopping: None,
            commands: Vec::new(),
            now,
        }
    }

    /// Applies `event`. Returns the commands, in their order.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        self.now = now;
        match event {
            Event::Synced => self.on_synced(),
            Event::Lease(record) => self.on_lease(record),
            Event::LeaseGone(node) => self.on_lease_gone(&node),
            Event::Claim(record) => self.on_claim(record),
            Event::ClaimGone(vip) => self.with(vip, |mut subject| subject.on_claim_gone()),
            Event::Node(record) => {
                if self.nodes.take_node(record, now) {
                    self.evaluate_all();
                }
            }
            Event::NodeGone(name) => {
                if self.nodes.lose_node(&name) {
                    self.evaluate_all();
                }
            }
            Event::Demand(vip, demand) => self.on_demand(vip, demand),
            Event::Interfaces(interfaces) => self.on_interfaces(interfaces),
            Event::Proxy(proxy) => self.on_proxy(proxy),
            Event::LeaseWritten { node, outcome } if node == self.nodes.settings.node => {
                self.on_own_lease_written(outcome);
            }
            Event::LeaseRead { node, outcome } if node == self.nodes.settings.node => {
                self.on_own_lease_read(outcome);
            }
            Event::LeaseWritten { node, outcome } => self.on_expired(node, outcome),
            Event::LeaseRead { node, outcome } => self.on_lease_read(&node, outcome),
            Event::ClaimWritten { vip, outcome } => {
                self.with(vip, |mut subject| subject.on_claim_written(outcome));
            }
            Event::ClaimDeleted { vip, outcome } => {
                self.with(vip, |mut subject| subject.on_claim_deleted(&outcome));
            }
            Event::ClaimRead { vip, outcome } => {
                self.with(vip, |mut subject| subject.on_claim_read(outcome));
            }
            Event::Probed { vip, probed } => self.with(vip, |mut subject| subject.on_probed(probed)),
            Event::Wire { vip, received } => self.with(vip, |mut subject| subject.on_wire(received)),
            Event::Detected(finding) => self.on_detected(finding),
            Event::WireKeys(keys) => self.nodes.on_wire_keys(keys, now),
            Event::WireSelf(wid) => self.nodes.on_wire_self(wid, now),
            Event::Stop(reason) => self.on_stop(reason),
            Event::Tick => {}
        }
        self.settle();
        std::mem::take(&mut self.commands)
    }

    /// Returns the time of the next [`Event::Tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let stop = self.stopping.as_ref().and_then(Stopping::deadline);
        let expiring = self.nodes.next_expiring(self.now);
        let own = Some(self.nodes.own.next_deadline());
        let suspect = self.nodes.wire.suspects.next();
        let disputed = self.disputes.next().filter(|_| self.decides());
        [own, self.queue.next(), disputed, expiring, suspect, stop].into_iter().flatten().min()
    }

    pub fn holds(&self, vip: IpAddr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.tenure.is_held())
    }

    /// Returns true if the pinned session is the live one of a Lease.
    pub(crate) fn continues(&self, lease: &LeaseRecord) -> bool {
        self.found.session.is_some() && self.found.session == lease.live_session()
    }

    /// Returns true if this node may see late what happened long ago, since it was cut off.
    pub fn is_behind(&self, now: Monotonic) -> bool {
        self.nodes.is_behind(now)
    }

    /// Returns true if a node holds this VIP: this one, or another in a session that lives.
    pub fn is_held_by_any(&self, vip: IpAddr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.occupancy.is_held())
    }

    /// Changes the number of claims of new VIPs that are created at a time.
    pub fn set_most_new(&mut self, most: usize) {
        self.pacing.set_most_new(most);
    }

    /// Returns true if an entry may begin to answer. Once the lease deadline has passed, another
    /// node may have taken any VIP, and its announcement may have come already. After a renewal the
    /// claims are read first: until then the program does not know the new lease deadline.
    pub fn may_begin_answering(&self, now: Monotonic) -> bool {
        self.nodes.own.has_given_deadline(now)
    }

    /// Returns true if this node may take back a VIP that the program has yielded, when no peer
    /// answers for it: this node has held it, and knows of no later claim and no end of its
    /// session. Before the first lists, only the pins count.
    pub fn may_take_back(&self, vip: IpAddr) -> bool {
        let Settings { policy, probing, .. } = &self.nodes.settings;
        let held_it = if self.has_begun() {
            self.nodes.own.lives() && self.holds(vip)
        } else {
            self.found.session.is_some()
        };
        *policy == Policy::Hold && probing.is_some() && held_it
    }

    /// Records that this node has taken a yielded VIP back.
    pub fn on_taken_back(&mut self, vip: IpAddr) {
        if !self.has_begun() {
            self.found.yielded.remove(&vip);
            self.found.entries.insert(vip, Entry::Held);
        }
    }

    /// Returns true if the engine has begun to command entries.
    /// Before that, pinned state stays as it is.
    pub fn has_begun(&self) -> bool {
        self.synced && self.nodes.own.has_begun()
    }

    /// Returns true if VIPs are evaluated.
    fn decides(&self) -> bool {
        self.synced && self.nodes.own.lives()
    }

    /// Carries out everything that is due.
    fn settle(&mut self) {
        self.nodes.choose_wire_key(self.now);
        self.tick_lease();
        let writes = self.nodes.expire_dead_nodes(self.now);
        self.commands.extend(writes.into_iter().map(Command::WriteLease));
        self.tick_wire();
        self.queue.wake(self.now);
        if self.decides() {
            while let Some(vip) = self.disputes.take(self.now) {
                self.with(vip, |mut subject| subject.read_contested());
            }
            while let Some(vip) = self.queue.pop().or_else(|| self.pacing.next_new(self.now)) {
                self.look_at(vip);
            }
        }
        self.tick_wire_plan();
        // A claim may be a reason to renew at once, and so may a lost monitor.
        self.tick_lease();
        self.tick_wire_plan();
        self.tick_stopping();
    }

    /// Evaluates a VIP.
    fn look_at(&mut self, address: IpAddr) {
        let Some(mut subject) = self.subject(address) else { return };
        subject.queue.schedule(address, &mut subject.vip.due, None);
        // While a request is under way or ahead, this
        // evaluation decides nothing, and the probes go on.
        subject.vip.asking.matters = subject.vip.requests.must_wait(subject.now);
        let next = subject.evaluate();
        if !subject.vip.asking.matters || next == Next::Forget {
            subject.stop_probing();
        }
        match next {
            Next::Forget => self.forget(address),
            Next::Wait(again) => {
                self.clear_doubt(address);
                if let Some(vip) = self.vips.get_mut(&address) {
                    self.queue.schedule(address, &mut vip.due, again);
                }
            }
        }
    }

    fn forget(&mut self, address: IpAddr) {
        self.pacing.end_offer(address);
        self.disputes.forget(address);
        if let Some(vip) = self.vips.remove(&address) {
            self.nodes.index_claim(address, &vip.claim.owners, Vec::new(), self.now);
        }
        self.clear_doubt(address);
    }

    /// Returns a VIP with all that a decision about it may read and change.
    fn subject(&mut self, address: IpAddr) -> Option<Subject<'_>> {
        let vip = self.vips.get_mut(&address)?;
        Some(Subject {
            address,
            vip,
            nodes: &mut self.nodes,
            queue: &mut self.queue,
            pacing: &mut self.pacing,
            doubt: &self.doubt,
            disputes: &mut self.disputes,
            now: self.now,
            commands: &mut self.commands,
        })
    }

    /// Runs `step` on a VIP, if it is known.
    fn with(&mut self, address: IpAddr, step: impl FnOnce(Subject<'_>)) {
        if let Some(subject) = self.subject(address) {
            step(subject);
        }
    }

    fn evaluate_all(&mut self) {
        self.queue.add_all(self.vips.keys().copied());
    }

    fn command(&mut self, command: Command) {
        self.commands.push(command);
    }

    fn on_synced(&mut self) {
        self.synced = true;
        // A process that has just started does not know if a missing object was there a moment ago.
        // If the address is probed first, the probes find a node that still answers.
        if self.nodes.others().any(|(_, member)| member.session().is_some()) {
            let probing = self.nodes.settings.probing.is_some();
            let is_probed = |vip: &Vip| probing && vip.demand.as_ref().is_some_and(|demand| !demand.force);
            let missing = |vip: &&mut Box<Vip>| vip.claim.record.is_none() && !is_probed(vip);
            for vip in self.vips.values_mut().filter(missing) {
                vip.claim.unclear = Some(self.now);
            }
        }
        self.begin();
        self.evaluate_all();
    }

    fn on_demand(&mut self, address: IpAddr, demand: Option<Demand>) {
        if demand.is_none() && !self.vips.contains_key(&address) {
            return;
        }
        self.known_or_new(address).demand = demand;
        self.queue.add(address);
        self.with(address, |mut subject| subject.lead());
    }

    fn known_or_new(&mut self, address: IpAddr) -> &mut Vip {
        self.vips.entry(address).or_insert_with(|| Vip::new(self.now).into())
    }

    fn on_interfaces(&mut self, interfaces: Vec<NodeInterface>) {
        self.nodes.wire.contacts.find(interfaces);
        self.apply_interfaces();
    }

    fn on_claim(&mut self, record: ClaimRecord) {
        self.known_or_new(record.vip);
        self.with(record.vip, |mut subject| subject.on_claim(record));
    }
}
