//! Evaluation of one address: if it may be a VIP, which Services have it, and their demand.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    super::{
        Command, Place, Problem, Refusal,
        addresses::{ClaimSummary, Verdict, judge},
        sharing::{self, Consent, Member, Ports, Rank},
        statuses::Naming,
    },
    Index, Vip,
    notifying::notify_changes,
    rules::Origin,
};
use crate::{
    pools::Surroundings as _,
    records::{Demand, ServiceName},
};

#[derive(Default)]
struct Outcome {
    refusal: Option<Refusal>,
    demand: Option<Demand>,
    ports: Ports,
    problems: Vec<(ServiceName, Problem)>,
    ranks: Vec<Rank>,
}

impl Index {
    pub(crate) fn resolve(&mut self, address: IpAddr, origin: Origin<'_>) -> Vec<Command> {
        let mut commands = Vec::new();
        self.touched.resolved.insert(address);
        let summary = self.record_claim(address);
        if !self.vips.contains_key(&address) {
            return commands;
        }
        let others = self.reserved.others(address);
        let precedence = self.record_precedence(address, &summary, &others);
        let verdict = judge(address, &self.settings, others, |other| {
            precedence.keeps(other) || summary.is_forced && other.yields_to_force()
        });
        let naming = self.naming(address, &summary, origin);
        let Outcome { refusal, demand, ports, problems, ranks } =
            self.outcome(address, verdict, &summary, naming, origin);
        let is_left =
            naming == Naming::Named && !self.role.may_begin_to_name(origin, demand.as_ref(), &problems);
        let naming = if is_left { Naming::Left } else { naming };
        if let Some(limit) = self.settings.most_vips {
            self.touched.vips.append(&mut self.quotas.put(limit, address, ranks));
        }
        let vip = self.vips.get_mut(&address).expect("invariant: it was there above");
        let notified = std::mem::replace(&mut vip.problems, problems);
        notify_changes(&notified, &vip.problems, &mut commands);
        if (&vip.refusal, vip.naming) != (&refusal, naming) {
            self.touched.statuses.extend(vip.services.iter().map(|(service, _)| service.clone()));
        }
        if vip.demand != demand {
            self.touched.statuses.extend(&admitted(vip.demand.as_ref()) ^ &admitted(demand.as_ref()));
        }
        // Until a claim names the Services, they keep the order that was found.
        let former: Arc<[_]> = match &demand {
            Some(Demand { services, .. }) if summary.services.is_empty() && **services != *vip.former => {
                services.as_slice().into()
            }
            None if summary.services.is_empty() && !summary.was_held => Arc::default(),
            Some(_) | None => Arc::clone(&vip.former),
        };
        if vip.former != former {
            // The former Services decide which Services may have the VIP.
            vip.former = former;
            self.touched.vips.insert(address);
        }
        if demand.is_some() {
            let is_alone = |name: &ServiceName| vip.services.len() == 1 && vip.services[0].0 == *name;
            vip.ports = if vip.former.iter().all(is_alone) { Ports::new() } else { ports };
        }
        (vip.refusal, vip.naming) = (refusal, naming);
        if vip.demand != demand {
            vip.demand.clone_from(&demand);
            commands.push(Command::Demand(address, demand));
        }
        if vip.services.is_empty() {
            self.vips.remove(&address);
            self.holders.left.remove(&address);
        }
        commands
    }

    /// Records whether a Service may have a wanted address. Returns true if one may now, and none might
    /// before, or if no Service wants it any more.
    pub(crate) fn opens(&mut self, address: IpAddr) -> bool {
        let is_shut = self.refuses(address);
        let Some(vip) = self.vips.get_mut(&address) else { return !is_shut };
        std::mem::replace(&mut vip.is_shut, is_shut) && !is_shut
    }

    fn outcome(
        &self,
        address: IpAddr,
        verdict: Verdict,
        summary: &ClaimSummary,
        naming: Naming,
        origin: Origin<'_>,
    ) -> Outcome {
        let vip = &self.vips[&address];
        let dispute = match verdict {
            Verdict::Accepted => None,
            Verdict::Disputed(why) => Some(why),
            Verdict::Refused(why) => {
                let refused = |(name, place): &(ServiceName, Place)| {
                    (name.clone(), Problem::Refused { address, place: *place, why: why.clone() })
                };
                let problems = vip.services.iter().map(refused).collect();
                return Outcome { refusal: Some(why), problems, ..Outcome::default() };
            }
        };
        let is_elsewhere = self.reserved.is_elsewhere(address, &self.settings, summary.was_held);
        let ranks = self.ranks(vip, summary);
        let beyond = self.beyond_limit(address, &ranks);
        let mut problems = Vec::new();
        let mut members = Vec::new();
        for (name, place) in &vip.services {
            let place = *place;
            let problem = if is_elsewhere && !place.is_for_controllers() {
                Problem::Refused { address, place, why: Refusal::NoSegment }
            } else if let Some(limit) = beyond.get(&*name.namespace) {
                Problem::TooManyVips { vip: address, place, limit: *limit }
            } else {
                members.push(self.member(name, place));
                continue;
            };
            problems.push((name.clone(), problem));
        }
        let members = sharing::in_order(address, members, &vip.former, &vip.ports);
        let consent = Consent {
            listed: &self.consents,
            metallb: self.role.shares_by_metallb(origin, &self.settings),
            metallb_kept: self.role.kept_by_metallb(origin, &self.settings),
        };
        let (members, ports, mut unshared) = sharing::admit(address, members, &vip.former, consent);
        problems.append(&mut unshared);
        if members.is_empty() {
            return Outcome { problems, ranks, ..Outcome::default() };
        }
        let withdraw = self.settings.withdraw_without_endpoints;
        let reach = |record: &_| self.endpoints.reach(record, address, withdraw);
        let (mut demand, mut combined) = sharing::combine(address, &members, &summary.sessions, reach);
        problems.append(&mut combined);
        let labels: Vec<_> = members.iter().map(|member| &member.record.labels).collect();
        demand.policy = self.policies.of(address, &labels);
        demand.force = summary.is_forced;
        demand.together = self.together(members[0].name);
        if let Some(why) = dispute {
            let disputed = Problem::Disputed { vip: address, why };
            problems.extend(members.iter().map(|member| (member.name.clone(), disputed.clone())));
        }
        if naming == Naming::Unconfirmed {
            let unnamed = members.iter().filter(|member| !member.record.has_in_status(address));
            problems
                .extend(unnamed.map(|member| (member.name.clone(), Problem::Unconfirmed { vip: address })));
        }
        Outcome { refusal: None, demand: Some(demand), ports, problems, ranks }
    }

    /// Returns the VIPs of a Service that stay on one node. One alone has nothing to stay with.
    fn together(&self, owner: &ServiceName) -> Vec<IpAddr> {
        let entry =
            self.entries.get(owner).filter(|entry| entry.reading.is_together() && entry.wanted.len() > 1);
        let mut vips: Vec<_> =
            entry.into_iter().flat_map(|entry| &entry.wanted).map(|wanted| wanted.vip).collect();
        vips.sort_unstable();
        vips
    }

    fn member<'a>(&'a self, name: &'a ServiceName, place: Place) -> Member<'a> {
        let entry = self.entries.get(name).expect("invariant: the index has Services that are kept");
        Member { name, place, record: &entry.record, limits: entry.reading.limits() }
    }

    /// Returns the places of an address among those that its Services' namespaces want, if their
    /// number is limited.
    fn ranks(&self, vip: &Vip, summary: &ClaimSummary) -> Vec<Rank> {
        if self.settings.most_vips.is_none() {
            return Vec::new();
        }
        let has_had_it = |namespace: &Arc<str>| {
            let mut former = vip.former.iter();
            summary.was_held && (vip.former.is_empty() || former.any(|name| name.namespace == *namespace))
        };
        let mut oldest = BTreeMap::new();
        for (name, _) in &vip.services {
            let created = self.entries[name].record.created;
            let known = oldest.entry(&name.namespace).or_insert(created);
            *known = created.min(*known);
        }
        let rank = |(namespace, created): (&Arc<str>, i64)| Rank {
            namespace: Arc::clone(namespace),
            is_new: !has_had_it(namespace),
            created,
        };
        oldest.into_iter().map(rank).collect()
    }

    /// Returns the namespaces for which the address is beyond the limit, each with the limit.
    fn beyond_limit<'a>(&self, vip: IpAddr, ranks: &'a [Rank]) -> BTreeMap<&'a str, usize> {
        let Some(limit) = self.settings.most_vips else { return BTreeMap::new() };
        let is_beyond = |rank: &&Rank| rank.is_new && !self.quotas.is_among_first(limit, vip, rank);
        ranks.iter().filter(is_beyond).map(|rank| (&*rank.namespace, limit)).collect()
    }
}

fn admitted(demand: Option<&Demand>) -> BTreeSet<ServiceName> {
    demand.into_iter().flat_map(|demand| &demand.services).cloned().collect()
}
