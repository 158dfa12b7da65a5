//! Events about Services and about what they depend on, and the time.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    super::{
        Command, Event, Problem, ServiceRecord, StatusOwner,
        addresses::ClaimSummary,
        reading::{Reading, Unselected},
        statuses::{Turns, is_of_status_only},
    },
    Index, Role, ServiceEntry,
    notifying::{notify_change, notify_changes},
};
use crate::{
    base::time::Monotonic,
    pools::Given,
    records::{NodeName, ServiceName},
};

impl Index {
    /// Records an event, and touches what depends on it. Returns the commands that follow at once.
    pub(crate) fn on_event(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
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
                self.touch_reach_of(changed);
            }
            Event::SliceGone { namespace, slice } => {
                let changed = self.endpoints.remove(namespace, slice);
                self.touch_reach_of(changed);
            }
            Event::Namespace { name, labels, share_with } => {
                let selector = self.settings.namespace_selector.as_ref();
                let matches = selector.is_some_and(|selector| selector.matches(&labels));
                self.put_namespace(&name, matches);
                self.put_consents(name, share_with);
            }
            Event::NamespaceGone(name) => {
                self.put_namespace(&name, false);
                self.put_consents(name, BTreeSet::new());
            }
            Event::NodeAddresses { node, addresses, pod_cidrs, labels: _ } => {
                let changed = self.reserved.put_node(node, &addresses, &pod_cidrs);
                self.touch_reserved(&changed);
            }
            Event::ServiceCidr { name, nets } => {
                let changed = self.reserved.put_service_cidr(&name, &nets);
                self.touch_reserved(&changed);
            }
            Event::NodeInterfaces { node, interfaces, session } => {
                let is_described = session.is_some() || !interfaces.is_empty();
                self.put_session(&node, session);
                // A Lease that another node has written describes nothing: the last description counts.
                if is_described || !self.reserved.has_node(&node) {
                    let changed = self.reserved.put_interfaces(node, &interfaces);
                    self.touch_reserved(&changed);
                }
            }
            // Its last Lease may have come after its Node was gone.
            Event::LeaseGone(node) if !self.reserved.has_node(&node) => self.drop_node(&node),
            // An agent has the leader, beside its index.
            Event::Leader(_) | Event::LeaseGone(_) => {}
            Event::Behind(is_behind) => self.holders.is_behind = is_behind,
            Event::Found(vips) => self.found = vips,
            Event::NodeGone(node) => self.drop_node(&node),
            Event::HostNetwork(network) => {
                self.holders.put_own(&network.node);
                let changed = self.reserved.put_host(&network);
                self.touch_reserved(&changed);
            }
            Event::ApiServers { slice, addresses } => {
                let changed = self.reserved.put_api_servers(slice, &addresses);
                self.touch_reserved(&changed);
            }
            Event::Claim { vip, was_held, sessions, force, services, reservation, release: _ } => {
                let (services, sessions) = (services.into(), sessions.into());
                let heir = reservation.filter(|it| it.kept.is_none()).map(|it| it.service);
                self.put_claim(vip, ClaimSummary { was_held, is_forced: force, services, sessions, heir });
            }
            Event::ClaimGone(vip) => self.put_claim(vip, ClaimSummary::default()),
            Event::Pool(change) => {
                for range in self.policies.on_change(&change) {
                    self.touched.vips.extend(self.vips.range(range.clone()).map(|(vip, _)| *vip));
                    self.touched.services.extend(self.leftovers.within(range).cloned());
                }
            }
            Event::Held { vip, here } => self.put_held(vip, here),
            Event::Synced => {
                self.synced = true;
                self.touched.listed = true;
                self.touched.statuses.extend(self.entries.keys().cloned());
            }
        }
        commands
    }

    fn drop_node(&mut self, node: &NodeName) {
        self.put_session(node, None);
        let changed = self.reserved.remove_node(node);
        self.touch_reserved(&changed);
    }

    /// Records the time. Ends contests that have been quiet for long enough, the patience with other
    /// controllers, and the precedence of VIPs without a holder.
    pub(crate) fn on_time(&mut self, now: Monotonic) {
        if self.next_deadline().is_none_or(|next| now < next) {
            return;
        }
        let touched = &mut self.touched.services;
        self.turns.retain(|service, turns| {
            let stands = turns.stand(now);
            if !stands {
                touched.insert(service.clone());
            }
            stands
        });
        touched.extend(self.patience.on_time(now));
        self.touched.vips.extend(self.holders.expire(now));
    }

    pub fn next_deadline(&self) -> Option<Monotonic> {
        let quiet = self.turns.values().map(Turns::deadline);
        quiet.chain(self.holders.next_deadline()).chain(self.patience.next_deadline()).min()
    }

    /// Has everything evaluated anew that depends on endpoints, if they were unknown until now.
    fn end_slices(&mut self) {
        if self.endpoints.end_list() {
            let withdraw = self.settings.withdraw_without_endpoints;
            let dependent = self.entries.iter().filter(|(_, entry)| entry.record.needs_endpoints(withdraw));
            let dependent: Vec<_> = dependent.map(|(service, _)| service.clone()).collect();
            self.touch_reach_of(dependent);
        }
    }

    /// Has everything evaluated anew that depends on where these Services have endpoints: also what a pool
    /// gives them.
    fn touch_reach_of(&mut self, services: Vec<ServiceName>) {
        self.touch_vips_of(&services);
        if self.role == Role::Controller {
            self.touched.services.extend(services);
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
        self.record_turn(&record);
        let name = record.name.clone();
        if self.uid(&name).is_some_and(|uid| *uid != record.uid) {
            self.end_problems(&name, commands);
        }
        match self.entries.get_mut(&name) {
            Some(entry) if entry.record == record => return,
            Some(entry) => {
                if entry.record.uid != record.uid {
                    entry.reading = Reading::default();
                    entry.was_ours = false;
                    self.turns.remove(&name);
                }
                if !entry.rivals.is_empty() && !is_of_status_only(&entry.record, &record) {
                    entry.rivals.clear();
                }
                entry.is_clearing &= entry.record.ingress == record.ingress;
                self.leftovers.remove(&entry.record);
                // The key keeps its texts: the new record's texts would be a second copy.
                record.name = entry.record.name.clone();
                self.leftovers.put(&record);
                entry.record = record;
            }
            None => {
                let was_ours = self.let_go.remove(&name).is_some_and(|uid| uid == record.uid);
                self.leftovers.put(&record);
                let entry = ServiceEntry {
                    record,
                    reading: Reading::default(),
                    selection: Err(Unselected::NotLoadBalancer),
                    wanted: Vec::new(),
                    given: Given::default(),
                    for_status: Vec::new(),
                    problems: Vec::new(),
                    duty: None,
                    is_clearing: false,
                    was_ours,
                    rivals: BTreeSet::new(),
                };
                self.entries.insert(name.clone(), Box::new(entry));
            }
        }
        self.touched.services.insert(name);
    }

    /// Ends the problems of a Service that is gone. Another one of its name has its own: an Event names the
    /// uid of its Service.
    fn end_problems(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        notify_change(name, std::mem::take(&mut entry.problems), &[], commands);
        for wanted in &entry.wanted {
            let Some(vip) = self.vips.get_mut(&wanted.vip) else { continue };
            let is_its = |(service, _): &(ServiceName, Problem)| service == name;
            let (ended, others): (Vec<_>, _) =
                std::mem::take(&mut vip.problems).into_iter().partition(is_its);
            vip.problems = others;
            notify_changes(&ended, &[], commands);
            self.touched.vips.insert(wanted.vip);
        }
    }

    fn forget(&mut self, name: &ServiceName, commands: &mut Vec<Command>) {
        self.end_problems(name, commands);
        let Some(entry) = self.entries.remove(name) else { return };
        self.leftovers.remove(&entry.record);
        // It requests nothing any more.
        self.touched.services.insert(name.clone());
        self.turns.remove(name);
        self.patience.is_over(name, false);
        // A Service that left by its class has been reported already.
        if entry.was_ours && entry.selection != Err(Unselected::Class) {
            self.let_go.insert(name.clone(), Arc::clone(&entry.record.uid));
        }
        for wanted in &entry.wanted {
            self.leave(name, wanted.vip);
        }
        if entry.duty.is_some() {
            commands.push(Command::LeaveIngress { service: name.clone() });
        }
    }
}
