//! Index of Services and the VIPs that they want. It turns Services into demands for VIPs.
//!
//! An event marks the Services and VIPs that it touches, and only these are
//! evaluated again. So the cost of a change depends only on its Service and
//! on those that share a VIP with it. docs/SERVICES.md has the rules.

mod account;
mod endpoints;
mod hands;
mod ingress;
mod problem;
mod reading;
mod records;
mod refusal;
mod selection;
mod sharing;
mod standing;
#[cfg(test)]
mod tests;
mod types;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

pub use self::{
    account::{Account, Mention, Unserved},
    problem::{Malformed, Place, Problem, SeenBy, WayOut},
    records::{
        Annotations, EndpointsRecord, FIELD_MANAGER, HostAddress, HostNetwork, Ingress, IpMode,
        OtherController, Port, Protocol, ServiceRecord, StatusOwner,
    },
    refusal::Refusal,
    types::{Command, DEFAULT_CLASS, Event, Settings},
};
use self::{
    endpoints::Endpoints,
    hands::Turns,
    ingress::{Acceptance, Duty},
    reading::{Reading, Wanted},
    refusal::{Reserved, Verdict},
    selection::{Selection, Unselected},
    sharing::Member,
    standing::Standing,
};
use crate::{cluster::ServiceName, ownership::Demand};

/// A Service in the index, with its effects.
#[derive(Debug)]
struct ServiceEntry {
    record: Box<ServiceRecord>,
    reading: Reading,
    selection: Selection,
    wanted: Vec<Wanted>,
    /// The addresses of `wanted` that belong in its status.
    for_status: Vec<Ipv4Addr>,
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
    refusal: Option<Refusal>,
    demand: Option<Demand>,
    problems: Vec<(ServiceName, Problem)>,
}

/// Services and VIPs that an event has touched.
#[derive(Debug, Default)]
struct Touched {
    services: BTreeSet<ServiceName>,
    vips: BTreeSet<Ipv4Addr>,
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
    vips: BTreeMap<Ipv4Addr, Box<Vip>>,
    endpoints: Endpoints,
    /// Namespaces with the configured labels.
    namespaces: BTreeSet<Arc<str>>,
    reserved: Reserved,
    /// The standing of each VIP whose claim gives it one.
    claims: BTreeMap<Ipv4Addr, Standing>,
    /// VIPs that this node holds (true) or held before (false).
    held: BTreeMap<Ipv4Addr, bool>,
    touched: Touched,
    /// Services whose status has lately changed hands.
    turns: BTreeMap<ServiceName, Turns>,
    /// Services that were served and now have another type, with their uids.
    let_go: BTreeMap<ServiceName, Arc<str>>,
}

impl Services {
    /// Starts without a Service.
    pub fn start(settings: Settings) -> Self {
        Self {
            settings,
            synced: false,
            entries: BTreeMap::new(),
            vips: BTreeMap::new(),
            endpoints: Endpoints::default(),
            namespaces: BTreeSet::new(),
            reserved: Reserved::default(),
            claims: BTreeMap::new(),
            held: BTreeMap::new(),
            touched: Touched::default(),
            turns: BTreeMap::new(),
            let_go: BTreeMap::new(),
        }
    }

    /// Takes in an event. Returns the commands that follow from it.
    pub fn on_event(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        let mut listed = false;
        match event {
            Event::Service(record) => self.put_service(record, &mut commands),
            Event::ServiceGone(name) => {
                self.forget(&name, &mut commands);
                self.let_go.remove(&name);
            }
            Event::Slice(record) => {
                let changed = self.endpoints.put(record);
                self.touch_vips_of(&changed);
            }
            Event::SliceGone { namespace, slice } => {
                let changed = self.endpoints.remove(namespace, slice);
                self.touch_vips_of(&changed);
            }
            Event::Namespace { name, labels } => {
                let selector = self.settings.namespace_selector.as_ref();
                let matches = selector.is_some_and(|selector| selector.matches(&labels));
                self.put_namespace(name, matches);
            }
            Event::NamespaceGone(name) => self.put_namespace(name, false),
            Event::NodeAddresses { node, addresses } => {
                let changed = self.reserved.put_node(node, &addresses);
                self.touch_wanted(changed);
            }
            Event::NodeInterfaces { node, interfaces } => {
                let changed = self.reserved.put_interfaces(node, &interfaces);
                self.touch_wanted(changed);
            }
            Event::NodeGone(node) => {
                let changed = self.reserved.remove_node(&node);
                self.touch_wanted(changed);
            }
            Event::HostNetwork(network) => {
                let changed = self.reserved.put_host(&network);
                self.touch_wanted(changed);
            }
            Event::ApiEndpoints(addresses) => {
                let changed = self.reserved.put_api(&addresses);
                self.touch_wanted(changed);
            }
            Event::Claim { vip, was_held, force } => {
                self.put_claim(vip, Standing { is_held: was_held, is_forced: force });
            }
            Event::ClaimGone(vip) => self.put_claim(vip, Standing::default()),
            Event::Held { vip, here } => self.put_held(vip, here),
            Event::Synced => {
                self.synced = true;
                listed = true;
                self.touched.statuses.extend(self.entries.keys().cloned());
            }
        }
        if self.synced {
            self.look_again(listed, &mut commands);
        }
        commands
    }

    /// Returns the uid of a Service. Events about the Service refer to it.
    pub fn uid(&self, service: &ServiceName) -> Option<&Arc<str>> {
        self.entries.get(service).map(|entry| &entry.record.uid)
    }

    /// Returns the VIPs that a Service wants.
    pub fn vips(&self, service: &ServiceName) -> impl Iterator<Item = Ipv4Addr> {
        self.entries.get(service).into_iter().flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip)
    }

    fn put_service(&mut self, record: Box<ServiceRecord>, commands: &mut Vec<Command>) {
        if !record.load_balancer && record.status_owner() != StatusOwner::Vipward {
            return self.forget(&record.name, commands);
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
                entry.record = record;
            }
            None => {
                let was_ours = self.let_go.remove(&name).is_some_and(|uid| uid == record.uid);
                let entry = ServiceEntry {
                    record,
                    reading: Reading::default(),
                    selection: Err(Unselected::NotLoadBalancer),
                    wanted: Vec::new(),
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

    fn leave(&mut self, name: &ServiceName, vip: Ipv4Addr) {
        let known = self.vips.get_mut(&vip).expect("invariant: each wanted address is in the index");
        known.services.retain(|(service, _)| service != name);
        self.touched.vips.insert(vip);
    }

    fn put_namespace(&mut self, name: Arc<str>, matches: bool) {
        if self.namespaces.contains(&name) == matches {
            return;
        }
        let first = ServiceName { namespace: Arc::clone(&name), name: "".into() };
        let inside = self.entries.range(first..).take_while(|(service, _)| service.namespace == name);
        self.touched.services.extend(inside.map(|(service, _)| service.clone()));
        if matches {
            self.namespaces.insert(name);
        } else {
            self.namespaces.remove(&name);
        }
    }

    fn touch_vips_of(&mut self, services: &[ServiceName]) {
        let known = services.iter().filter_map(|service| self.entries.get(service));
        self.touched.vips.extend(known.flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip));
    }

    fn touch_wanted(&mut self, addresses: BTreeSet<Ipv4Addr>) {
        self.touched.vips.extend(addresses.into_iter().filter(|address| self.vips.contains_key(address)));
    }

    /// Evaluates everything that was touched: first Services, then their VIPs, then the statuses.
    fn look_again(&mut self, listed: bool, commands: &mut Vec<Command>) {
        let touched = std::mem::take(&mut self.touched);
        for name in &touched.services {
            self.assess(name, commands);
        }
        let mut vips = std::mem::take(&mut self.touched.vips);
        vips.extend(touched.vips);
        for vip in &vips {
            self.resolve(*vip, commands);
        }
        let mut statuses = std::mem::take(&mut self.touched.statuses);
        statuses.extend(touched.services);
        statuses.extend(touched.statuses);
        for name in &statuses {
            self.settle(name, listed, commands);
        }
        for vip in &vips {
            if !self.vips.contains_key(vip) && self.held.get(vip) == Some(&false) {
                self.held.remove(vip);
            }
        }
    }

    /// Evaluates the addresses that a Service wants.
    fn assess(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        // A touched Service may be gone by now.
        let Some(entry) = self.entries.get_mut(name) else { return };
        let mut problems = entry.reading.update(&entry.record);
        let namespace =
            self.settings.namespace_selector.is_none() || self.namespaces.contains(&name.namespace);
        entry.selection =
            selection::select(&entry.record, entry.reading.is_ignored(), namespace, &self.settings);
        let wish = if entry.selection.is_ok() {
            entry.reading.wish(&entry.record, &self.settings)
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

    /// Evaluates an address that Services want, or wanted.
    fn resolve(&mut self, address: Ipv4Addr, commands: &mut Vec<Command>) {
        let standing = self.note_standing(address);
        let Some(vip) = self.vips.get(&address) else { return };
        let verdict = self.reserved.judge(address, &self.settings.allow, standing);
        let (refusal, dispute) = match verdict {
            Verdict::Accepted => (None, None),
            Verdict::Disputed(why) => (None, Some(why)),
            Verdict::Refused(why) => (Some(why), None),
        };
        let (demand, problems) = if vip.services.is_empty() {
            (None, Vec::new())
        } else if let Some(why) = &refusal {
            let refused = |place| Problem::Refused { address, place, why: why.clone() };
            (None, vip.services.iter().map(|(name, place)| (name.clone(), refused(*place))).collect())
        } else {
            let members = vip.services.iter().map(|(name, _)| {
                let entry = self.entries.get(name).expect("invariant: the index has Services that are kept");
                Member {
                    name,
                    record: &entry.record,
                    limits: entry.reading.limits(),
                    reach: self.endpoints.reach(&entry.record, self.settings.withdraw_without_endpoints),
                }
            });
            let (mut demand, mut problems) = sharing::share(address, &members.collect::<Vec<_>>());
            demand.force = standing.is_forced;
            if let Some(why) = dispute {
                let disputed = Problem::Disputed { vip: address, why };
                problems.extend(vip.services.iter().map(|(name, _)| (name.clone(), disputed.clone())));
            }
            (Some(demand), problems)
        };
        let vip = self.vips.get_mut(&address).expect("invariant: it was there above");
        let told = std::mem::replace(&mut vip.problems, problems);
        tell_changes(&told, &vip.problems, commands);
        if vip.demand != demand {
            vip.demand.clone_from(&demand);
            commands.push(Command::Demand(address, demand));
        }
        if vip.refusal != refusal {
            vip.refusal = refusal;
            self.touched.statuses.extend(vip.services.iter().map(|(service, _)| service.clone()));
        }
        if vip.services.is_empty() {
            self.vips.remove(&address);
        }
    }

    /// Evaluates this node's task about a Service's status. The
    /// node keeps a task that it has begun until the task is done.
    fn settle(&mut self, name: &ServiceName, listed: bool, commands: &mut Vec<Command>) {
        let is_contested = self.is_contested(name);
        let Some(entry) = self.entries.get_mut(name) else { return };
        let acceptance = |address: &Ipv4Addr| {
            let refusal = self.vips.get(address).and_then(|vip| vip.refusal.as_ref());
            match refusal {
                None => Acceptance::Accepted,
                Some(refusal) if refusal.is_this_nodes_view() => Acceptance::RefusedHere,
                Some(_) => Acceptance::Refused,
            }
        };
        let for_status = entry.for_status.iter().map(|address| (*address, acceptance(address)));
        let due = ingress::due(&entry.record, &for_status.collect::<Vec<_>>());
        // Two controllers must not overwrite each other in turns.
        let due = due.filter(|due| !is_contested || *due == Duty::Clear);
        // A Service of another class may belong to another
        // installation, which clears its own statuses.
        let orphans = listed && entry.selection != Err(Unselected::Class);
        let duty = due.filter(|due| {
            entry.duty.as_ref() == Some(due) || ingress::is_ours(due, &entry.record, &self.held, orphans)
        });
        if entry.duty == duty {
            return;
        }
        let service = name.clone();
        commands.push(match &duty {
            Some(Duty::Write(addresses)) => Command::WriteIngress { service, addresses: addresses.clone() },
            Some(Duty::Clear) => Command::ClearIngress { service },
            None => Command::LeaveIngress { service },
        });
        entry.duty = duty;
    }
}

fn tell_change(service: &ServiceName, told: Vec<Problem>, now: &[Problem], commands: &mut Vec<Command>) {
    let new: Vec<_> = now.iter().filter(|problem| !told.contains(problem)).cloned().collect();
    let over = told.into_iter().filter(|problem| !now.contains(problem));
    commands.extend(over.map(|problem| Command::ProblemOver { service: service.clone(), problem }));
    commands.extend(new.into_iter().map(|problem| Command::Report { service: service.clone(), problem }));
}

fn tell_changes(
    told: &[(ServiceName, Problem)],
    now: &[(ServiceName, Problem)],
    commands: &mut Vec<Command>,
) {
    for (service, problem) in told.iter().filter(|told| !now.contains(told)).cloned() {
        commands.push(Command::ProblemOver { service, problem });
    }
    for (service, problem) in now.iter().filter(|new| !told.contains(new)).cloned() {
        commands.push(Command::Report { service, problem });
    }
}
