//! Ownership of VIPs: the decision which VIPs this node holds. The
//! nodes agree through the API server alone.
//!
//! The engine is pure. [`Event`]s with the time come in. [`Command`]s go out,
//! and the caller carries them out in their order. The engine never waits:
//! the outcome of a request comes back as an event.
//!
//! docs/OWNERSHIP.md has the rules, and shows why they are safe. An event or a deadline makes the
//! engine evaluate a VIP as a whole (`Engine::evaluate`), so the order of events does not matter.

mod address;
mod asking;
mod claims;
mod doubt;
mod eligibility;
mod evaluate;
mod handing;
mod handover;
mod interlock;
mod members;
mod nobody;
mod pacing;
mod session;
mod settings;
mod standing;
mod stopping;
#[cfg(test)]
mod tests;
mod types;
mod unclear;
mod view;
mod vip;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use vipward_common::MacAddr;

use self::{doubt::Doubt, members::Member, pacing::Pacing, session::Own, stopping::Stopping, vip::Vip};
use super::{
    cluster::{NodeInterface, NodeName, Session},
    time::Monotonic,
};

pub use self::eligibility::{Disqualified, Eligible, NodeFacts, eligibility};
pub use self::interlock::{Interlock, Step};
pub use self::settings::{Settings, SettingsError};
pub use self::types::{
    ClaimWrite, Command, Demand, Event, Expected, Fault, Fenced, Found, FoundEntry, LeaseWrite, Notice,
    Outcome, StopReason, Wire,
};
pub use self::view::{NodeView, Said, View, VipSummary, VipView};
pub use super::{placement::Entry, probing::Probed};

/// Additional wait of a candidate, compared with the candidate of the rank before it, from the time
/// when it could act. If a better candidate has got another VIP, the wait counts from then: that
/// candidate may have many VIPs to take (`nobody::MOST_PATIENT` bounds the wait).
const RANK_DELAY: Duration = Duration::from_millis(500);
/// Fraction by which a wait for another node is longer, at least.
/// The clocks of two nodes differ by less.
const CLOCKS_DIFFER: u32 = 20;
/// Delay before a request with an unknown outcome is repeated.
const RETRY: Duration = Duration::from_millis(250);
/// Delay before a refused request is repeated.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// The engine: the ownership of all VIPs, as one node sees it.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    found: Found,
    synced: bool,
    own: Own,
    /// This node's interfaces.
    links: Vec<NodeInterface>,
    /// All nodes that have a Lease or a Node, this one included.
    members: BTreeMap<NodeName, Member>,
    /// All known VIPs. They are boxed, because a map that is filled
    /// in order leaves half of its slots empty.
    vips: BTreeMap<Ipv4Addr, Box<Vip>>,
    /// The claims that name each session.
    claimed: BTreeMap<(NodeName, Session), members::SessionClaims>,
    /// Times of the next evaluations of VIPs.
    due: BTreeSet<(Monotonic, Ipv4Addr)>,
    /// VIPs to evaluate now.
    dirty: BTreeSet<Ipv4Addr>,
    pacing: Pacing,
    doubt: Doubt,
    /// The peers of the last command. None before all Leases have been listed.
    peers: Option<BTreeSet<MacAddr>>,
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
        Self {
            settings,
            found,
            synced: false,
            own,
            links: Vec::new(),
            members: BTreeMap::new(),
            vips: BTreeMap::new(),
            claimed: BTreeMap::new(),
            due: BTreeSet::new(),
            dirty: BTreeSet::new(),
            pacing,
            doubt: Doubt::default(),
            now,
            peers: None,
            stopping: None,
            commands: Vec::new(),
        }
    }

    /// Takes in `event`. Returns the commands, in their order.
    pub fn on_event(&mut self, event: Event, now: Monotonic) -> Vec<Command> {
        self.now = now;
        match event {
            Event::Synced => self.on_synced(now),
            Event::Lease(record) => self.on_lease(record, now),
            Event::LeaseGone(node) => self.on_lease_gone(&node, now),
            Event::Claim(record) => self.on_claim(record, now),
            Event::ClaimGone(vip) => self.on_claim_gone(vip, now),
            Event::Node(record) => self.on_node(record, now),
            Event::NodeGone(name) => self.on_node_gone(&name),
            Event::Demand(vip, demand) => self.on_demand(vip, demand, now),
            Event::Interfaces(links) => self.on_interfaces(links, now),
            Event::LeaseWritten { node, outcome } if node == self.settings.node => {
                self.on_own_lease_written(outcome, now);
            }
            Event::LeaseRead { node, outcome } if node == self.settings.node => {
                self.on_own_lease_read(outcome, now);
            }
            Event::LeaseWritten { node, outcome } => self.on_deposed(&node, outcome, now),
            Event::LeaseRead { node, outcome } => self.on_lease_read(&node, outcome, now),
            Event::ClaimWritten { vip, outcome } => self.on_claim_written(vip, outcome, now),
            Event::ClaimDeleted { vip, outcome } => self.on_claim_deleted(vip, &outcome, now),
            Event::ClaimRead { vip, outcome } => self.on_claim_read(vip, outcome, now),
            Event::Probed { vip, probed } => self.on_probed(vip, probed, now),
            Event::Wire { vip, heard } => self.on_wire(vip, heard, now),
            Event::Stop(reason) => self.on_stop(reason, now),
            Event::Tick => {}
        }
        self.settle(now);
        std::mem::take(&mut self.commands)
    }

    /// Returns the time of the next [`Event::Tick`].
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let vip = self.due.first().map(|(due, _)| *due);
        let deposing = self.next_deposing();
        [Some(self.own.next_deadline()), vip, deposing, self.stop_deadline()].into_iter().flatten().min()
    }

    /// Returns true if this node holds a VIP.
    pub fn holds(&self, vip: Ipv4Addr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.is_held())
    }

    /// Returns true if an entry may begin to answer. While the fence has lapsed, another node may
    /// have taken any VIP, and its announcement may have come already.
    pub fn may_begin_answering(&self, now: Monotonic) -> bool {
        self.own.is_valid(now)
    }

    /// Returns true if the engine has begun to command entries.
    /// Before that, pinned state stays as it is.
    pub fn has_begun(&self) -> bool {
        self.synced && self.own.has_begun()
    }

    /// Carries out everything that is due.
    fn settle(&mut self, now: Monotonic) {
        self.tick_lease(now);
        self.depose_the_silent(now);
        while let Some((due, vip)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, vip));
            self.dirty.insert(vip);
        }
        if self.synced && self.own.lives() {
            while let Some(vip) = self.next_to_look_at() {
                self.look_at(vip, now);
            }
        }
        // A claim may be a reason to renew at once.
        self.tick_lease(now);
        self.tick_stopping(now);
    }

    fn next_to_look_at(&mut self) -> Option<Ipv4Addr> {
        self.dirty.pop_first().or_else(|| self.pacing.next_of_crowd())
    }

    fn look_at(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if let Some(due) = vip.due.take() {
            self.due.remove(&(due, address));
        }
        // If a request is under way or must wait, the VIP is not decided anew.
        vip.asking.matters = vip.busy.is_some() || vip.retry > now || vip.unread;
        let due = self.evaluate(address, now);
        if self.vips.get(&address).is_some_and(|vip| !vip.asking.matters) {
            self.stop_asking(address);
        }
        self.clear_doubt(address, now);
        if let (Some(vip), Some(due)) = (self.vips.get_mut(&address), due) {
            vip.due = Some(due);
            self.due.insert((due, address));
        }
    }

    /// Settles a VIP that was held over, if its claim names this node or this node has given it up.
    fn clear_doubt(&mut self, address: Ipv4Addr, now: Monotonic) {
        let vip = self.vips.get(&address).map(Box::as_ref);
        let is_in_doubt = vip.is_some_and(Vip::is_in_doubt);
        let is_held = vip.is_some_and(Vip::is_held);
        if !is_in_doubt && self.doubt.end(address, is_held) {
            self.doubt_no_more(now);
        }
    }

    fn all_dirty(&mut self) {
        self.dirty.extend(self.vips.keys().copied());
    }

    fn command(&mut self, command: Command) {
        self.commands.push(command);
    }

    fn on_synced(&mut self, now: Monotonic) {
        self.synced = true;
        // A process that has just started does not know if a missing object was there a moment ago.
        if self.members.iter().any(|(name, member)| *name != self.settings.node && member.session().is_some())
        {
            for vip in self.vips.values_mut().filter(|vip| vip.claim.is_none()) {
                vip.unclear = Some(now);
            }
        }
        self.begin(now);
        self.all_dirty();
    }

    fn on_demand(&mut self, address: Ipv4Addr, demand: Option<Demand>, now: Monotonic) {
        if demand.is_none() && !self.vips.contains_key(&address) {
            return;
        }
        self.vips.entry(address).or_insert_with(|| Vip::new(now).into()).demand = demand;
        self.dirty.insert(address);
    }

    fn on_interfaces(&mut self, links: Vec<NodeInterface>, now: Monotonic) {
        if self.links != links {
            self.links = links;
            self.own.renew_now(now);
            self.all_dirty();
        }
    }
}
