//! Ownership: which VIPs this node holds, agreed with the other nodes through the API server alone.
//!
//! A pure engine: what was read, written, heard on the wire and configured comes in as [`Event`]s with the time, and
//! what is to be done goes out as [`Command`]s, to be carried out in their order. It never waits: what it asks for comes
//! back as an event.
//!
//! docs/OWNERSHIP.md has the rules, and why they are safe. What time or news make worth a look is looked at again as a
//! whole (`vip::evaluate`), so that nothing depends on the order in which the news arrived.

mod asking;
mod claims;
mod handover;
mod members;
mod nobody;
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
    ops::Bound,
    time::Duration,
};

use vipward_common::MacAddr;

use self::{members::Member, session::Own, stopping::Stopping, vip::Vip};
use super::{
    cluster::{NodeLink, NodeName, Session},
    time::Monotonic,
};

pub use self::settings::{Settings, SettingsError};
pub use self::types::{
    ClaimWrite, Command, Demand, Disqualified, Entry, Event, Expected, Fenced, Found, FoundEntry, LeaseWrite,
    Notice, Outcome, Probed, StopReason, Wire,
};
pub use self::view::{NodeView, Standing, View, VipView};

/// How long the candidate of the next rank waits for the one before it: from when it could act, and before it takes a VIP
/// also from when a better one was last seen to get another, since it may only have many to ask for (`vip::MOST_PATIENT`
/// bounds that).
const RANK_DELAY: Duration = Duration::from_millis(500);
/// What one node waits for another by its own clock is longer by this fraction at least: their clocks differ by less.
const CLOCKS_DIFFER: u32 = 20;
/// How soon something that failed for no known reason is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How soon something that was refused is tried again.
const REFUSED_RETRY: Duration = Duration::from_secs(5);

/// The ownership of all VIPs, as one node sees it.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    found: Found,
    synced: bool,
    own: Own,
    /// This node's interfaces.
    links: Vec<NodeLink>,
    /// All nodes of which there is a Lease or a Node, this one included.
    members: BTreeMap<NodeName, Member>,
    /// In boxes: a map that is filled in order leaves half of its slots empty.
    vips: BTreeMap<Ipv4Addr, Box<Vip>>,
    /// The claims that name each session.
    claimed: BTreeMap<(NodeName, Session), members::Claimed>,
    /// When VIPs are to be looked at again.
    due: BTreeSet<(Monotonic, Ipv4Addr)>,
    /// VIPs to look at now.
    dirty: BTreeSet<Ipv4Addr>,
    /// VIPs without a claim that are being taken, [`Settings::most_new`] at a time.
    creating: BTreeSet<Ipv4Addr>,
    /// Those that this node could take and that wait for room: not with what has been asked for, since somebody else may have
    /// them by then, or be better.
    crowded_out: BTreeSet<Ipv4Addr>,
    /// The one of them that was looked at last: the next is the one after it.
    last_of_crowd: Ipv4Addr,
    /// VIPs that were held over when the fence was renewed, and whose claims are to be read before the program is told.
    doubted: BTreeSet<Ipv4Addr>,
    /// Those that were found to be ours, to be announced then.
    cleared: Vec<Ipv4Addr>,
    /// VIPs that are offered by a write whose fate is not known.
    offering: BTreeSet<Ipv4Addr>,
    /// The next handover that is not urgent may begin then.
    next_handover: Monotonic,
    /// And the next one that is.
    next_urgent: Monotonic,
    /// When the next VIP that waits for either is looked at again.
    next_slot: Monotonic,
    next_urgent_slot: Monotonic,
    peers: BTreeSet<MacAddr>,
    stopping: Option<Stopping>,
    commands: Vec<Command>,
    /// The time of the last event.
    now: Monotonic,
}

impl Engine {
    /// Begins with what is pinned. Nothing is decided before [`Event::Synced`].
    pub fn start(settings: Settings, found: Found, now: Monotonic) -> Self {
        let own = Own::new(&settings, &found, now);
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
            creating: BTreeSet::new(),
            crowded_out: BTreeSet::new(),
            last_of_crowd: Ipv4Addr::UNSPECIFIED,
            doubted: BTreeSet::new(),
            cleared: Vec::new(),
            offering: BTreeSet::new(),
            next_handover: now,
            next_urgent: now,
            next_slot: now,
            next_urgent_slot: now,
            now,
            peers: BTreeSet::new(),
            stopping: None,
            commands: Vec::new(),
        }
    }

    /// Takes note of `event`; returns what is to be done, in this order.
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
            Event::Links(links) => self.on_links(links, now),
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

    /// When [`Event::Tick`] is wanted.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let vip = self.due.first().map(|(due, _)| *due);
        let deposing = self.next_deposing();
        [Some(self.own.next_deadline()), vip, deposing, self.stop_deadline()].into_iter().flatten().min()
    }

    /// Whether this node holds a VIP: by its own write, or by what it found.
    pub fn holds(&self, vip: Ipv4Addr) -> bool {
        self.vips.get(&vip).is_some_and(|vip| vip.is_held())
    }

    /// Whether it has begun to say what entries are to be; before, what is pinned stays as it is.
    pub fn has_begun(&self) -> bool {
        self.synced && self.own.has_begun()
    }

    /// Carries on with everything whose time has come.
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
        self.dirty.pop_first().or_else(|| self.next_of_crowd())
    }

    fn next_of_crowd(&mut self) -> Option<Ipv4Addr> {
        if self.creating.len() >= self.settings.most_new {
            return None;
        }
        let after = (Bound::Excluded(self.last_of_crowd), Bound::Unbounded);
        let next = *self.crowded_out.range(after).next().or_else(|| self.crowded_out.first())?;
        self.crowded_out.remove(&next);
        self.last_of_crowd = next;
        Some(next)
    }

    fn look_at(&mut self, address: Ipv4Addr, now: Monotonic) {
        let Some(vip) = self.vips.get_mut(&address) else { return };
        if let Some(due) = vip.due.take() {
            self.due.remove(&(due, address));
        }
        // What is asked for or waits is not decided anew, and neither is what it was asked for.
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

    /// A VIP that was held over is known to be ours, or is given up.
    fn clear_doubt(&mut self, address: Ipv4Addr, now: Monotonic) {
        let vip = self.vips.get(&address).map(Box::as_ref);
        if vip.is_some_and(Vip::is_in_doubt) || !self.doubted.remove(&address) {
            return;
        }
        if vip.is_some_and(Vip::is_held) {
            self.cleared.push(address);
        }
        if self.doubted.is_empty() {
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
        // A process that has just begun has not seen whether what is missing was there a moment ago.
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

    fn on_links(&mut self, links: Vec<NodeLink>, now: Monotonic) {
        if self.links != links {
            self.links = links;
            self.own.renew_now(now);
            self.all_dirty();
        }
    }
}
