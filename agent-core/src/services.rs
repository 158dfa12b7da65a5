//! Index of Services and the VIPs that they want. It turns Services into demands for VIPs.
//!
//! An event marks the Services and VIPs that it touches, and only these are
//! evaluated again. So the cost of a change depends only on its Service and
//! on those that share a VIP with it. docs/SERVICES.md has the rules.

mod account;
mod allocating;
mod endpoints;
mod grants;
mod hands;
mod ingress;
mod namespaces;
mod place;
mod precedence;
mod problem;
mod quota;
mod reading;
mod records;
mod refusal;
mod reserved;
mod resolving;
mod selection;
mod sharing;
mod standing;
mod telling;
#[cfg(test)]
mod tests;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

pub use self::{
    account::{Account, Asking, Mention, ServiceAccount, Unserved},
    place::Place,
    problem::{Malformed, Problem, SeenBy, WayOut},
    records::{
        AnnotationValues, Annotations, EndpointsRecord, FIELD_MANAGER, HostAddress, HostNetwork, Ingress,
        IpMode, OtherController, Port, Protocol, ServiceRecord, StatusOwner,
    },
    refusal::Refusal,
    types::{Command, DEFAULT_CLASS, Event, MOST_ADDRESSES, Role, Settings},
};
use self::{
    endpoints::Endpoints,
    grants::Grants,
    hands::Turns,
    ingress::{Duty, Naming},
    precedence::{Holders, Order},
    quota::Quotas,
    reading::{Reading, Wanted},
    reserved::Reserved,
    selection::{Selection, Unselected},
    sharing::Consents,
    standing::Standing,
    telling::tell_change,
};
use crate::{
    pools::{self, Allocator, Lack, Policies},
    records::{Demand, ServiceName},
};

/// A Service in the index, with its effects.
#[derive(Debug)]
struct ServiceEntry {
    record: Box<ServiceRecord>,
    reading: Reading,
    selection: Selection,
    wanted: Vec<Wanted>,
    /// The addresses that the pools give or gave it, and what they do not give it.
    given: Vec<IpAddr>,
    lacks: Vec<Lack>,
    /// True if an address is being reserved for it.
    pending: bool,
    /// The addresses of `wanted` that belong in its status.
    for_status: Vec<IpAddr>,
    problems: Vec<Problem>,
    duty: Option<Duty>,
    /// True if it has been served with addresses since this process has known it.
    was_ours: bool,
}

/// An address that a Service wants.
#[derive(Debug, Default)]
struct Vip {
    /// The Services, sorted. They are in a list, because most addresses have one Service.
    services: Vec<(ServiceName, Place)>,
    /// True if a node has held it since a Service has wanted it. A
    /// claim that is then deleted by hand is written again.
    was_held: bool,
    /// The Services that its claim named last, in the order of their rights.
    former: Arc<[ServiceName]>,
    refusal: Option<Refusal>,
    order: Order,
    naming: Naming,
    /// True if the controller reserves it for no Service, since none may have it.
    is_shut: bool,
    demand: Option<Demand>,
    problems: Vec<(ServiceName, Problem)>,
}

/// Services and VIPs that an event has touched.
#[derive(Debug, Default)]
struct Touched {
    services: BTreeSet<ServiceName>,
    vips: BTreeSet<IpAddr>,
    statuses: BTreeSet<ServiceName>,
}

/// The Services, and the VIPs that they want.
#[derive(Debug)]
pub struct Services {
    settings: Settings,
    synced: bool,
    /// The Services by name. They are boxed, because a map that is filled
    /// in order leaves half of its slots empty.
    entries: BTreeMap<ServiceName, Box<ServiceEntry>>,
    /// The VIPs by address, boxed for the same reason.
    vips: BTreeMap<IpAddr, Box<Vip>>,
    endpoints: Endpoints,
    /// Namespaces with the configured labels.
    namespaces: BTreeSet<Arc<str>>,
    consents: Consents,
    quotas: Quotas,
    reserved: Reserved,
    /// The standing of each VIP whose claim gives it one.
    claims: BTreeMap<IpAddr, Standing>,
    /// VIPs that this node holds (true) or held before (false).
    held: BTreeMap<IpAddr, bool>,
    holders: Holders,
    /// VIPs that the process before this one held (true) or guarded.
    found: BTreeMap<IpAddr, bool>,
    touched: Touched,
    /// Services whose status has lately changed hands.
    turns: BTreeMap<ServiceName, Turns>,
    /// Services that were served and now have another type, with their uids.
    let_go: BTreeMap<ServiceName, Arc<str>>,
    /// The reservations, for an agent.
    grants: Grants,
    /// The pools and reservations. Only the controller has some.
    allocator: Allocator,
    /// Where the pools have their addresses announced.
    policies: Policies,
    /// The addresses that Services name, while the pools begin.
    named_at_start: BTreeSet<IpAddr>,
}

impl Services {
    /// Starts without a Service.
    pub fn start(settings: Settings) -> Self {
        let allocator = Allocator::start(settings.most_vips);
        Self {
            settings,
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
            let_go: BTreeMap::new(),
            grants: Grants::default(),
            allocator,
            policies: Policies::default(),
            named_at_start: BTreeSet::new(),
        }
    }

    /// Takes in an event. Returns the commands that follow from it.
    pub fn on_event(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut listed = false;
        match event {
            Event::Service(record) => {
                let changed = self.reserved.put_cluster_ips(&record.name, &record.cluster_ips);
                self.touch_wanted(&changed);
                self.put_service(record, &mut commands);
            }
            Event::ServiceGone(name) => {
                let changed = self.reserved.put_cluster_ips(&name, &[]);
                self.touch_wanted(&changed);
                self.forget(&name, &mut commands);
                self.let_go.remove(&name);
            }
            Event::SlicesListed => self.end_slices(),
            Event::Slice(record) => {
                let changed = self.endpoints.put(record);
                self.touch_vips_of(&changed);
            }
            Event::SliceGone { namespace, slice } => {
                let changed = self.endpoints.remove(namespace, slice);
                self.touch_vips_of(&changed);
            }
            Event::Namespace { name, labels, share_with } => {
                let selector = self.settings.namespace_selector.as_ref();
                let matches = selector.is_some_and(|selector| selector.matches(&labels));
                self.put_namespace(&name, matches);
                self.put_consents(Arc::clone(&name), share_with);
                self.allocate(|| pools::Event::Namespace { name, labels }, &mut commands);
            }
            Event::NamespaceGone(name) => {
                self.put_namespace(&name, false);
                self.put_consents(Arc::clone(&name), BTreeSet::new());
                self.allocate(|| pools::Event::NamespaceGone(name), &mut commands);
            }
            Event::NodeAddresses { node, addresses, pod_cidrs } => {
                let changed = self.reserved.put_node(node, &addresses, &pod_cidrs);
                self.touch_wanted(&changed);
            }
            Event::ServiceCidr { name, nets } => {
                let changed = self.reserved.put_service_cidr(&name, &nets);
                self.touch_wanted(&changed);
            }
            Event::NodeInterfaces { node, interfaces, session } => {
                self.put_session(&node, session);
                let changed = self.reserved.put_interfaces(node, &interfaces);
                self.touch_wanted(&changed);
            }
            Event::Behind(is_behind) => self.holders.is_behind = is_behind,
            Event::Found(vips) => self.found = vips,
            Event::NodeGone(node) => {
                self.put_session(&node, None);
                let changed = self.reserved.remove_node(&node);
                self.touch_wanted(&changed);
            }
            Event::HostNetwork(network) => {
                self.holders.put_own(&network.node);
                let changed = self.reserved.put_host(&network);
                self.touch_wanted(&changed);
            }
            Event::ApiServers { slice, addresses } => {
                let changed = self.reserved.put_api_servers(slice, &addresses);
                self.touch_wanted(&changed);
            }
            Event::Claim { vip, was_held, sessions, force, services, reservation, release } => {
                self.put_grant(vip, reservation.as_deref());
                let named = || services.clone();
                let object = || pools::Event::Object {
                    vip,
                    reservation: reservation.map(|it| *it),
                    release,
                    services: named(),
                };
                self.allocate(object, &mut commands);
                let services = services.into();
                let sessions = sessions.into();
                self.put_claim(vip, Standing { was_held, is_forced: force, services, sessions });
            }
            Event::ClaimGone(vip) => {
                self.put_grant(vip, None);
                self.put_claim(vip, Standing::default());
                self.allocate(|| pools::Event::ObjectGone(vip), &mut commands);
            }
            Event::Pools(event) => {
                self.put_policy(&event);
                self.allocate(|| event, &mut commands);
            }
            Event::Held { vip, here } => self.put_held(vip, here),
            Event::Synced => {
                self.begin_allocating(&mut commands);
                self.synced = true;
                listed = true;
                self.touched.statuses.extend(self.entries.keys().cloned());
            }
        }
        if self.synced {
            self.look_again(listed, &mut commands);
            self.holders.begun = true;
        }
        commands
    }

    /// Returns what this process does about Services.
    pub fn role(&self) -> Role {
        self.settings.role
    }

    /// Returns the uid of a Service. Events about the Service refer to it.
    pub fn uid(&self, service: &ServiceName) -> Option<&Arc<str>> {
        self.entries.get(service).map(|entry| &entry.record.uid)
    }

    /// Returns true if a Service's status is from `MetalLB`, which Vipward replaces: it may be
    /// overwritten.
    pub fn is_from_metallb(&self, service: &ServiceName) -> bool {
        self.entries.get(service).is_some_and(|entry| entry.record.status_from_metallb)
    }

    /// Returns the number of Services that the pools do not give what they ask for.
    pub fn lacking(&self) -> usize {
        self.entries.values().filter(|entry| !entry.lacks.is_empty()).count()
    }

    /// Returns the VIPs that a Service wants.
    pub fn vips(&self, service: &ServiceName) -> impl Iterator<Item = IpAddr> {
        self.entries.get(service).into_iter().flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip)
    }

    /// Returns the Services that have a VIP, the longest first.
    pub fn having(&self, vip: IpAddr) -> &[ServiceName] {
        let demand = self.vips.get(&vip).and_then(|known| known.demand.as_ref());
        demand.map(|demand| demand.services.as_slice()).unwrap_or_default()
    }

    /// Has everything evaluated anew that depends on endpoints, if they were unknown until now.
    fn end_slices(&mut self) {
        if self.endpoints.end_list() {
            let withdraw = self.settings.withdraw_without_endpoints;
            let dependent = self.entries.values().filter(|entry| entry.record.needs_endpoints(withdraw));
            self.touched.vips.extend(dependent.flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip));
        }
    }

    fn put_service(&mut self, mut record: Box<ServiceRecord>, commands: &mut Vec<Command>) {
        if !record.load_balancer && record.status_owner() != StatusOwner::Vipward {
            return self.forget(&record.name, commands);
        }
        let needs_endpoints = record.needs_endpoints(self.settings.withdraw_without_endpoints);
        if needs_endpoints && self.endpoints.begin_list() {
            commands.push(Command::ListSlices { service: record.name.clone() });
        }
        self.note_turn(&record);
        let name = record.name.clone();
        match self.entries.get_mut(&name) {
            Some(entry) if entry.record == record => return,
            Some(entry) => {
                if entry.record.uid != record.uid {
                    entry.reading = Reading::default();
                    entry.was_ours = false;
                    self.turns.remove(&name);
                }
                // The key keeps its texts: those of the new record would be a second copy.
                record.name = entry.record.name.clone();
                entry.record = record;
            }
            None => {
                let was_ours = self.let_go.remove(&name).is_some_and(|uid| uid == record.uid);
                let entry = ServiceEntry {
                    record,
                    reading: Reading::default(),
                    selection: Err(Unselected::NotLoadBalancer),
                    wanted: Vec::new(),
                    given: Vec::new(),
                    lacks: Vec::new(),
                    pending: false,
                    for_status: Vec::new(),
                    problems: Vec::new(),
                    duty: None,
                    was_ours,
                };
                self.entries.insert(name.clone(), Box::new(entry));
            }
        }
        self.touched.services.insert(name);
    }

    fn forget(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        let Some(entry) = self.entries.remove(name) else { return };
        self.allocate(|| pools::Event::Withdrawn(name.clone()), commands);
        self.turns.remove(name);
        // A Service that left by its class has been reported already.
        if entry.was_ours && entry.selection != Err(Unselected::Class) {
            self.let_go.insert(name.clone(), Arc::clone(&entry.record.uid));
        }
        for wanted in &entry.wanted {
            self.leave(name, wanted.vip);
        }
        tell_change(name, entry.problems, &[], commands);
        if entry.duty.is_some() {
            commands.push(Command::LeaveIngress { service: name.clone() });
        }
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

    /// Touches the wanted addresses in these networks.
    fn touch_wanted(&mut self, nets: &BTreeSet<IpNet>) {
        for net in nets {
            let inside = self.vips.range(net.network()..=net.broadcast());
            self.touched.vips.extend(inside.map(|(vip, _)| *vip));
        }
    }

    /// Takes in what an event says of where addresses may be announced.
    fn put_policy(&mut self, event: &pools::Event) {
        let changed = match event {
            pools::Event::Pool(record) => self.policies.put(record),
            pools::Event::PoolGone(name) => self.policies.remove(name),
            pools::Event::Advertisement(record) => self.policies.put_advertisement(record),
            pools::Event::AdvertisementGone(name) => self.policies.remove_advertisement(name),
            pools::Event::Advertised(is_known) => self.policies.know_advertisements(*is_known),
            pools::Event::Namespace { .. }
            | pools::Event::NamespaceGone(_)
            | pools::Event::Request(..)
            | pools::Event::Withdrawn(_)
            | pools::Event::Object { .. }
            | pools::Event::ObjectGone(_)
            | pools::Event::Permitted(_)
            | pools::Event::Answered(_)
            | pools::Event::Failed(_)
            | pools::Event::Synced
            | pools::Event::Time(_) => return,
        };
        for range in changed {
            self.touched.vips.extend(self.vips.range(range).map(|(vip, _)| *vip));
        }
    }

    /// Evaluates everything that was touched: first Services, then their VIPs, then the statuses.
    fn look_again(&mut self, listed: bool, commands: &mut Vec<Command>) {
        let (mut services, mut vips) = (BTreeSet::new(), BTreeSet::new());
        loop {
            // The pools may give one Service what another one has left.
            let mut next = std::mem::take(&mut self.touched.services);
            for name in &next {
                self.assess(name, commands);
            }
            let is_settled = next.is_empty();
            services.append(&mut next);
            if !is_settled {
                continue;
            }
            // One VIP may make room for another, or take it.
            let mut next = std::mem::take(&mut self.touched.vips);
            if next.is_empty() {
                break;
            }
            for vip in &next {
                self.resolve(*vip, commands);
            }
            vips.append(&mut next);
        }
        let mut statuses = std::mem::take(&mut self.touched.statuses);
        statuses.append(&mut services);
        for name in &statuses {
            self.settle(name, listed, commands);
        }
        for vip in &vips {
            if !self.vips.contains_key(vip) && self.held.get(vip) == Some(&false) {
                self.held.remove(vip);
            }
        }
    }

    /// Parses a Service's fields, and decides if it is served. Returns the problems of its values.
    fn read(&mut self, name: &ServiceName) -> Option<Vec<Problem>> {
        let entry = self.entries.get_mut(name)?;
        let problems = entry.reading.update(&entry.record);
        let namespace =
            self.settings.namespace_selector.is_none() || self.namespaces.contains(&name.namespace);
        entry.selection =
            selection::select(&entry.record, entry.reading.is_ignored(), namespace, &self.settings);
        Some(problems)
    }

    /// Evaluates the addresses that a Service wants.
    fn assess(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        // A touched Service may be gone by now.
        let Some(mut problems) = self.read(name) else { return };
        self.ask_pools(name, commands);
        self.grant(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let wish = if entry.selection.is_ok() {
            problems.extend(entry.lacks.iter().cloned().map(Problem::Lacking));
            entry.reading.wish(&entry.record, &entry.given, &self.settings)
        } else {
            // Problems of a Service that is not served are not reported.
            problems.clear();
            reading::Wish::default()
        };
        problems.extend(wish.problems);
        entry.was_ours |= !wish.wanted.is_empty();
        let whose = hands::look(entry, self.turns.get(name), &self.settings);
        if whose.iter().any(Problem::is_contest) {
            problems.retain(|problem| !problem.is_of_status());
        }
        problems.extend(whose);
        entry.for_status = wish.for_status;
        let told = std::mem::replace(&mut entry.problems, problems.clone());
        tell_change(name, told, &problems, commands);
        let before = std::mem::replace(&mut entry.wanted, wish.wanted.clone());
        for wanted in before.iter().filter(|wanted| wish.wanted.iter().all(|now| now.vip != wanted.vip)) {
            self.leave(name, wanted.vip);
        }
        for Wanted { vip, place } in wish.wanted {
            let services = &mut self.vips.entry(vip).or_default().services;
            match services.binary_search_by(|(service, _)| service.cmp(name)) {
                Ok(known) => services[known].1 = place,
                Err(gap) => {
                    services.reserve_exact(1);
                    services.insert(gap, (name.clone(), place));
                }
            }
            self.touched.vips.insert(vip);
        }
    }
}
