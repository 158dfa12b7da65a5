//! The Services and the VIPs that they want, evaluated again as events touch them.
//!
//! An event marks the Services and VIPs that it touches, and only these are
//! evaluated again. So the cost of a change depends only on its Service and
//! on those that share a VIP with it.

mod account;
mod assessing;
mod claims;
mod events;
mod leftovers;
mod namespaces;
mod notifying;
mod patience;
mod requesting;
mod resolving;
mod rules;
mod settling;
mod standing;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

pub use self::account::{Account, AddressRequest, Mention, ServiceAccount, Unserved};
use self::{leftovers::Leftovers, patience::Patience};
pub(super) use self::{
    requesting::share_keys,
    rules::{Origin, Role},
};
use super::{
    Command, Place, Problem, Refusal, ServiceRecord, Settings,
    addresses::{ClaimSummary, Holders, Order, Reserved},
    endpoints::Endpoints,
    reading::{Reading, Selection, Wanted},
    sharing::{Consents, Ports, Quotas},
    statuses::{Duty, Naming, Turns},
};
use crate::{
    pools::{Given, Lack, Policies},
    records::{Demand, ServiceName},
};

#[derive(Debug)]
pub(super) struct ServiceEntry {
    record: Box<ServiceRecord>,
    reading: Reading,
    selection: Selection,
    wanted: Vec<Wanted>,
    given: Given,
    for_status: Vec<IpAddr>,
    problems: Vec<Problem>,
    duty: Option<Duty>,
    /// True if this process has begun to clear the status, and has not seen another one since.
    is_clearing: bool,
    /// True if it has been served with addresses since this process has known it.
    was_ours: bool,
    /// The field managers that have written over Vipward's addresses, and live. They are not
    /// overwritten again until the Service itself changes.
    rivals: BTreeSet<Option<Arc<str>>>,
}

#[derive(Debug, Default)]
pub(super) struct Vip {
    /// The Services, sorted. They are in a list, because most addresses have one Service.
    services: Vec<(ServiceName, Place)>,
    /// True if a node has held it since a Service has wanted it. A
    /// claim that is then deleted by hand is written again.
    pub(super) was_held: bool,
    /// The Services that its claim named last, in the order of their rights.
    pub(super) former: Arc<[ServiceName]>,
    /// The ports that they had when the VIP was last evaluated. Empty if there is one Service.
    ports: Ports,
    refusal: Option<Refusal>,
    pub(super) order: Order,
    naming: Naming,
    /// True if no Service may have it, so that the controller reserves it for none.
    is_shut: bool,
    demand: Option<Demand>,
    problems: Vec<(ServiceName, Problem)>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    Service(ServiceName),
    Vip(IpAddr),
}

#[derive(Debug, Default)]
struct Touched {
    services: BTreeSet<ServiceName>,
    vips: BTreeSet<IpAddr>,
    statuses: BTreeSet<ServiceName>,
    /// The networks of which something else has begun or ceased to need addresses.
    needed: BTreeSet<IpNet>,
    /// True if everything has been listed anew.
    listed: bool,
    /// The touched Services, or else VIPs, that are evaluated now. What they touch comes after them.
    round: BTreeSet<Subject>,
    /// The VIPs of the rounds so far.
    resolved: BTreeSet<IpAddr>,
}

/// The Services, and the VIPs that they want.
#[derive(Debug)]
pub struct Index {
    settings: Settings,
    role: Role,
    synced: bool,
    /// The Services by name. They are boxed, because a map that is filled
    /// in order leaves half of its slots empty.
    pub(super) entries: BTreeMap<ServiceName, Box<ServiceEntry>>,
    /// The VIPs by address, boxed for the same reason.
    pub(super) vips: BTreeMap<IpAddr, Box<Vip>>,
    endpoints: Endpoints,
    namespaces: BTreeSet<Arc<str>>,
    consents: Consents,
    quotas: Quotas,
    reserved: Reserved,
    /// The summary of each VIP's claim, unless it is empty.
    pub(super) claims: BTreeMap<IpAddr, ClaimSummary>,
    /// VIPs that this node holds (true) or held before (false).
    pub(super) held: BTreeMap<IpAddr, bool>,
    holders: Holders,
    /// VIPs that the process before this one held (true) or guarded.
    found: BTreeMap<IpAddr, bool>,
    touched: Touched,
    turns: BTreeMap<ServiceName, Turns>,
    leftovers: Leftovers,
    patience: Patience,
    /// Services that were served and now have another type, with their uids.
    pub(super) let_go: BTreeMap<ServiceName, Arc<str>>,
    /// Where the pools have their addresses announced.
    policies: Policies,
}

impl Index {
    pub(crate) fn start(settings: Settings, role: Role) -> Self {
        Self {
            settings,
            role,
            synced: false,
            entries: BTreeMap::new(),
            vips: BTreeMap::new(),
            endpoints: Endpoints::default(),
            namespaces: BTreeSet::new(),
            consents: Consents::new(),
            quotas: Quotas::default(),
            reserved: Reserved::default(),
            claims: BTreeMap::new(),
            held: BTreeMap::new(),
            holders: Holders::default(),
            found: BTreeMap::new(),
            touched: Touched::default(),
            turns: BTreeMap::new(),
            leftovers: Leftovers::default(),
            patience: Patience::default(),
            let_go: BTreeMap::new(),
            policies: Policies::default(),
        }
    }

    pub(crate) fn record(&self, service: &ServiceName) -> Option<&ServiceRecord> {
        self.entries.get(service).map(|entry| &*entry.record)
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Returns true if everything has been listed.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced
    }

    /// Touches the Services that have no address.
    pub(crate) fn touch_lacking(&mut self) {
        let lacking = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.record.ingress.is_empty() && entry.given.addresses.is_empty());
        self.touched.services.extend(lacking.map(|(name, _)| name.clone()));
    }

    pub fn uid(&self, service: &ServiceName) -> Option<&Arc<str>> {
        self.entries.get(service).map(|entry| &entry.record.uid)
    }

    pub fn lacking(&self) -> usize {
        let misses = |entry: &ServiceEntry| self.lacks(entry).iter().any(Lack::is_of_an_address);
        let lacking = self.entries.values().filter(|entry| entry.selection.is_ok() && misses(entry));
        lacking.count()
    }

    pub fn vips(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        self.entries.get(service).into_iter().flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip)
    }

    /// Returns the Services that have a VIP, the longest first.
    pub fn having(&self, vip: IpAddr) -> &[ServiceName] {
        let demand = self.vips.get(&vip).and_then(|known| known.demand.as_ref());
        demand.map(|demand| demand.services.as_slice()).unwrap_or_default()
    }

    /// Returns the next touched Service or VIP, for [`Index::assess`] or [`Index::resolve`]: first all
    /// Services, then their VIPs. There is none before [`Event::Synced`]. [`Index::settle`] follows when
    /// there is none any more.
    pub(crate) fn next_touched(&mut self) -> Option<Subject> {
        let touched = &mut self.touched;
        if self.synced && touched.round.is_empty() {
            // The pools may give one Service what another one has left.
            touched.round.extend(std::mem::take(&mut touched.services).into_iter().map(Subject::Service));
            if touched.round.is_empty() {
                // One VIP may make room for another, or take it.
                touched.round.extend(std::mem::take(&mut touched.vips).into_iter().map(Subject::Vip));
            }
        }
        touched.round.pop_first()
    }

    /// Evaluates the statuses of what was touched, and forgets VIPs that no Service wants any more. Does
    /// nothing before [`Event::Synced`].
    pub(crate) fn settle(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        if !self.synced {
            return commands;
        }
        let listed = std::mem::take(&mut self.touched.listed);
        for name in std::mem::take(&mut self.touched.statuses) {
            self.settle_one(&name, listed, &mut commands);
        }
        for vip in std::mem::take(&mut self.touched.resolved) {
            if !self.vips.contains_key(&vip) && self.held.get(&vip) == Some(&false) {
                self.held.remove(&vip);
            }
        }
        self.holders.begun = true;
        commands
    }

    fn leave(&mut self, name: &ServiceName, vip: IpAddr) {
        let known = self.vips.get_mut(&vip).expect("invariant: each wanted address is in the index");
        known.services.retain(|(service, _)| service != name);
        self.touched.vips.insert(vip);
    }

    fn touch_vips_of(&mut self, services: &[ServiceName]) {
        let known = services.iter().filter_map(|service| self.entries.get(service));
        self.touched.vips.extend(known.flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip));
    }

    /// Returns the networks of which something else has begun or ceased to need addresses, once.
    pub(crate) fn take_needed(&mut self) -> BTreeSet<IpNet> {
        std::mem::take(&mut self.touched.needed)
    }

    fn touch_wanted(&mut self, nets: &BTreeSet<IpNet>) {
        if self.role == Role::Controller {
            self.touched.needed.extend(nets);
        }
        for net in nets {
            let inside = self.vips.range(net.network()..=net.broadcast());
            self.touched.vips.extend(inside.map(|(vip, _)| *vip));
            let left = self.leftovers.within(net.network()..=net.broadcast());
            self.touched.services.extend(left.cloned());
        }
        let left = self.leftovers.of_segments(self.reserved.has_segments());
        self.touched.services.extend(left.cloned());
    }

    /// Touches what depends on whether other hosts need addresses of these networks.
    fn touch_reserved(&mut self, nets: &BTreeSet<IpNet>) {
        self.touch_wanted(nets);
        if nets.is_empty() || self.settings.external_ips {
            return;
        }
        let is_inside = |vip: &IpAddr| nets.iter().any(|net| net.contains(vip));
        let unserved =
            self.entries.iter().filter(|(_, entry)| entry.record.external_ips.iter().any(is_inside));
        self.touched.services.extend(unserved.map(|(name, _)| name.clone()));
    }
}
